package fleet

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/internal/fleet"
)

// drawer returns what spreads the renewals of a fleet.
func drawer() func() float64 { return rand.Float64 }

// patience is how long the store may take. Then a process knows before its lease ends that the store is gone.
func patience(lease time.Duration) time.Duration { return lease / 12 }

// skew is by how much clocks may differ over a lease: a hundredth, and a tenth of a second for servers of one store.
func skew(lease time.Duration) time.Duration { return lease/100 + 100*time.Millisecond }

// errPanicked is the error of a store that panicked.
var errPanicked = errors.New("fleet: the store panicked")

// answer is what came of a batch.
type answer struct {
	r   Result
	err error
}

// ask sends a batch. It returns when it began, which is what the answer is dated to. A store that neither answers nor
// heeds its context is left behind, so that shares end in time.
func (m *Member) ask(ctx context.Context, b Batch) (asked clock.Instant, r Result, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience(m.o.Lease))
	defer cancel()
	asked = m.now()
	if m.stillHangs() {
		return asked, Result{}, errors.New("fleet: the store has not answered the batch before")
	}
	answers := make(chan answer, 1)
	go func() {
		a := answer{err: errPanicked}
		defer func() {
			if crash := recover(); crash != nil {
				a.err = fmt.Errorf("%w: %v", errPanicked, crash)
			}
			answers <- a
		}()
		a.r, a.err = m.store.Do(ctx, b)
	}()
	select {
	case a := <-answers:
		if a.err == nil && a.r.Now.IsZero() {
			a.err = errors.New("fleet: the store does not say what time it is")
		}
		if a.err == nil {
			m.heard, m.at = a.r.Now, m.time(asked)
		}
		return asked, a.r, a.err
	case <-ctx.Done():
		m.hangs = answers
		return asked, Result{}, fmt.Errorf("fleet: no answer within %s: %w", patience(m.o.Lease), ctx.Err())
	}
}

// stillHangs reports whether the store works on an earlier batch. One at a time may be left behind, or a store that hangs for a day
// would fill the memory.
func (m *Member) stillHangs() bool {
	select {
	case <-m.hangs:
		m.hangs = nil
	default:
	}
	return m.hangs != nil
}

// renew reports what the process needs, and puts in force what it is given.
func (m *Member) renew(ctx context.Context) {
	now := m.now()
	m.measure(now)
	if s, lower := m.holder.Fit(m.needs.demands); lower {
		m.enforce(s) // before it is reported
		m.measure(m.now())
	}
	asked, r, err := m.report(ctx)
	var pool *fleet.Pool
	if err == nil {
		pool, err = m.read(&r)
	}
	if err == nil && m.holder.Due(r.Now, pool, m.draw()) {
		asked, r, pool, err = m.divide(ctx, asked, r, pool)
	}
	if ctx.Err() != nil {
		return // the process leaves
	}
	if err != nil {
		m.enforce(m.holder.Failed(m.now()))
		m.missed(err)
		return
	}
	m.pool = pool
	m.enforce(m.holder.Heard(asked, r.Now, pool))
	m.learn(pool)
	m.answered()
	putParts(ctx, m)
}

// report puts the report, and reads the process's part of the pool and the overrides: all that a renewal needs, in one round trip.
func (m *Member) report(ctx context.Context) (asked clock.Instant, r Result, err error) {
	report := m.holder.Report(m.now(), m.needs.demands)
	report.Facts = m.gather()
	value, err := report.Encode()
	if err != nil {
		return 0, Result{}, err
	}
	key := m.o.Name
	get := []string{partKey(m), fleet.OverridesKey(key)}
	if m.pool.Crowded() {
		get = append(get, fleet.TurnKey(key))
	}
	return m.ask(ctx, Batch{
		Puts: []Put{{Key: fleet.PodsKey(key) + m.o.ID, Value: value, Lasts: remembered * m.o.Lease}},
		Get:  get,
	})
}

// remembered is how many leases the report of a process that is gone stays in the store.
const remembered = 3

// partKey is where the pool is of which the process has a part, as the one that was read last says.
func partKey(m *Member) string {
	if m.pool == nil {
		return fleet.PoolKey(m.o.Name)
	}
	return fleet.PartKey(m.o.Name, fleet.PartOf(m.o.ID, m.pool.Parts), m.pool.Parts)
}

// read takes overrides and pool from an answer. A part that can't be read counts as missing.
func (m *Member) read(r *Result) (*fleet.Pool, error) {
	m.follow(r)
	key := partKey(m)
	pool, err := poolIn(r, key)
	if key != fleet.PoolKey(m.o.Name) {
		err = nil
	}
	return pool, err
}

// divide divides the pool anew, unless another process does so or is quicker: then that one's division counts. It
// returns the pool as it is then. Seen is what the process has read of it, in the answer r.
func (m *Member) divide(ctx context.Context, asked clock.Instant, r Result, seen *fleet.Pool) (clock.Instant, Result, *fleet.Pool, error) {
	key := fleet.PoolKey(m.o.Name)
	if seen.Crowded() {
		turn := r.Items[fleet.TurnKey(m.o.Name)]
		if m.holder.Busy(turn.Value, seen, r.Now) {
			m.holder.Behind()
			return asked, r, seen, nil
		}
		// The pool is read with the turn, since a part may be old.
		began, answer, err := m.ask(ctx, Batch{
			Swap: &Put{Key: fleet.TurnKey(m.o.Name), Value: fleet.NewTurn(m.o.ID, r.Now), Version: turn.Version, Lasts: m.o.Lease}, Get: []string{key},
		})
		if err == nil { // else who may not take turns divides without one
			whole, err := poolIn(&answer, key)
			switch {
			case err != nil:
				return began, answer, nil, err
			case !answer.Swapped:
				m.holder.Behind()
				return began, answer, whole, nil
			case whole != nil && !m.holder.Due(answer.Now, whole, 0):
				return began, answer, whole, nil
			}
		}
	}
	asked, r, err := m.ask(ctx, Batch{Get: []string{key}, List: fleet.PodsKey(m.o.Name)})
	if err != nil {
		return asked, r, nil, err
	}
	old, err := poolIn(&r, key)
	if err != nil {
		return asked, r, nil, err
	}
	reports := parseReports(&r, m.o.Name)
	next := fleet.Divide(old, reports, r.Now, m.o.Lease, skew(m.o.Lease))
	next.Known = known(reports, r.Now, old)
	value, err := next.Encode()
	if err != nil {
		return asked, r, nil, err
	}
	asked, r, err = m.ask(ctx, Batch{Swap: &Put{Key: key, Value: value, Version: r.Items[key].Version}, Get: []string{key}})
	if err != nil {
		return asked, r, nil, err
	}
	if r.Swapped {
		m.parts = next.Split(old)
		return asked, r, next, nil
	}
	pool, err := poolIn(&r, key)
	return asked, r, pool, err
}

// putParts puts the parts of the pool that the process has divided, once its own shares are in force. If it fails, others read
// the whole. Parts of a number that is no longer are for those that look there once more: they last for one lease.
func putParts(ctx context.Context, m *Member) {
	var b Batch
	for _, one := range m.parts {
		lasts := remembered * m.o.Lease
		if one.Of != one.Pool.Parts {
			lasts = m.o.Lease
		}
		if value, err := one.Pool.Encode(); err == nil { // it is smaller than the pool
			b.Puts = append(b.Puts, Put{Key: fleet.PartKey(m.o.Name, one.Part, one.Of), Value: value, Lasts: lasts})
		}
	}
	if m.parts = nil; len(b.Puts) > 0 {
		_, _, _ = m.ask(ctx, b)
	}
}

func poolIn(r *Result, key string) (*fleet.Pool, error) {
	item, found := r.Items[key]
	if !found {
		return nil, nil
	}
	return fleet.ParsePool(item.Value)
}

// parseReports leaves out what can't be read, and what a process says in another's name: what such a process holds counts until it
// ends.
func parseReports(r *Result, name string) []fleet.Report {
	reports := make([]fleet.Report, 0, len(r.Items))
	for key, item := range r.Items {
		id, is := strings.CutPrefix(key, fleet.PodsKey(name))
		if !is {
			continue
		}
		if one, err := fleet.ParseReport(item.Value); err == nil && one.ID == id {
			reports = append(reports, *one)
		}
	}
	return reports
}

// look reads the overrides between two renewals.
func (m *Member) look(ctx context.Context) {
	if _, r, err := m.ask(ctx, Batch{Get: []string{fleet.OverridesKey(m.o.Name)}}); err == nil {
		m.follow(&r)
		m.note(func(*Status) {})
	}
}

// leave gives everything back.
func (m *Member) leave() {
	m.enforce(m.alone())
	report := m.holder.Leave(m.now())
	report.Facts = m.gather() // what it learned is for those that come after it
	value, err := report.Encode()
	if err == nil {
		settle(m)
		ctx := context.Background()
		_, _, err = m.ask(ctx, Batch{Puts: []Put{{Key: fleet.PodsKey(m.o.Name) + m.o.ID, Value: value, Lasts: remembered * m.o.Lease}}})
	}
	m.left(err)
}

// settle waits for a renewal that Close has interrupted: while it is out, nothing else is asked.
func settle(m *Member) {
	if m.hangs == nil {
		return
	}
	timer := time.NewTimer(patience(m.o.Lease) / 2)
	defer timer.Stop()
	select {
	case <-m.hangs:
		m.hangs = nil
	case <-timer.C:
	}
}

// alone is what a process has that left the fleet: what it declares for a store that is away. Its limits are not its own again,
// since it may make calls that it began.
func (m *Member) alone() fleet.Shares {
	m.measure(m.now())
	apart := fleet.New(m.o.ID, m.o.Lease)
	apart.Fit(m.needs.demands)
	return apart.Failed(0)
}
