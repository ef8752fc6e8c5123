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

// Order implements [Store].
func (m *memory) Order(ctx context.Context, q Query, d Drive) (Drive, error) {
	if err := cmp.Or(ctx.Err(), q.Validate()); err != nil {
		return Drive{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.options.Clock()
	group := cmp.Or(d.Group, q.Group)
	m.lapse(group, now)
	if err := m.courses[group].Busy(); err != nil {
		return Drive{}, err
	}
	total := 0
	for _, r := range m.list {
		if r.Group != group || r.State != Waiting || !q.Picks(&r.Letter) {
			continue
		}
		if !r.Held() {
			total++
		} else if len(q.IDs) > 0 {
			return Drive{}, NotResolved(r.ID)
		}
	}
	c, err := NewCourse(q, d, NewDrive(), total, now)
	if err == nil {
		m.courses[group] = c
	}
	return c.Drive, err
}

// lapse lets the letters of a group wait again whose leases are over, and returns those that are taken.
func (m *memory) lapse(group string, now time.Time) (alive []Stored) {
	var over []*Stored
	var lost []Stored
	for _, r := range m.list {
		switch {
		case r.Group != group || r.State != Taken:
		case r.Lapsed(now):
			over, lost = append(over, r), append(lost, *r)
		default:
			alive = append(alive, *r)
		}
	}
	if len(over) > 0 {
		next, c := m.courses[group].Lose(lost, alive, now)
		for i, r := range over {
			m.keep(r, next[i])
		}
		m.course(c)
	}
	return alive
}

// course keeps a redrive if the group has one.
func (m *memory) course(c Course) {
	if c.ID != "" {
		m.courses[c.Group] = c
	}
}

// Drives implements [Store].
func (m *memory) Drives(ctx context.Context, group string) ([]Drive, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []Drive
	for _, c := range m.courses {
		if group == "" || c.Group == group {
			all = append(all, c.Drive)
		}
	}
	slices.SortFunc(all, func(a, b Drive) int { return cmp.Or(b.Made.Compare(a.Made), cmp.Compare(b.ID, a.ID)) })
	return all[:min(len(all), maxPage)], nil
}

// Stop implements [Store].
func (m *memory) Stop(ctx context.Context, drive, by, why string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range m.courses {
		if c.ID == drive {
			m.course(c.Stop(by, why))
			return nil
		}
	}
	return noDrive(drive)
}

// Take implements [Store].
func (m *memory) Take(ctx context.Context, group string, n int, lease time.Duration) (taken []Lease, again time.Duration, err error) {
	if err := cmp.Or(ctx.Err(), CheckTake(group, n, lease)); err != nil {
		return nil, 0, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.options.Clock()
	alive := m.lapse(group, now)
	c := m.courses[group]
	if c.ID == "" || c.State != Driving {
		return nil, 0, nil
	}
	if c, again = c.Hold(m.taker, lease, now); again > 0 {
		return nil, again, nil
	}
	most, wait := c.Due(n, now)
	t := c.Begin(most, alive, now)
	for _, r := range m.list {
		if c.Picks(&r.Letter) {
			t.Offer(&r.Letter)
		}
	}
	for _, id := range t.IDs {
		r := m.letters[id]
		m.keep(r, r.Take(c.ID, m.taker, now.Add(lease), now))
		taken = append(taken, Lease{Letter: r.Clone(), Token: r.Token})
	}
	c, again = t.End(n, wait, now)
	m.course(c)
	return taken, again, nil
}

// lease decides about a letter that a consumer has taken.
func (m *memory) lease(ctx context.Context, l Lease, decide func(Stored, time.Time) error) error {
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
func (m *memory) Extend(ctx context.Context, l Lease, lease time.Duration) error {
	return m.lease(ctx, l, func(r Stored, now time.Time) error {
		next, err := r.Extend(l.Token, now.Add(lease))
		if err == nil {
			m.keep(m.letters[l.ID], next)
		}
		return err
	})
}

// Settle implements [Store].
func (m *memory) Settle(ctx context.Context, l Lease, v Verdict) error {
	return m.lease(ctx, l, func(r Stored, now time.Time) error {
		next, changed, err := r.Settle(l.Token, v, now)
		if err != nil || !changed {
			return err
		}
		if c := m.courses[r.Group]; c.ID == r.Drive {
			m.course(c.Settle(r, v))
		}
		m.keep(m.letters[l.ID], next)
		return nil
	})
}
