package bridge

import (
	"math/rand/v2"
	"time"

	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/internal/bulkhead"
	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/internal/machine"
	"github.com/gabion-go/gabion/lab/internal/sim"
	"github.com/gabion-go/gabion/policy"
)

// luck draws what a trace is made of.
type luck struct{ *rand.Rand }

// randomTrace makes a trace in which anything may happen that a caller who waits
// for its answer can meet. Times are odd numbers of nanoseconds, so that hardly
// any two are the same.
func randomTrace(seed uint64) *trace {
	l := luck{rand.New(rand.NewPCG(seed, 119))}
	tr := &trace{policy: l.policy(), seed: seed}
	at := time.Duration(0) // the lab makes what a client knows when it first calls
	for range 30 + l.IntN(50) {
		tr.calls = append(tr.calls, l.call(at))
		at += l.upTo(200 * time.Millisecond)
	}
	if l.in(3) {
		tr.reloaded, tr.next = l.upTo(tr.calls[len(tr.calls)-1].At), l.policy()
	}
	return tr
}

func (l luck) upTo(most time.Duration) time.Duration { return 1 + time.Duration(l.Int64N(int64(most))) }

// in is true one time in n.
func (l luck) in(n int) bool { return l.IntN(n) == 0 }

func either[T any](l luck, these ...T) T { return these[l.IntN(len(these))] }

func (l luck) policy() policy.Policy {
	const s, ms = time.Second, time.Millisecond
	p := policy.Policy{
		Timeout: policy.Timeout{Call: s + l.upTo(3*s), Attempt: 200*ms + l.upTo(400*ms)},
		Retry: policy.Retry{
			Attempts: 1 + l.IntN(5), Immediate: l.in(4), MaxAfter: either(l, 0, l.upTo(s)),
			Backoff: backoff.Backoff{Kind: backoff.Kind(l.IntN(5)), Base: l.upTo(150 * ms), Cap: s},
			Budget:  policy.Budget{Off: l.in(3), Shape: policy.BudgetShape(l.IntN(2)), Ratio: 0.4, Floor: 2},
		},
		Pace: policy.Pace{Off: l.in(2), Max: l.upTo(s)},
		Breaker: policy.Breaker{
			Off: l.in(4), Observe: l.in(6), Per: policy.Per(l.IntN(2)), MinCalls: 3 + l.IntN(6), WindowCalls: either(l, 0, 10),
			Consecutive: l.IntN(5), SlowCall: 60*ms + l.upTo(140*ms), InFlight: l.in(4), Throttled: l.in(3),
			Open: 200*ms + l.upTo(s), Probes: 1 + l.IntN(3),
		},
		Bulkhead: policy.Bulkhead{
			Off: l.in(3), Per: policy.Per(l.IntN(2)), Limit: 1 + l.IntN(5), Queue: either(l, policy.Off, 2, 20),
			QueueTimeout: either(l, 0, policy.Off, l.upTo(s)), Fair: l.in(3),
		},
	}
	if p.Bulkhead.Queue == policy.Off {
		p.Bulkhead.QueueTimeout = 0 // it has no effect
	}
	if l.in(2) {
		p.Hedge = policy.Hedge{Max: 1 + l.IntN(2), Delay: either(l, policy.Off, 20*ms+l.upTo(150*ms)), Percentile: either[policy.Ratio](l, 0, 0.9)}
	}
	if l.in(4) {
		p.Throttle.K = 1.2 + l.Float64()
	}
	if l.in(4) {
		p.RateLimit = policy.RateLimit{Rate: 8, Burst: 1 + l.IntN(4), MaxWait: either(l, 0, policy.Off, l.upTo(s))}
	}
	return p
}

func (l luck) call(at time.Duration) sim.Recorded {
	c := sim.Recorded{At: at, Params: machine.Params{
		Safe: !l.in(6), NoRetry: l.in(12), NoHedge: l.in(12), Tenant: either(l, "", "a", "b"), Partition: either(l, "", "", "p", "q"),
		Priority: either(l, bulkhead.Low, bulkhead.Normal, bulkhead.High),
	}}
	if l.in(5) {
		c.Params.Timeout = l.upTo(2 * time.Second)
	}
	if l.in(5) {
		c.Params.Deadline = clock.Instant(at + l.upTo(2*time.Second))
	}
	for range 8 { // as many as a call may send
		c.Answers = append(c.Answers, l.answer())
	}
	return c
}

func (l luck) answer() sim.Answer {
	a := sim.Answer{Took: l.upTo(300 * time.Millisecond)}
	switch l.IntN(12) {
	case 0, 1:
		a.Outcome = policy.Outcome{Class: policy.ClassServer, Effect: policy.UnknownEffect, Once: l.in(3), Stop: l.in(6)}
	case 2:
		a.Outcome = policy.Unsent(policy.ClassNetwork)
	case 3:
		a.Outcome = policy.Failed(policy.ClassNetwork)
	case 4:
		a.Outcome = policy.Outcome{Class: policy.ClassThrottled, HasAfter: l.in(2), After: l.upTo(600 * time.Millisecond)}
	case 5:
		a.Outcome = policy.Outcome{Class: either(l, policy.ClassClient, policy.ClassBusiness, policy.ClassUnclassified, policy.ClassRejected, policy.ClassIgnored)}
	case 6:
		a.Never = true
	}
	return a
}
