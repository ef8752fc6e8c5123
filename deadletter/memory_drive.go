package deadletter

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"slices"
	"time"
)

// NewDrive returns the ID of a redrive: 16 random hexadecimal digits. It is for those who
// write stores.
func NewDrive() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// noDrive is the error about a redrive that there is not.
func noDrive(id string) error { return fmt.Errorf("%w: redrive %.40q", ErrNotFound, id) }

// left tells a redrive that one of its letters left it.
func (m *Memory) left(old, next *Record) {
	if c := m.course(old.Drive); c != nil && old.Driven() && !next.Driven() {
		*c = c.Leave(1, m.options.Clock())
	}
}

func (m *Memory) course(id string) *Course {
	for _, c := range m.courses {
		if c.ID == id {
			return c
		}
	}
	return nil
}

// old reports whether a redrive ended long ago.
func (m *Memory) old(c *Course, before time.Time) bool {
	return c.At(m.options.Clock()).State != Driving && c.Left == 0 && c.Made.Before(before)
}

// Order implements [Store].
func (m *Memory) Order(ctx context.Context, q Query, d Drive) (Drive, error) {
	if err := cmp.Or(ctx.Err(), q.Validate()); err != nil {
		return Drive{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.options.Clock()
	c, err := NewCourse(q, d, NewDrive(), now)
	if err != nil {
		return Drive{}, err
	}
	q.Group = c.Group
	for _, r := range m.list {
		if len(q.IDs) > 0 && r.State == Waiting && r.Held() && q.Picks(&r.Letter) {
			return Drive{}, NotResolved(r.ID)
		}
	}
	m.release(c.Group, "", now)
	for _, r := range m.list {
		if !q.Picks(&r.Letter) {
			continue
		}
		if next, ok := r.AddTo(c.ID, c.By, now); ok {
			c = c.Fill(1, now)
			*r = next
		}
	}
	c = c.Filled(now)
	m.courses = append(m.courses, &c)
	return c.Drive, nil
}

// release lets the letters of a redrive that is over wait again, or with "" of all of a group.
func (m *Memory) release(group, drive string, now time.Time) {
	for _, r := range m.list {
		if !r.Driven() || drive != "" && r.Drive != drive || group != "" && r.Group != group {
			continue
		}
		if c := m.course(r.Drive); c != nil && c.State == Driving {
			continue
		}
		if next, ok := r.Release(now); ok {
			m.keep(r, next)
		}
	}
}

// Drives implements [Store].
func (m *Memory) Drives(ctx context.Context, group string) ([]Drive, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []Drive
	for _, c := range slices.Backward(m.courses) {
		if group == "" || c.Group == group {
			all = append(all, c.At(m.options.Clock()).Drive)
		}
	}
	return all[:min(len(all), maxPage)], nil
}

// Stop implements [Store].
func (m *Memory) Stop(ctx context.Context, drive, by, why string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.course(drive)
	if c == nil {
		return noDrive(drive)
	}
	*c = c.Stop(by, why)
	m.release("", drive, m.options.Clock())
	return nil
}

// Take implements [Store].
func (m *Memory) Take(ctx context.Context, group string, n int, lease time.Duration) (taken []Lease, again time.Duration, err error) {
	if err := cmp.Or(ctx.Err(), CheckTake(group, n, lease)); err != nil {
		return nil, 0, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.options.Clock()
	m.release(group, "", now)
	for _, c := range m.courses {
		if *c = c.At(now); c.Group != group || c.State != Driving {
			continue
		}
		most, wait := c.Due(n, now)
		taken, later := m.takeFrom(c, most, lease, now)
		*c = c.Take(len(taken), now).At(now)
		if c.State != Driving {
			m.release("", c.ID, now)
		}
		if len(taken) > 0 || c.State == Driving {
			return taken, c.Again(n, most, len(taken), wait, later), nil
		}
	}
	return nil, 0, nil
}

// takeFrom takes letters of one redrive. Later is how long others have the ones that they
// have. Of letters with one Order the one goes first that somebody has or had, then the oldest.
func (m *Memory) takeFrom(c *Course, most int, lease time.Duration, now time.Time) (taken []Lease, later time.Duration) {
	first, held := map[string]ID{}, Held{}
	for _, r := range m.list {
		if r.Group != c.Group || r.State != Taken {
			continue
		}
		first[r.Order] = r.ID
		if r.Drive == c.ID {
			held.Add(*r, m.taker, now)
		}
		if r.Drive == c.ID && now.Before(r.Until) {
			later = Sooner(later, r.Until.Sub(now))
		}
	}
	for _, r := range m.list {
		if r.Drive != c.ID || !r.Driven() || c.State != Driving {
			continue
		}
		if _, known := first[r.Order]; !known {
			first[r.Order] = r.ID
		}
		if !r.Takeable(now) || len(taken) == most {
			continue
		}
		if r.Order != "" && first[r.Order] != r.ID {
			later = Sooner(later, OrderWait)
			continue
		}
		if r.State == Taken && held.Suspect {
			later = Sooner(later, OrderWait)
			continue
		}
		next := *r
		if r.State == Taken && !m.lost(c, r, &next, &held, now) {
			continue
		}
		m.keep(r, next.Take(m.taker, now.Add(lease), now))
		taken = append(taken, Lease{Letter: r.Clone(), Token: r.Token})
	}
	return taken, later
}

// lost counts a letter whose consumer is gone, and reports whether another may take it.
func (m *Memory) lost(c *Course, r, next *Record, held *Held, now time.Time) (again bool) {
	var after Course
	if *next, after, again = held.Lose(*r, *c, now); !again {
		m.keep(r, *next)
	}
	*c = after
	return again && c.State == Driving
}

// lease decides about a letter that somebody has taken.
func (m *Memory) lease(ctx context.Context, l Lease, decide func(Record, time.Time) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.letters[l.ID]
	if r == nil {
		return ErrLost
	}
	return decide(*r, m.options.Clock())
}

// Extend implements [Store].
func (m *Memory) Extend(ctx context.Context, l Lease, lease time.Duration) error {
	return m.lease(ctx, l, func(r Record, now time.Time) error {
		next, err := r.Extend(l.Token, now.Add(lease))
		if err == nil {
			m.keep(m.letters[l.ID], next)
		}
		return err
	})
}

// Settle implements [Store].
func (m *Memory) Settle(ctx context.Context, l Lease, v Verdict) error {
	return m.lease(ctx, l, func(r Record, now time.Time) error {
		c := m.course(r.Drive)
		next, changed, err := r.Settle(l.Token, v, c == nil || c.State != Driving, now)
		if err != nil || !changed {
			return err
		}
		if c != nil && v.State != Ordered {
			*c = c.Settle(v.State == Done)
		}
		m.keep(m.letters[l.ID], next)
		m.release("", r.Drive, now)
		return nil
	})
}
