package sqlletters

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"

	"github.com/gabion-go/gabion/deadletter"
)

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
		w.and("kept < ?", deadletter.Nanos(q.Before))
	}
	if !q.After.IsZero() {
		w.and("kept >= ?", deadletter.Nanos(q.After))
	}
	if from != (deadletter.Place{}) {
		w.and("(kept, id) > (?, ?)", from.Kept, d.id(from.ID))
	}
	return w
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
	for _, state := range q.In() { // each by the index, in their order
		some, err := s.list(ctx, s.dialect.pick(&q, state, place), limit+1)
		if err != nil {
			return deadletter.Page{}, clear(err)
		}
		p.Letters = append(p.Letters, some...)
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

func (s *Store) list(ctx context.Context, w *where, limit int) (all []deadletter.Letter, err error) {
	text := s.dialect.bind(strings.ReplaceAll(s.sql.listChunk, "{where}", w.String()))
	rows, err := s.db.QueryContext(ctx, text, append(w.args, limit)...)
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

// Groups implements [deadletter.Store].
func (s *Store) Groups(ctx context.Context) (all []string, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	rows, err := s.db.QueryContext(ctx, s.sql.groups)
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
	of, args := "", []any{}
	if group != "" {
		of, args = "AND grp = ?", append(args, s.dialect.str(group))
	}
	var kept int64
	err = s.db.QueryRowContext(ctx, s.dialect.bind(strings.ReplaceAll(s.sql.oldest, "{of}", of)), args...).Scan(&kept)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return deadletter.Stats{}, clear(err)
	}
	all.Oldest = deadletter.Time(kept)
	return all, nil
}

// stats sums up the counts.
func (s *Store) stats(ctx context.Context, group string) (all deadletter.Stats, err error) {
	rows, err := s.db.QueryContext(ctx, s.sql.stats, s.dialect.str(group), number(group == ""))
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
