package sqlletters

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gabion-go/gabion/messages/deadletter"
)

// courseTexts are about redrives, and the letters that one picks.
type courseTexts struct {
	read   string // by its group
	named  string // by its ID
	order  string
	update string
	list   string
	sweep  string
	taken  string // the letters that a group's consumers have
	pick   string // of letters what decides about their taking
	total  string // how many letters are picked
}

func courseStatements(fill func(string) string) courseTexts {
	return courseTexts{
		read:  fill(`SELECT {course} FROM {t}_redrives WHERE grp = ?{rows}`),
		named: fill(`SELECT {course} FROM {t}_redrives WHERE id = ?{rows}`),
		order: fill(`INSERT INTO {t}_redrives ({course}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (grp) DO UPDATE SET
			id = excluded.id, query = excluded.query, rate = excluded.rate, by_whom = excluded.by_whom, made = excluded.made, state = excluded.state, why = excluded.why,
			total = excluded.total, done = excluded.done, failed = excluded.failed, next = excluded.next, passed = excluded.passed, outcomes = excluded.outcomes,
			holder = excluded.holder, seen = excluded.seen WHERE {t}_redrives.state <> 0 OR {t}_redrives.done + {t}_redrives.failed >= {t}_redrives.total`),
		update: fill(`UPDATE {t}_redrives SET state = ?, why = ?, done = ?, failed = ?, next = ?, passed = ?, outcomes = ?, holder = ?, seen = ? WHERE id = ?`),
		list:   fill(`SELECT {course} FROM {t}_redrives WHERE grp = ? OR ? = 1 ORDER BY made DESC, id DESC LIMIT 1000`),
		sweep:  fill(`DELETE FROM {t}_redrives WHERE made < ? AND state <> 0`),
		taken:  fill(`SELECT {columns} FROM {t} WHERE grp = ? AND state = 1 ORDER BY until LIMIT ?`),
		pick:   fill(`SELECT id, kept, ord, newest FROM {t} WHERE {where} ORDER BY kept, id LIMIT ?`),
		total:  fill(`SELECT count(*) FROM {t} WHERE {where}`),
	}
}

// course reads the redrive of a group to change it; the zero course means that the group has none.
// All who need letters too take it before these.
func (t *tx) course(group string) (deadletter.Course, error) {
	c, err := readCourse(t.q.QueryRowContext(t, t.sql.course.read, t.dialect.str(group)))
	return c, none(err)
}

func (t *tx) saveCourse(c deadletter.Course) error {
	if c.ID == "" {
		return nil
	}
	_, err := t.q.ExecContext(t, t.sql.course.update, t.dialect.courseUpdate(&c)...)
	return err
}

// Order implements [deadletter.Store]. It writes the query, and changes no letter.
func (s *Store) Order(ctx context.Context, q deadletter.Query, d deadletter.Drive) (deadletter.Drive, error) {
	if err := q.Validate(); err != nil {
		return deadletter.Drive{}, err
	}
	group := cmp.Or(d.Group, q.Group)
	err := s.change(ctx, "", func(t *tx) error {
		c, err := t.course(group)
		if err == nil {
			_, c, err = t.lapse(c, group)
		}
		if err == nil {
			err = c.Busy()
		}
		if err == nil {
			err = t.resolved(q, group)
		}
		return err
	})
	if err != nil {
		return deadletter.Drive{}, err
	}
	total, err := s.total(ctx, q, group)
	if err != nil {
		return deadletter.Drive{}, clear(err)
	}
	id, made := deadletter.NewDrive(), new(deadletter.Drive)
	err = s.change(ctx, "", func(t *tx) error {
		c, err := deadletter.NewCourse(q, d, id, total, t.now)
		if err != nil {
			return err
		}
		*made = c.Drive
		res, err := t.q.ExecContext(t, t.sql.course.order, t.dialect.courseValues(&c)...)
		if err != nil {
			return err
		}
		if n, err := res.RowsAffected(); n == 1 || err != nil {
			return err
		}
		if c, err = t.course(group); err != nil {
			return err
		}
		return cmp.Or(c.Busy(), deadletter.ErrBusy)
	})
	if err != nil {
		return deadletter.Drive{}, err
	}
	return *made, nil
}

// total counts what a query picks in a group, waits and needs no Resolution. It only reads, so that
// no writer waits for it.
func (s *Store) total(ctx context.Context, q deadletter.Query, group string) (n int, err error) {
	if !slices.Contains(q.In(), deadletter.Waiting) || q.Group != "" && q.Group != group {
		return 0, nil
	}
	q.Group = group
	w := s.dialect.pick(&q, deadletter.Waiting, deadletter.Place{})
	w.and("held = 0")
	err = s.db.QueryRowContext(ctx, w.fill(s.sql.course.total), w.args...).Scan(&n)
	return n, err
}

// resolved returns ErrUnresolved if a query names a letter that wants a Resolution.
func (t *tx) resolved(q deadletter.Query, group string) error {
	if len(q.IDs) == 0 || !slices.Contains(q.In(), deadletter.Waiting) {
		return nil
	}
	q.Group = group
	w := t.dialect.pick(&q, deadletter.Waiting, deadletter.Place{})
	w.and("held = 1")
	some, err := t.some(w, 1)
	if err != nil || len(some) == 0 {
		return err
	}
	return deadletter.NotResolved(some[0].ID)
}

// Drives implements [deadletter.Store].
func (s *Store) Drives(ctx context.Context, group string) (all []deadletter.Drive, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	rows, err := s.db.QueryContext(ctx, s.sql.course.list, s.dialect.str(group), number(group == ""))
	if err != nil {
		return nil, clear(err)
	}
	defer rows.Close()
	for rows.Next() {
		c, err := readCourse(rows)
		if err != nil {
			return nil, clear(err)
		}
		all = append(all, c.Drive)
	}
	return all, clear(rows.Err())
}

// Stop implements [deadletter.Store].
func (s *Store) Stop(ctx context.Context, drive, by, why string) error {
	return s.change(ctx, "", func(t *tx) error {
		c, err := readCourse(t.q.QueryRowContext(t, t.sql.course.named, t.dialect.str(drive)))
		if errors.Is(err, sql.ErrNoRows) {
			return fmt.Errorf("%w: redrive %.40q", deadletter.ErrNotFound, drive)
		}
		if err != nil {
			return err
		}
		return t.saveCourse(c.Stop(by, why))
	})
}

// Take implements [deadletter.Store].
func (s *Store) Take(ctx context.Context, group string, n int, lease time.Duration) ([]deadletter.Lease, time.Duration, error) {
	if err := deadletter.CheckTake(group, n, lease); err != nil {
		return nil, 0, err
	}
	got := new(taking)
	err := s.change(ctx, "", func(t *tx) (err error) {
		*got, err = t.take(group, n, lease)
		return err
	})
	if err != nil {
		return nil, 0, err
	}
	return got.taken, got.again, nil
}

// A taking is what came of one.
type taking struct {
	taken []deadletter.Lease
	again time.Duration
}

func (t *tx) take(group string, n int, lease time.Duration) (got taking, err error) {
	c, err := t.course(group)
	if err != nil {
		return got, err
	}
	alive, c, err := t.lapse(c, group)
	if err != nil || c.ID == "" || c.State != deadletter.Driving {
		return got, err
	}
	if c, got.again = c.Hold(t.taker, lease, t.now); got.again > 0 {
		return got, nil
	}
	most, wait := c.Due(n, t.now)
	chosen, err := t.choose(&c, most, alive)
	if err != nil {
		return got, err
	}
	letters, err := t.loadAll(chosen.IDs)
	if err != nil {
		return got, err
	}
	for _, id := range chosen.IDs {
		r := letters[id]
		if !c.Picks(&r.Letter) {
			continue // it was changed in between
		}
		next := r.Take(c.ID, t.taker, t.now.Add(lease), t.now)
		if err := t.save(r, next); err != nil {
			return got, err
		}
		got.taken = append(got.taken, deadletter.Lease{Letter: next.Letter, Token: next.Token})
	}
	c, got.again = chosen.End(n, wait, t.now)
	return got, t.saveCourse(c)
}

// mostTaken bounds how many letters are looked at that consumers have.
const mostTaken = 10_000

// lapse lets letters of a group wait again whose leases are over, and returns those that are taken.
func (t *tx) lapse(c deadletter.Course, group string) (alive []deadletter.Stored, _ deadletter.Course, err error) {
	all, err := t.records(false, t.sql.course.taken, t.dialect.str(group), mostTaken)
	var ids []deadletter.ID
	for _, r := range all {
		if r.Lapsed(t.now) {
			ids = append(ids, r.ID)
		} else {
			alive = append(alive, r)
		}
	}
	if err != nil || len(ids) == 0 {
		return alive, c, err
	}
	letters, err := t.loadAll(ids)
	var lost []deadletter.Stored
	for _, id := range ids {
		if r := letters[id]; r.Lapsed(t.now) {
			lost = append(lost, r)
		}
	}
	next, c := c.Lose(lost, alive, t.now)
	for i := range lost {
		if err == nil {
			err = t.save(lost[i], next[i])
		}
	}
	if err == nil {
		err = t.saveCourse(c)
	}
	return alive, c, err
}

// Letters are looked at in pages, of which there are a few: the write lock is held meanwhile, for which
// consumers wait that put letters away. Behind 10,000 letters that wait for others of their order, none
// is found.
const (
	pageRows  = 1000
	mostPages = 10
)

// choose looks for letters that a redrive may take.
func (t *tx) choose(c *deadletter.Course, most int, alive []deadletter.Stored) (*deadletter.Taking, error) {
	chosen, rows, from := c.Begin(most, alive, t.now), most+1, deadletter.Place{}
	for range mostPages {
		w := t.dialect.pick(&c.Query, deadletter.Waiting, from)
		w.and("held = 0 AND drive <> ?", t.dialect.str(c.ID))
		if !c.After.IsZero() {
			w.and("kept >= ?", nanos(c.After))
		}
		some, err := t.some(w, rows)
		if err != nil {
			return nil, err
		}
		for i := range some {
			chosen.Offer(&some[i])
		}
		if len(some) < rows || chosen.Full() {
			break
		}
		from, rows = deadletter.PlaceOf(&some[len(some)-1]), pageRows
	}
	return chosen, nil
}

// some reads what decides about the taking of letters, the oldest first.
func (t *tx) some(w *where, most int) (all []deadletter.Letter, err error) {
	if err := t.write(); err != nil {
		return nil, err
	}
	rows, err := t.q.QueryContext(t, w.fill(t.sql.course.pick), append(w.args, most)...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var l deadletter.Letter
		var kept int64
		var newest []byte
		if err := rows.Scan(&l.ID, &kept, &l.Order, &newest); err != nil {
			return nil, err
		}
		l.Kept = deadletter.Time(kept)
		if l.Failures, err = readFailures(newest); err != nil {
			return nil, err
		}
		all = append(all, l)
	}
	return all, rows.Err()
}

// Extend implements [deadletter.Store].
func (s *Store) Extend(ctx context.Context, l deadletter.Lease, lease time.Duration) error {
	return s.change(ctx, l.ID, func(t *tx) error {
		r, err := t.load(l.ID)
		if err != nil {
			return err
		}
		next, err := r.Extend(l.Token, t.now.Add(lease))
		if err != nil {
			return err
		}
		return t.save(r, next)
	})
}
