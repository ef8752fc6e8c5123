package sqlletters

import (
	"context"
	"slices"
	"time"

	"github.com/gabion-go/gabion/deadletter"
)

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
	driving, _, err := t.open(group)
	for _, was := range driving {
		c := was.At(t.now)
		if err != nil || len(got.taken) > 0 {
			break
		}
		if c.State == deadletter.Driving {
			most, wait := c.Due(n, t.now)
			var later time.Duration
			if got.taken, later, c, err = t.takeFrom(c, most, lease); err != nil {
				break
			}
			got.again = c.Again(n, most, len(got.taken), wait, later)
			c = c.Take(len(got.taken), t.now).At(t.now)
		}
		if c != was {
			err = t.saveDrive(c)
		}
		if c.State == deadletter.Driving {
			break
		}
	}
	return got, err
}

// takeFrom takes letters of one redrive. Later says when there may be more than there were.
func (t *tx) takeFrom(c deadletter.Course, most int, lease time.Duration) (taken []deadletter.Lease, later time.Duration, _ deadletter.Course, err error) {
	all, held, err := t.choose(&c, most)
	for _, r := range all {
		if err != nil || len(taken) == most || c.State != deadletter.Driving {
			break
		}
		next := r
		if r.State == deadletter.Taken {
			if held.Suspect {
				later = deadletter.OrderWait
				continue
			}
			var again bool
			if next, c, again = held.Lose(r, c, t.now); !again {
				later, err = 1, t.save(r, next) // there may be more behind it
			}
			if !again || c.State != deadletter.Driving {
				continue
			}
		}
		next = next.Take(t.taker, t.now.Add(lease), t.now)
		if err = t.save(r, next); err == nil {
			taken = append(taken, deadletter.Lease{Letter: next.Letter, Token: next.Token})
		}
	}
	if err == nil && c.State != deadletter.Driving {
		c, _, err = t.ended(c, nil)
		return taken, later, c, err
	}
	if err == nil && len(taken) < most {
		var others time.Duration
		others, err = t.others(&c)
		later = deadletter.Sooner(later, others)
	}
	return taken, later, c, err
}

// ended lets what is left of a redrive wait again that has just stopped.
func (t *tx) ended(c deadletter.Course, err error) (deadletter.Course, int64, error) {
	if err != nil || c.State == deadletter.Finished {
		return c, 0, err
	}
	return t.release(c)
}

// others returns how long until there may be letters that others have, or that wait for those:
// zero if there are none.
func (t *tx) others(c *deadletter.Course) (d time.Duration, err error) {
	if err := t.write(); err != nil {
		return 0, err
	}
	var until, blocked int64
	drive := t.dialect.str(c.ID)
	err = t.q.QueryRowContext(t, t.sql.others, drive, deadletter.Nanos(t.now), t.dialect.str(c.Group), drive).Scan(&until, &blocked)
	if until != 0 {
		d = max(deadletter.Time(until).Sub(t.now), 1)
	}
	if blocked > 0 {
		d = deadletter.Sooner(d, deadletter.OrderWait)
	}
	return d, err
}

// choose returns the letters that may be taken, and if some of them were lost what others have.
func (t *tx) choose(c *deadletter.Course, most int) (all []deadletter.Record, held deadletter.Held, err error) {
	all, err = t.candidates(c, candidates{lost: most, others: most, all: most})
	if err != nil || !slices.ContainsFunc(all, func(r deadletter.Record) bool { return r.State == deadletter.Taken }) {
		return all, held, err
	}
	if held, err = t.held(c); err == nil { // those that were lost may not be all that may be taken
		all, err = t.candidates(c, candidates{lost: most + moreHeads, others: most, all: 3 * (most + moreHeads)})
	}
	return all, held, err
}

// held returns what consumers have of a redrive.
func (t *tx) held(c *deadletter.Course) (held deadletter.Held, _ error) {
	rows, err := t.q.QueryContext(t, t.sql.taken, t.dialect.str(c.ID), mostHeld)
	if err != nil {
		return held, err
	}
	defer rows.Close()
	for rows.Next() {
		var until, since int64
		var newest []byte
		r := deadletter.Record{Letter: deadletter.Letter{State: deadletter.Taken}}
		if err := rows.Scan(&r.Token, &until, &since, &newest); err != nil {
			return held, err
		}
		r.Until, r.Since = deadletter.Time(until), deadletter.Time(since)
		if r.Failures, err = readFailures(newest); err != nil {
			return held, err
		}
		held.Add(r, t.taker, t.now)
	}
	return held, rows.Err()
}

// mostHeld bounds how many letters are looked at that consumers have, once one was lost.
const mostHeld = 10_000

// moreHeads is how many orders are looked at beyond those that are wanted, so that one order
// with many letters does not keep back older ones of others.
const moreHeads = 16

// mostBlocked is how many orders are looked at in vain, with the write lock held: consumers wait
// for it that put letters away.
const mostBlocked = 256

// candidates says how many letters of a redrive are wanted: of those that consumers had and lost,
// of the others, and in all.
type candidates struct{ lost, others, all int }

// candidates are the letters of a redrive that may be taken, the oldest first: those that others
// had and lost, those without an order, and of each order the oldest, unless somebody has another
// of it.
func (t *tx) candidates(c *deadletter.Course, want candidates) (all []deadletter.Record, err error) {
	if want.all == 0 {
		return nil, nil
	}
	drive, group, now := t.dialect.str(c.ID), t.dialect.str(c.Group), deadletter.Nanos(t.now)
	heads := 0
	if want.others > 0 {
		heads = want.others + moreHeads
	}
	all, err = t.records(t.sql.candidates, drive, now, now, want.lost, drive, want.others, drive, drive, drive, drive, heads+mostBlocked, group, heads, want.all)
	all = slices.DeleteFunc(all, func(r deadletter.Record) bool { return r.Drive != c.ID || !r.Takeable(t.now) })
	slices.SortFunc(all, func(a, b deadletter.Record) int {
		return deadletter.PlaceOf(&a.Letter).Compare(deadletter.PlaceOf(&b.Letter))
	})
	return all, err
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
