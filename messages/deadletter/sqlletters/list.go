package sqlletters

import (
	"context"
	"database/sql"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/gabion-go/gabion/messages/deadletter"
)

// listTexts read the letters that a query picks. Their conditions are filled in later.
type listTexts struct {
	letters string
	tally   string
	oldest  string
	newest  string
}

func listStatements(fill func(string) string) listTexts {
	return listTexts{
		letters: fill(`SELECT {columns} FROM {t} WHERE {where} ORDER BY kept, id LIMIT ?`),
		tally:   fill(`SELECT grp, state, reason, held, count(*) AS n FROM {t} WHERE {where} GROUP BY grp, state, reason, held`),
		oldest:  fill(`SELECT min(kept) FROM {t} WHERE {where}`),
		newest:  fill(`SELECT max(kept) AS kept FROM {t} WHERE {where}`),
	}
}

// A where is a condition with its arguments.
type where struct {
	d     Dialect
	parts []string
	args  []any
}

func (w *where) and(part string, args ...any) {
	w.parts = append(w.parts, part)
	w.args = append(w.args, args...)
}

func (w *where) String() string { return strings.Join(w.parts, " AND ") }

// fill puts the condition into a statement, to be used once.
func (w *where) fill(text string) string {
	return w.d.kit.Bind(strings.ReplaceAll(text, "{where}", w.String()))
}

// pick is the condition of a query, in one state and after a place.
func (d Dialect) pick(q *deadletter.Query, state deadletter.State, from deadletter.Place) *where {
	w := &where{d: d}
	if len(q.IDs) > 0 || q.Prefix != "" {
		w.and("state + 0 = ?", int(state)) // the few that are named are found by their IDs
	} else {
		w.and("state = ?", int(state))
	}
	group := "grp"
	if q.Reason != "" { // which is rarer than a group
		group = d.aside + group
	}
	for _, c := range []struct{ column, want string }{{group, q.Group}, {"source", q.Source}, {"reason", q.Reason}} {
		if c.want != "" {
			w.and(c.column+" = ?", d.str(c.want))
		}
	}
	if len(q.IDs) > 0 {
		args := make([]any, len(q.IDs))
		for i, id := range q.IDs {
			args[i] = d.id(id)
		}
		w.and("id IN (?"+strings.Repeat(", ?", len(args)-1)+")", args...)
	}
	if q.Prefix != "" {
		w.and("id >= ? AND id < ?", d.str(q.Prefix), d.str(q.Prefix+"g"))
	}
	if !q.Before.IsZero() {
		w.and("kept < ?", nanos(q.Before))
	}
	if !q.After.IsZero() {
		w.and("kept >= ?", nanos(q.After))
	}
	if from != (deadletter.Place{}) {
		w.and("(kept, id) > (?, ?)", from.Kept, d.id(from.ID))
	}
	return w
}

// nanos is a time to compare with. One that no letter can have is beyond all of them.
func nanos(t time.Time) int64 {
	switch first, last := time.Unix(0, math.MinInt64), time.Unix(0, math.MaxInt64); {
	case t.Before(first):
		return math.MinInt64
	case t.After(last):
		return math.MaxInt64
	}
	return t.UnixNano()
}

// List implements [deadletter.Store].
func (s *Store) List(ctx context.Context, q deadletter.Query, from string, limit int) (deadletter.Page, error) {
	limit, err := deadletter.Limit(limit)
	place, wrong := deadletter.ParsePlace(from)
	for _, err := range []error{ctx.Err(), err, wrong, q.Validate()} {
		if err != nil {
			return deadletter.Page{}, err
		}
	}
	var p deadletter.Page
	if p.Letters, err = s.list(ctx, &q, place, limit+1); err != nil {
		return deadletter.Page{}, clear(err)
	}
	slices.SortFunc(p.Letters, func(a, b deadletter.Letter) int {
		return deadletter.PlaceOf(&a).Compare(deadletter.PlaceOf(&b))
	})
	if len(p.Letters) > limit {
		p.Letters = slices.Clip(p.Letters[:limit])
		p.Next = deadletter.PlaceOf(&p.Letters[limit-1]).String()
	}
	return p, nil
}

// each is a statement with a part for each state, by the index and so in its order. It is one
// statement, and so sees one moment: a letter that comes from one state into another
// is in one of them.
func (d Dialect) each(q *deadletter.Query, from deadletter.Place, text string, more ...any) (string, []any) {
	var parts []string
	var args []any
	for _, state := range q.In() {
		w := d.pick(q, state, from)
		parts = append(parts, "SELECT * FROM ("+strings.ReplaceAll(text, "{where}", w.String())+") AS x")
		args = append(append(args, w.args...), more...)
	}
	return d.kit.Bind(strings.Join(parts, " UNION ALL ")), args
}

// list reads up to limit letters of each state.
func (s *Store) list(ctx context.Context, q *deadletter.Query, from deadletter.Place, limit int) (all []deadletter.Letter, err error) {
	text, args := s.dialect.each(q, from, s.sql.list.letters, limit)
	rows, err := s.db.QueryContext(ctx, text, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		r, err := readLetter(rows, false)
		if err != nil {
			return nil, err
		}
		all = append(all, r.Letter)
	}
	return all, rows.Err()
}

// Count implements [deadletter.Store]. What only a group, a reason and states pick is counted
// already; for all else the database looks at what an index narrows down.
func (s *Store) Count(ctx context.Context, q deadletter.Query) ([]deadletter.Tally, error) {
	for _, err := range []error{ctx.Err(), q.Validate()} {
		if err != nil {
			return nil, err
		}
	}
	text, args := s.dialect.each(&q, deadletter.Place{}, s.sql.list.tally)
	if q.Source == "" && len(q.IDs) == 0 && q.Prefix == "" && q.Before.IsZero() && q.After.IsZero() {
		text, args = s.dialect.each(&q, deadletter.Place{}, s.sql.counter.sum)
	}
	all, err := tallies(s.db.QueryContext(ctx, text, args...))
	return all, clear(err)
}

func tallies(rows *sql.Rows, err error) (all []deadletter.Tally, _ error) {
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var one deadletter.Tally
		if err := rows.Scan(&one.Group, &one.State, &one.Reason, &one.Unresolved, &one.Letters); err != nil {
			return nil, err
		}
		if one.Letters > 0 {
			all = deadletter.AddTally(all, one)
		}
	}
	return all, rows.Err()
}

// Groups implements [deadletter.Store].
func (s *Store) Groups(ctx context.Context) (all []string, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	rows, err := s.db.QueryContext(ctx, s.sql.counter.groups)
	if err != nil {
		return nil, clear(err)
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, clear(err)
		}
		all = append(all, name)
	}
	return all, clear(rows.Err())
}

// Stats implements [deadletter.Store].
func (s *Store) Stats(ctx context.Context, group string) (deadletter.Stats, error) {
	if err := ctx.Err(); err != nil {
		return deadletter.Stats{}, err
	}
	all, err := s.stats(ctx, group)
	if err != nil {
		return deadletter.Stats{}, clear(err)
	}
	text, args := s.dialect.each(&deadletter.Query{Group: group}, deadletter.Place{}, s.sql.list.oldest)
	var kept sql.NullInt64
	err = s.db.QueryRowContext(ctx, text, args...).Scan(&kept)
	if err == nil {
		all.Oldest = deadletter.Time(kept.Int64)
		text, args = s.dialect.each(&deadletter.Query{Group: group, States: every}, deadletter.Place{}, s.sql.list.newest)
		err = s.db.QueryRowContext(ctx, "SELECT max(kept) FROM ("+text+") AS y", args...).Scan(&kept)
	}
	if err != nil {
		return deadletter.Stats{}, clear(err)
	}
	all.Newest = deadletter.Time(kept.Int64)
	return all, nil
}

// every state that a letter can be in.
var every = []deadletter.State{deadletter.Waiting, deadletter.Taken, deadletter.Done, deadletter.Dropped}

// stats sums up the counts.
func (s *Store) stats(ctx context.Context, group string) (all deadletter.Stats, err error) {
	rows, err := s.db.QueryContext(ctx, s.sql.counter.stats, s.dialect.str(group), number(group == ""))
	if err != nil {
		return all, err
	}
	defer rows.Close()
	for rows.Next() {
		var state, held int
		var reason string
		var n, bytes int64
		if err := rows.Scan(&state, &reason, &held, &n, &bytes); err != nil {
			return all, err
		}
		if state == countPut {
			all.Put += n
		} else {
			all.Count(deadletter.State(state), reason, held == 1, int(n), bytes)
		}
	}
	return all, rows.Err()
}
