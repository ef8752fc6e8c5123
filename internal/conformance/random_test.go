package conformance

import (
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/internal/breaker"
	"github.com/gabion-go/gabion/internal/bulkhead"
	"github.com/gabion-go/gabion/policy"
)

// TestRandomScriptsRunAlike runs random scripts both ways and wants the same
// decisions. Where several calls act in one instant, as when a slot is handed on
// or a policy reloaded, a live program may take them in any order: then the live
// run must equal some order of the virtual one.
func TestRandomScriptsRunAlike(t *testing.T) {
	n := 300
	if os.Getenv("GABION_SOAK") != "" {
		n = 20000
	}
	if testing.Short() {
		n = 50
	}
	reordered := 0
	for seed := range uint64(n) {
		c := randomCase(seed)
		l := live(t, &c)
		tries, err := anyOrder(t, &c, l)
		if tries > 1 {
			reordered++
		}
		for _, f := range broken(&c, l) {
			t.Errorf("seed %d, live: %s", seed, f)
		}
		if err != nil {
			t.Errorf("seed %d: no order of the virtual run is the live one; the closest differs in %v", seed, err)
		}
		if t.Failed() {
			return
		}
	}
	t.Logf("%d scripts, %d in another order than first come, first served", n, reordered)
}

// anyOrder looks for an order of the virtual run that is the live one. It tries
// other orders of the first instant in which the two differ, and returns how many
// runs that took: of 7,200 live runs on a machine with too much to do none took more
// than 12.
func anyOrder(t *testing.T, c *Case, l Log) (tries int, err error) {
	t.Helper()
	w := World{Orders: map[time.Duration]uint64{}}
	for tries = 1; tries <= 4000; tries++ {
		v := w.Run(c)
		for _, f := range append(v.Faults, broken(c, v.Log)...) {
			t.Errorf("seed %s, orders %v: %s", c.Fact, w.Orders, f)
		}
		if err = same(v.Log, l); err == nil {
			return tries, nil
		}
		at := parts(v.Log, l)
		if w.Orders[at]++; w.Orders[at] > 1000 {
			break
		}
	}
	return tries, err
}

// parts returns the first instant in which two logs differ.
func parts(a, b Log) time.Duration {
	x, y := a.sorted(Line.full), b.sorted(Line.full)
	a, b = a.inOrder(), b.inOrder()
	i := 0
	for i < len(x) && i < len(y) && x[i] == y[i] {
		i++
	}
	switch {
	case i < len(x) && i < len(y):
		return min(a[i].At, b[i].At)
	case i < len(x):
		return a[i].At
	}
	return b[i].At
}

// broken says which rules the log of a run breaks: every attempt that was sent
// came home once, every call returned once, nothing was sent after that, and the
// numbers are in order.
func broken(c *Case, l Log) (found []string) {
	type tally struct {
		sent, home, returned int
		bits                 uint64
	}
	calls := make([]tally, len(c.Calls)+1)
	for _, line := range l {
		k := &calls[line.Call]
		e := line.Event
		switch e.Kind {
		case policy.KindAttemptSent:
			k.sent++
			if int(e.Attempt) != k.sent || k.returned > 0 {
				found = append(found, line.String()+": out of order")
			}
		case policy.KindAttemptSettled, policy.KindLoserSettled:
			k.home++
			bit := uint64(1) << (e.Attempt - 1)
			if k.bits&bit != 0 || (e.Kind == policy.KindLoserSettled) != (k.returned > 0) {
				found = append(found, line.String()+": again, or out of order")
			}
			k.bits |= bit
		case policy.KindReturned:
			k.returned++
			if int(e.Attempt) != k.sent || k.returned > 1 {
				found = append(found, line.String()+": miscounted")
			}
		}
	}
	for n, k := range calls {
		if k.sent != k.home || k.returned > 1 || k.sent > 0 && k.returned == 0 {
			found = append(found, fmt.Sprintf("c%d: %d sent, %d home, returned %d times", n, k.sent, k.home, k.returned))
		}
	}
	return found
}

// randomCase makes a script that touches everything. Times have distinct odd
// ends, so that only what acts on another's time acts in the same instant.
func randomCase(seed uint64) Case {
	r := &source{rand.New(rand.NewPCG(seed, 1))}
	c := Case{ID: "random", Fact: fmt.Sprint(seed), Seed: seed, Policy: r.policy()}
	at := time.Duration(0)
	for range 20 + r.IntN(21) {
		at += r.time(400 * ms)
		c.Calls = append(c.Calls, r.call(at))
	}
	for range r.IntN(4) {
		c.Hands = append(c.Hands, r.hand(r.time(at)))
	}
	return c
}

type source struct{ *rand.Rand }

// time draws a time that hardly any other equals.
func (r *source) time(most time.Duration) time.Duration {
	return 1 + time.Duration(r.Int64N(int64(most)))
}

func (r *source) one(in int) bool { return r.IntN(in) == 0 }

func pick[T any](r *source, of ...T) T { return of[r.IntN(len(of))] }

func (r *source) policy() policy.Policy {
	p := policy.Policy{
		Timeout: policy.Timeout{Call: 3*s + r.time(s), Attempt: 600*ms + r.time(ms), Margin: 20 * ms},
		Retry: policy.Retry{
			Attempts: 1 + r.IntN(4), Immediate: r.one(3),
			Backoff: backoff.Backoff{Kind: pick(r, backoff.FullJitter, backoff.EqualJitter, backoff.DecorrelatedJitter, backoff.Constant), Base: r.time(200 * ms), Cap: s},
			Budget:  policy.Budget{Off: r.one(3), Ratio: 0.5, Floor: 2, Shape: pick(r, policy.BudgetWindow, policy.BudgetTokens, policy.BudgetGRPC, policy.BudgetShare, policy.BudgetQuota), Capacity: 5, MinInFlight: 1},
		},
		Pace: policy.Pace{Off: r.one(2), Max: r.time(s)},
		Breaker: policy.Breaker{
			Off: r.one(4), Per: pick(r, policy.PerAttempt, policy.PerCall), MinCalls: 3 + r.IntN(5), Window: 10 * s, Consecutive: r.IntN(4),
			SlowCall: 300*ms + r.time(ms), Open: 200*ms + r.time(s), Probes: 1 + r.IntN(3), Throttled: r.one(4), Observe: r.one(6), InFlight: r.one(4),
		},
		Bulkhead: policy.Bulkhead{
			Off: r.one(4), Per: pick(r, policy.PerAttempt, policy.PerCall), Limit: 1 + r.IntN(4), Queue: pick(r, policy.Off, 1, 3, 20),
			QueueTimeout: pick(r, policy.Off, r.time(s)), Fair: r.one(4),
		},
	}
	if p.Breaker.Per == policy.PerAttempt && r.one(2) {
		p.Breaker.ProbeTimeout = 100*ms + r.time(s)
	}
	if r.one(2) {
		p.Hedge = policy.Hedge{Max: 1 + r.IntN(3), Delay: pick(r, policy.Off, 0, 50*ms+r.time(200*ms)), Percentile: policy.Off}
	}
	if r.one(4) {
		p.RateLimit = policy.RateLimit{Rate: 5, Burst: 1 + r.IntN(3), MaxWait: pick(r, 0, policy.Off, r.time(s))}
	}
	if r.one(6) {
		p.Throttle.K = 1.5
	}
	return withoutUnused(p)
}

// withoutUnused clears what was drawn and has no effect.
func withoutUnused(p policy.Policy) policy.Policy {
	b := &p.Retry.Budget
	if b.Shape != policy.BudgetWindow {
		b.Floor = 0
	}
	if b.Shape == policy.BudgetWindow || b.Shape == policy.BudgetShare {
		b.Capacity = 0
	}
	if b.Shape != policy.BudgetShare {
		b.MinInFlight = 0
	}
	if p.Bulkhead.Queue == policy.Off {
		p.Bulkhead.QueueTimeout = 0
	}
	return p
}

func (r *source) call(at time.Duration) Call {
	c := Call{At: at, Unsafe: r.one(6), NoRetry: r.one(10), NoHedge: r.one(10), Tenant: pick(r, "", "a", "b"),
		Priority: pick(r, bulkhead.Low, bulkhead.Normal, bulkhead.Normal, bulkhead.High)}
	for range 8 { // as many as a call may send, so that no two attempts take the same time
		c.Script = append(c.Script, r.work())
	}
	if r.one(3) {
		c.Partition = pick(r, "p", "q", "r")
	}
	if r.one(5) {
		c.Cancel = at + r.time(s)
	}
	if r.one(6) {
		c.Deadline = at + r.time(2*s)
	}
	if r.one(6) {
		c.Timeout = r.time(2 * s)
	}
	if r.one(5) {
		c.Open, c.Hold, c.Breaks = true, r.time(s), r.one(3)
	}
	return c
}

func (r *source) work() Work {
	w := Work{Takes: r.time(400 * ms), Deaf: r.one(8)}
	switch r.IntN(16) {
	case 0, 1, 2, 3:
		w.Err = errDown
	case 4:
		w.Err = pick(r, errWrong, errNo, errPlain, errStop)
	case 5:
		w.Err = errDial
	case 6:
		w.Err = throttled(pick(r, 0, r.time(500*ms)))
	case 7:
		w.Panics = true
	case 8:
		w.Exits = true
	case 9:
		w.Takes = time.Hour
		w.Deaf = false
	case 10:
		w.Means = &policy.Outcome{Class: policy.ClassServer, Once: true, HasAfter: r.one(2), After: r.time(300 * ms)}
	}
	return w
}

func (r *source) hand(at time.Duration) Hand {
	p := r.policy()
	partition := pick(r, "", "p")
	verb := pick(r,
		func(b *breaker.Breaker, now Instant) { b.By("").ForceOpen(now, now.Add(s)) },
		closed, disabled, tripped)
	on := r.one(2)
	do := pick(r,
		func(h Handle) { _ = h.Reload(p) },
		func(h Handle) { h.Move(partition, verb) },
		func(h Handle) { h.SetRetries(on) })
	return Hand{at, do}
}
