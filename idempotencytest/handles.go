package idempotencytest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gabion-go/gabion/idempotency"
)

// Bounds of cases that play a race again and again. A store in memory has narrow gaps and
// gets many rounds, one behind a network wide ones and few.
const (
	raceFor    = time.Second
	mostRaces  = 4000
	leastRaces = 5
)

// rounds calls play until it reports false, or the bounds are reached.
func rounds(play func(n int) bool) {
	begun := time.Now()
	for n := range mostRaces {
		if !play(n) || n >= leastRaces && time.Since(begun) > raceFor {
			return
		}
	}
}

// rush calls each function on a goroutine of its own, all at the same moment, and returns
// when they have returned.
func rush(calls ...func()) {
	var ready atomic.Int64
	var all sync.WaitGroup
	for _, call := range calls {
		all.Go(func() {
			for ready.Add(1); ready.Load() < int64(len(calls)); {
				runtime.Gosched()
			}
			call()
		})
	}
	all.Wait()
}

// twoHandles lets two handles on the same data decide about one key at the same moment: what
// they agree by has to be with the data, for they share nothing else.
func twoHandles(b *bench) {
	handles := []idempotency.Store{b.store, b.another(0)}
	rounds(func(n int) bool {
		c := b.claim(idempotency.Guarantee(n%2), long)
		if n%4 > 1 {
			b.apply(ref(c, b.want(c, idempotency.DecisionRun)), release)
		}
		won := b.rushed(c, handles)
		if len(won) != 1 {
			b.Errorf("round %d: %d of 4 claims were granted on two handles", n, len(won))
			return false
		}
		return b.endedOnce(ref(c, won[0]), handles)
	})
}

// rushed claims a key twice on each handle and returns who won.
func (b *bench) rushed(c idempotency.Claim, handles []idempotency.Store) (won []idempotency.Answer) {
	var answers [4]idempotency.Answer
	var calls []func()
	for i := range answers {
		mine := again(c)
		calls = append(calls, func() {
			var err error
			if answers[i], err = handles[i%2].Begin(context.Background(), mine); err != nil {
				b.Errorf("begin: %v", err)
			}
		})
	}
	rush(calls...)
	for _, a := range answers {
		if a.Decision == idempotency.DecisionRun {
			won = append(won, a)
		}
	}
	return won
}

// endedOnce lets both handles end a run, each in its own way, and reports whether one did.
func (b *bench) endedOnce(r idempotency.Ref, handles []idempotency.Store) bool {
	ends := [2]idempotency.Change{complete("x"), abandon}
	var errs [2]error
	var calls []func()
	for i := range ends {
		calls = append(calls, func() { errs[i] = handles[i].Apply(context.Background(), r, ends[i]) })
	}
	rush(calls...)
	state := b.get(r.ID).State
	for i, want := range []idempotency.State{idempotency.StateDone, idempotency.StateUnknown} {
		if errs[i] == nil && errors.Is(errs[1-i], idempotency.ErrLeaseLost) && state == want {
			return true
		}
	}
	b.Errorf("two ends of one run on two handles: %v and %v, and the record is %v", errs[0], errs[1], state)
	return false
}

// Times of leases and retentions that live although a handle's clock is wrong by skewed.
const (
	alive  = 20 * time.Second
	skewed = 30 * time.Second
)

// clocks lets processes whose clocks are apart judge each other's records.
func clocks(b *bench) {
	if b.again == nil {
		b.Skip("the store is one process's alone")
	}
	for _, ahead := range []time.Duration{0, skewed, -skewed} {
		other := &bench{TB: b.TB, store: b.another(ahead), again: b.again}
		mine := &bench{TB: b.TB, store: b.store, again: b.again}
		for _, pair := range [][2]*bench{{mine, other}, {other, mine}} {
			livesElsewhere(pair[0], pair[1])
			endsElsewhere(pair[0], pair[1])
		}
	}
}

// livesElsewhere: what one handle has claimed or stored is not over on another.
func livesElsewhere(first, second *bench) {
	first.Helper()
	for range 10 {
		begun := time.Now()
		c := first.claim(idempotency.GuaranteeReexecute, alive)
		c.Retention = alive
		a, err := first.store.Begin(context.Background(), c)
		b, err2 := second.store.Begin(context.Background(), again(c))
		second.sweep()
		applied := first.store.Apply(context.Background(), ref(c, a), complete("x"))
		second.sweep()
		d, err3 := second.store.Begin(context.Background(), again(c))
		if time.Since(begun) > alive/2 {
			continue // the machine stood still
		}
		if err := errors.Join(err, err2, err3); err != nil {
			first.Fatalf("%v", err)
		}
		if a.Decision != idempotency.DecisionRun || b.Decision != idempotency.DecisionInProgress || b.Left > alive || b.Left < alive/4 {
			first.Fatalf("a lease of %v: one handle says %v, the other %v with %v left", alive, a.Decision, b.Decision, b.Left)
		}
		if applied != nil || d.Decision != idempotency.DecisionReplay {
			first.Fatalf("a retention of %v: completed on one handle (%v), the other says %v", alive, applied, d.Decision)
		}
		return
	}
	first.Error("the machine is too slow for a lease of " + alive.String())
}

// endsElsewhere: what is over on one handle is over on the other, and tokens grow.
func endsElsewhere(first, second *bench) {
	first.Helper()
	c, d := first.claim(idempotency.GuaranteeReexecute, short), first.claim(idempotency.GuaranteeHold, long)
	d.Retention = short
	lost, gone := first.want(c, idempotency.DecisionRun), first.want(d, idempotency.DecisionRun)
	first.apply(ref(d, gone), complete("x"))
	first.pass()
	second.sweep()
	c.Lease = long
	if a := second.want(again(c), idempotency.DecisionRun); a.Record.Token <= lost.Record.Token {
		first.Errorf("token %d after %d on another handle", a.Record.Token, lost.Record.Token)
	}
	first.refused(ref(c, lost), complete("zombie"), extend)
	if a := second.want(again(d), idempotency.DecisionRun); a.Record.Token <= gone.Record.Token {
		first.Errorf("token %d after %d, which had expired, on another handle", a.Record.Token, gone.Record.Token)
	}
}

const (
	fleeting  = time.Millisecond // a retention that is over soon
	raceKeys  = 32
	raceSweep = 4 // sweeps that one handle makes meanwhile
)

// sweepRaces lets keys expire, and then claims them while both handles sweep: a sweep must
// not take what was claimed since it looked.
func sweepRaces(b *bench) {
	handles := []idempotency.Store{b.store, b.another(0)}
	claims := make([]idempotency.Claim, raceKeys)
	for i := range claims {
		claims[i] = b.claim(idempotency.GuaranteeHold, long)
		claims[i].Retention = fleeting
	}
	wait := 2 * fleeting
	rounds(func(int) bool {
		answers := make([]idempotency.Answer, len(claims))
		rush(
			func() { b.claimEvery(handles[0], claims, answers, 0) }, func() { b.sweeps(handles[1]) },
			func() { b.claimEvery(handles[1], claims, answers, 1) }, func() { b.sweeps(handles[0]) },
		)
		if !b.endEvery(handles, claims, answers) {
			return false
		}
		if !slices.ContainsFunc(answers, func(a idempotency.Answer) bool { return a.Decision == idempotency.DecisionRun }) {
			wait *= 2 // none had expired
		}
		pause(wait)
		return true
	})
}

func (b *bench) sweeps(h idempotency.Store) {
	for range raceSweep {
		if _, err := h.Sweep(context.Background(), 256); err != nil {
			b.Errorf("sweep: %v", err)
		}
	}
}

// claimEvery claims every other key from one on.
func (b *bench) claimEvery(h idempotency.Store, claims []idempotency.Claim, answers []idempotency.Answer, from int) {
	for i := from; i < len(claims); i += 2 {
		var err error
		if answers[i], err = h.Begin(context.Background(), again(claims[i])); err != nil {
			b.Errorf("begin: %v", err)
		}
	}
}

// endEvery completes the runs that were granted, and reports whether they were there.
func (b *bench) endEvery(handles []idempotency.Store, claims []idempotency.Claim, answers []idempotency.Answer) bool {
	var bad atomic.Bool
	end := func(from int) func() {
		return func() {
			for i := from; i < len(claims) && !bad.Load(); i += 2 {
				if err := b.ends(handles[1-from], claims[i], answers[i]); err != nil {
					b.Errorf("%v", err)
					bad.Store(true)
				}
			}
		}
	}
	rush(end(0), end(1))
	return !bad.Load()
}

func (b *bench) ends(h idempotency.Store, c idempotency.Claim, a idempotency.Answer) error {
	switch a.Decision {
	case idempotency.DecisionReplay, 0: // not yet expired, or it failed
		return nil
	case idempotency.DecisionRun:
	default:
		return fmt.Errorf("begin: %v", a.Decision)
	}
	r, err := h.Get(context.Background(), c.ID)
	if err != nil || r.State != idempotency.StateRunning || r.Token != a.Record.Token {
		return fmt.Errorf("a claim was granted token %d, and then the record is %v with %d (%w): a sweep took it", a.Record.Token, r.State, r.Token, err)
	}
	if err := h.Apply(context.Background(), ref(c, a), complete("x")); err != nil {
		return fmt.Errorf("complete: %w: a sweep took the record of a run", err)
	}
	return nil
}

// kept looks at all that a record has to keep, through four runs that end in different ways.
func kept(b *bench) {
	other := &bench{TB: b.TB, store: b.another(0), again: b.again}
	c := b.claim(idempotency.GuaranteeReexecute, long)
	first := b.want(c, idempotency.DecisionRun)
	want := first.Record
	check := func(where string, r idempotency.Record) {
		b.Helper()
		if r.State != want.State || r.Attempt != want.Attempt || r.Created != want.Created || r.Token != want.Token || r.Guarantee != want.Guarantee ||
			r.Fingerprint != want.Fingerprint || r.Owner != want.Owner || r.Retention != want.Retention ||
			!slices.EqualFunc(r.Points, want.Points, func(x, y idempotency.Point) bool { return x.Name == y.Name && string(x.Data) == string(y.Data) }) {
			b.Errorf("%s: %+v, want %+v", where, r, want)
		}
	}
	for run, end := range []idempotency.Change{release, {}, abandon, complete("x")} {
		where := [...]string{"the first run", "the second, after a release", "the third, after a takeover", "the fourth, after an unknown outcome"}[run]
		if run > 0 {
			before := want.Token
			c.Lease = long
			if run == 1 {
				c.Lease = short
			}
			next := again(c)
			a := other.want(next, idempotency.DecisionRun)
			want.State, want.Attempt, want.Owner, want.Token = idempotency.StateRunning, run+1, next.Owner, a.Record.Token
			if want.Token <= before {
				b.Errorf("%s: token %d after %d", where, want.Token, before)
			}
			check(where+", as it was granted", a.Record)
		}
		check(where, b.get(c.ID))
		r := idempotency.Ref{ID: c.ID, Token: want.Token}
		if run == 0 {
			b.apply(r, save)
			want.Points = []idempotency.Point{*save.Point}
			check(where+" saved", other.get(c.ID))
		}
		if end.State == 0 {
			b.pass()
			continue
		}
		b.apply(r, end)
		if end.State == idempotency.StateUnknown {
			b.apply(r, idempotency.Change{State: idempotency.StateRetryable, Operator: true})
		}
		if want.State = idempotency.StateRetryable; end.State == idempotency.StateDone {
			want.State, want.Points = idempotency.StateDone, nil
		}
		got := other.get(c.ID)
		check(where+", ended", got)
		if kept := got.Expires.Sub(got.Finished); kept != c.Retention || got.Finished < got.Created || got.LeaseUntil != 0 {
			b.Errorf("%s: finished %v, expires %v later, lease until %v", where, got.Finished, kept, got.LeaseUntil)
		}
	}
}

// forEver: the largest duration is practically for ever, and no moment of long ago. A store
// may refuse such a claim.
func forEver(b *bench) {
	const most = time.Duration(math.MaxInt64)
	for _, g := range []idempotency.Guarantee{idempotency.GuaranteeHold, idempotency.GuaranteeReexecute} {
		for _, lease := range []time.Duration{long, most - 1, most} {
			for _, retention := range []time.Duration{most, most - time.Hour, most/2 + 1} {
				b.lasts(g, lease, retention)
			}
		}
	}
}

func (b *bench) lasts(g idempotency.Guarantee, lease, retention time.Duration) {
	b.Helper()
	c := b.claim(g, lease)
	c.Retention = retention
	a, err := b.store.Begin(context.Background(), c)
	if err != nil {
		if s := b.get(c.ID).State; s != idempotency.StateAbsent {
			b.Errorf("%v, %v: refused (%v), and the record is %v", lease, retention, err, s)
		}
		return
	}
	if a.Decision != idempotency.DecisionRun {
		b.Errorf("%v, %v: %v", lease, retention, a.Decision)
		return
	}
	b.sweep()
	b.want(again(c), idempotency.DecisionInProgress)
	b.apply(ref(c, a), release)
	b.sweep()
	a = b.want(again(c), idempotency.DecisionRun)
	if a.Record.Attempt != 2 {
		b.Errorf("%v, %v: a released record was forgotten", lease, retention)
	}
	b.apply(ref(c, a), idempotency.Change{State: idempotency.StateRunning, Lease: lease})
	b.sweep()
	b.want(again(c), idempotency.DecisionInProgress)
	b.apply(ref(c, a), complete("x"))
	b.sweep()
	b.want(again(c), idempotency.DecisionReplay)
}
