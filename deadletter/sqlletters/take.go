package sqlletters

import (
	"context"
	"database/sql"
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

// A candidate is a letter that may be taken.
type candidate struct {
	deadletter.Place
	order string
}

// takeFrom takes letters of one redrive. Later says when there may be more than there were.
func (t *tx) takeFrom(c deadletter.Course, most int, lease time.Duration) (taken []deadletter.Lease, later time.Duration, _ deadletter.Course, err error) {
	all, blocked, err := t.candidates(&c, most)
	for _, one := range all {
		if err != nil || len(taken) == most {
			break
		}
		var r deadletter.Record
		if r, err = t.load(one.ID); err != nil {
			break
		}
		if r.Drive != c.ID || !r.Takeable(t.now) {
			continue
		}
		next := r
		if r.State == deadletter.Taken {
			var again bool
			if next, again = r.Lost(t.now); again {
				c = c.Lose()
			} else {
				c = c.Settle(false).Leave(1, t.now)
				err = t.save(r, next)
			}
			if c.State != deadletter.Driving {
				c, _, err = t.ended(c, err)
				break
			}
			if !again {
				continue
			}
		}
		next = next.Take(t.now.Add(lease), t.now)
		if err = t.save(r, next); err == nil {
			taken = append(taken, deadletter.Lease{Letter: next.Letter, Token: next.Token})
		}
	}
	if err == nil && len(taken) < most || most == 0 {
		later, err = t.ends(c.ID)
	}
	if blocked {
		later = deadletter.Sooner(later, deadletter.OrderWait)
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

// ends returns how long until the first lease of a redrive's letters ends, zero if none is
// taken.
func (t *tx) ends(drive string) (time.Duration, error) {
	var until int64
	if err := t.q.QueryRowContext(t, t.sql.ends, t.dialect.str(drive)).Scan(&until); err != nil {
		return 0, none(err)
	}
	return max(deadletter.Time(until).Sub(t.now), 1), nil
}

// moreHeads is how many orders are looked at beyond those that are wanted, so that one order
// with many letters does not keep back older ones of others.
const moreHeads = 16

// mostBlocked is how many orders are looked at in vain, with the write lock held: consumers wait
// for it that put letters away.
const mostBlocked = 256

// candidates are the letters of a redrive that may be taken: those that others had and
// lost, those without an order, and of each order the oldest, unless somebody has another
// of it. Blocked says that there are others.
func (t *tx) candidates(c *deadletter.Course, most int) (all []candidate, blocked bool, err error) {
	if most == 0 {
		return nil, false, nil
	}
	drive := t.dialect.str(c.ID)
	lost, err := t.places(t.sql.lost, drive, deadletter.Nanos(t.now), deadletter.Nanos(t.now), most+moreHeads) // some may want a Resolution
	if err != nil {
		return nil, false, err
	}
	all, err = t.places(t.sql.free, drive, t.dialect.str(""), most)
	if err != nil {
		return nil, false, err
	}
	heads, vain := 0, 0
	for after := ""; heads < most+moreHeads && vain < mostBlocked; {
		var one candidate
		err := t.q.QueryRowContext(t, t.sql.heads, drive, t.dialect.str(after)).Scan(&one.order, &one.ID, &one.Kept)
		if err != nil {
			if err := none(err); err != nil {
				return nil, false, err
			}
			break
		}
		after = one.order
		var busy int
		if err := t.q.QueryRowContext(t, t.sql.busy, t.dialect.str(c.Group), t.dialect.str(one.order)).Scan(&busy); err != nil {
			return nil, false, err
		}
		if busy > 0 {
			vain++
			continue
		}
		heads++
		all = append(all, one)
	}
	all = append(all, lost...)
	slices.SortFunc(all, func(a, b candidate) int { return a.Compare(b.Place) })
	return all, vain > 0, nil
}

func (t *tx) places(text string, args ...any) ([]candidate, error) {
	return places(t.q.QueryContext(t, text, args...))
}

func places(rows *sql.Rows, err error) (all []candidate, _ error) {
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var one candidate
		if err := rows.Scan(&one.ID, &one.Kept); err != nil {
			return nil, err
		}
		all = append(all, one)
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
