package conformance

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/internal/breaker"
	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/policy"
)

// trips says at which call, from 1, the breaker first opens; 0 is never.
func trips(at int) func(Log) error {
	return func(l Log) error {
		got := 0
		home := 0
		for _, line := range l {
			switch line.Event.Kind {
			case policy.KindAttemptSettled:
				home++
			case policy.KindBreakerMoved:
				if got == 0 && line.Event.To == breaker.Open {
					got = home
				}
			}
		}
		if got != at {
			return fmt.Errorf("opened at call %d, want %d", got, at)
		}
		return nil
	}
}

func breakerCases() []Case {
	ten := policy.Breaker{WindowCalls: 10, MinCalls: 5, Open: time.Minute}
	half := policy.Breaker{MinCalls: 5, Open: time.Minute}
	trip := func(id, fact string, b policy.Breaker, letters string, at int) Case {
		return Case{ID: id, Fact: fact, Policy: guarded(b), Calls: each(0, 10*ms, letters), Check: trips(at)}
	}
	slow := policy.Breaker{SlowCall: 4 * s, SlowRate: 0.5, FailureRate: 0.5, MinCalls: 5, Window: time.Minute, Open: time.Minute}
	slowly := with(guarded(slow), func(p *policy.Policy) { p.Timeout = policy.Timeout{Call: 20 * s, Attempt: 10 * s} })
	open5 := policy.Breaker{Consecutive: 1, Open: 5 * s, OpenGrowth: 1.5, Probes: 1}
	retried := func(b policy.Breaker) policy.Policy {
		p := guarded(b)
		p.Retry.Attempts = 3
		return p
	}
	var storm []Call
	for i := range 1000 {
		storm = append(storm, Call{At: 10*s + time.Duration(i), Script: script(ok(ms)), NoRetry: true})
	}
	return []Case{
		trip("C1", "40 % does not trip", ten, "SSSFF", 0),
		trip("C1", "50 % trips", ten, "SSSFFF", 6),
		trip("C2", "rates are evaluated on a success too", half, "FFFSS", 5),
		trip("C3", "below the minimum no rate is known", half, "FFFF", 0),
		trip("C4", "the oldest outcome is evicted", policy.Breaker{WindowCalls: 5, MinCalls: 5, FailureRate: 0.6}, "FFSSSSFF", 0),
		trip("C4", "and the next failure trips", policy.Breaker{WindowCalls: 5, MinCalls: 5, FailureRate: 0.6}, "FFSSSSFFF", 9),
		trip("C6", "threshold 100 %: one success keeps it closed", policy.Breaker{WindowCalls: 4, FailureRate: 1}, "FFFS", 0),
		trip("C6", "threshold 100 %: all failures trip", policy.Breaker{WindowCalls: 4, FailureRate: 1}, "FFFF", 4),
		trip("C7", "exactly 50 % trips", policy.Breaker{MinCalls: 50}, strings.Repeat("S", 25)+strings.Repeat("F", 25), 50),
		trip("C48", "three in a row, interrupted", policy.Breaker{Consecutive: 3}, "FFSFF", 0),
		trip("C48", "three in a row", policy.Breaker{Consecutive: 3}, "FFSFFF", 6),
		trip("F2", "failures in the window", policy.Breaker{Failures: 3, WindowCalls: 20}, "FSSSFSSSF", 9),
		trip("F5", "what was throttled does not trip", policy.Breaker{Consecutive: 1}, "IIIIIIII", 0),
		trip("F5", "unless the policy says so", policy.Breaker{Consecutive: 3, Throttled: true}, "IIII", 3),
		{ID: "C8", Fact: "idle for longer than the window: only the last call counts",
			Policy: guarded(half), Calls: append(each(0, 10*ms, "FFFF"), each(time.Hour, 10*ms, "F")...), Check: trips(0)},
		{ID: "C14", Fact: "slow calls trip without failing",
			Policy: slowly,
			Calls:  []Call{call(0, down(5*s)), call(10*s, ok(5*s)), call(20*s, down(100*ms)), call(22*s, ok(100*ms)), call(24*s, ok(5*s))}},
		{ID: "C15", Fact: "slow is strictly longer",
			Policy: with(slowly, func(p *policy.Policy) { p.Breaker.MinCalls, p.Breaker.SlowRate = 1, 1 }),
			Calls:  []Call{call(0, ok(4*s)), call(20*s, ok(4*s+ms))}},
		{ID: "C16", Fact: "both rates exceeded at once: one transition",
			Policy: with(slowly, func(p *policy.Policy) { p.Breaker.MinCalls = 1 }), Calls: []Call{call(0, down(5*s))}},
		{ID: "C18 C19 C23", Fact: "open refuses until its time, tells the rest of it, and then probes",
			Policy: guarded(open5), Calls: append(each(0, 0, "F"), each(3*s, 3*s, "SS")...)},
		{ID: "C19", Fact: "a call at exactly the open deadline is admitted",
			Policy: guarded(open5), Calls: append(each(0, 0, "F"), each(5*s-1, 1, "SS")...)},
		{ID: "C20", Fact: "open times grow, and closing resets them",
			Policy: guarded(open5),
			Calls:  slices.Concat(each(0, 0, "F"), each(5*s, 0, "F"), each(11*s, 0, "S"), each(12500*ms, s, "SF"), each(18*s, 501*ms, "SS"))},
		{ID: "C21", Fact: "a late failure while open changes nothing",
			Policy: guarded(open5), Calls: []Call{call(0, down(3*s)), call(ms, down(s)), call(5*s, ok(ms)), call(6*s, ok(ms))}},
		{ID: "C22", Fact: "a late success while open changes nothing",
			Policy: guarded(open5), Calls: []Call{call(0, ok(3*s)), call(ms, down(s)), call(5*s, ok(ms))}},
		{ID: "C24", Fact: "a huge open time saturates",
			Policy: guarded(policy.Breaker{Consecutive: 1, Open: 365 * 24 * time.Hour, OpenMax: 365 * 24 * time.Hour, OpenGrowth: 100}),
			Calls:  each(0, time.Hour, "FS")},
		{ID: "C25 C103", Fact: "rejected calls are not in the window",
			Policy: guarded(policy.Breaker{MinCalls: 4, Open: 5 * s, Probes: 1}),
			Calls:  slices.Concat(each(0, ms, "SFFF"), each(s, ms, "SSSSSS"), each(6*s, s, "SF"))},
		{ID: "C37", Fact: "a thousand calls when the open time is over: one probe",
			Policy: guarded(policy.Breaker{Consecutive: 1, Open: 10 * s, Probes: 1}), Calls: append(each(0, 0, "F"), storm...),
			Check: all(counts(policy.KindAttemptSent, 2), returned(map[policy.Reason]int{policy.None: 1, policy.AttemptsExhausted: 1, policy.BreakerOpen: 999}))},
		{ID: "C115 F6", Fact: "if the second attempt trips it, the third never leaves",
			Policy: retried(policy.Breaker{Consecutive: 2}), Calls: []Call{call(0, down(ms))}},
		{ID: "C115", Fact: "a call of three failing attempts adds three outcomes",
			Policy: retried(policy.Breaker{Consecutive: 3}), Calls: []Call{call(0, down(ms))}},
		{ID: "F6", Fact: "per call: a call of three failing attempts is one outcome",
			Policy: with(retried(policy.Breaker{Consecutive: 2, Per: policy.PerCall}), func(p *policy.Policy) { p.Retry.Hold = policy.Off }),
			Calls:  []Call{call(0, down(ms)), call(4*s, down(ms)), call(8*s, ok(ms))}},
		{ID: "F6", Fact: "per call: a retry waits while another call failed",
			Policy: retried(policy.Breaker{Consecutive: 3, Per: policy.PerCall}), Calls: []Call{call(0, down(ms)), call(4*s, down(ms), ok(ms)), call(8500*ms, ok(ms))}},
		{ID: "F6", Fact: "per call: the last outcome is the verdict",
			Policy: retried(policy.Breaker{Consecutive: 1, Per: policy.PerCall}), Calls: []Call{call(0, down(ms), ok(ms)), call(4*s, ok(ms))}},
		{ID: "F6", Fact: "per call: a call timeout with work out is a failure",
			Policy: with(retried(policy.Breaker{Consecutive: 1, Per: policy.PerCall}), func(p *policy.Policy) {
				p.Timeout = policy.Timeout{Call: 3 * s, Attempt: policy.Off}
			}),
			Calls: []Call{call(0, hangs()), call(4*s, ok(ms))}},
		{ID: "F6 C31", Fact: "per call: a cancel is neutral, and so is a crash after a failure",
			Policy: retried(policy.Breaker{Consecutive: 1, Per: policy.PerCall}),
			Calls:  []Call{canceled(500*ms, call(0, down(ms))), call(2*s, down(ms), panics(ms)), call(4*s, ok(ms))}},
		{ID: "F6", Fact: "no sleep into an open breaker",
			Policy: with(retried(policy.Breaker{Consecutive: 2, Open: 10 * s}), func(p *policy.Policy) { p.Retry.Attempts = 5 }),
			Calls:  []Call{call(0, down(ms)), call(1, down(2*ms))}},
		{ID: "F6", Fact: "a sleep that ends when the breaker probes is worth it",
			Policy: with(retried(policy.Breaker{Consecutive: 1, Open: s - ms, Probes: 1}), func(p *policy.Policy) { p.Retry.Backoff = backoff.Backoff{Kind: backoff.Constant, Base: s, Cap: s} }),
			Calls:  []Call{call(0, down(ms), ok(ms))}},
		{ID: "F4", Fact: "a Retry-After lengthens the open time",
			Policy: guarded(policy.Breaker{Consecutive: 1, Open: 5 * s, OpenMax: time.Minute}),
			Calls:  []Call{call(0, ends(ms, &told{policy.Outcome{Class: policy.ClassServer, HasAfter: true, After: 20 * s}})), call(15*s, ok(ms)), call(21*s, ok(ms))}},
		{ID: "C47 F8", Fact: "partitions have breakers of their own",
			Policy: guarded(policy.Breaker{Consecutive: 1}),
			Calls:  []Call{in("a", call(0, down(ms))), in("b", call(s, ok(ms))), in("a", call(2*s, ok(ms))), call(3*s, ok(ms))}},
		{ID: "C47", Fact: "budget and bulkhead belong to the dependency",
			Policy: with(slots(policy.Bulkhead{Limit: 1, Queue: policy.Off}), func(p *policy.Policy) { p.Breaker = policy.Breaker{} }),
			Calls:  []Call{in("a", call(0, ok(s))), in("b", call(ms, ok(s)))}},
		{ID: "C120 F8", Fact: "partitions past the bound share one breaker, which refuses no call",
			Policy: with(guarded(policy.Breaker{Consecutive: 1}), func(p *policy.Policy) { p.Partitions.Max = 1 }),
			Calls:  []Call{in("a", call(0, ok(ms))), in("b", call(s, down(ms))), in("c", call(2*s, ok(ms))), in("a", call(3*s, ok(ms)))}},
	}
}

func halfOpenCases() []Case {
	// probing is a policy whose breaker is open from the first call on, for a second.
	probing := func(b policy.Breaker) policy.Policy {
		b.Open, b.OpenGrowth = s, 1
		if b.MinCalls == 0 {
			b.MinCalls = 1
		}
		return guarded(b)
	}
	first := each(0, 0, "F")
	four := policy.Breaker{Probes: 4}
	after := func(calls ...Call) []Call { return append(slices.Clone(first), calls...) }
	return []Case{
		{ID: "C27", Fact: "four probes at once, the fifth is refused, one home lets the next in",
			Policy: probing(policy.Breaker{Probes: 4, ProbeCalls: 6}),
			Calls: after(call(s, ok(s)), call(s+1, ok(s+10*ms)), call(s+2, ok(s+20*ms)), call(s+3, ok(s+30*ms)),
				call(s+4, ok(s)), call(2*s+ms, ok(s)))},
		{ID: "C28", Fact: "F F S F re-opens", Policy: probing(four), Calls: append(slices.Clone(first), each(s, ms, "FFSF")...)},
		{ID: "C28", Fact: "F S S S closes, with an empty window",
			Policy: probing(policy.Breaker{Probes: 4, MinCalls: 1, FailureRate: 0.3}), Calls: append(slices.Clone(first), each(s, ms, "FSSSS")...)},
		{ID: "C29", Fact: "slow probes re-open though none failed",
			Policy: with(probing(policy.Breaker{Probes: 4, SlowCall: 2 * s, SlowRate: 0.5}), func(p *policy.Policy) { p.Breaker.ProbeTimeout = time.Minute }),
			Calls:  after(call(s, ok(3*s)), call(s+1, ok(3*s+ms)), call(s+2, ok(3*s+2*ms)), call(s+3, ok(s)))},
		{ID: "C30", Fact: "a probe that says nothing gives its place back",
			Policy: probing(policy.Breaker{Probes: 1}), Calls: append(slices.Clone(first), each(s, ms, "IS")...)},
		{ID: "C31", Fact: "a cancelled probe is neutral",
			Policy: probing(policy.Breaker{Probes: 1}), Calls: after(canceled(1500*ms, call(s, hangs())), call(2*s, ok(ms)))},
		{ID: "C32", Fact: "a panicking probe is neutral, and so is Goexit",
			Policy: probing(policy.Breaker{Probes: 1}), Calls: after(call(s, panics(ms)), call(2*s, exits(ms)), call(3*s, ok(ms)))},
		{ID: "C33", Fact: "a probe that does not come home in time re-opens",
			Policy: probing(policy.Breaker{Probes: 1, ProbeTimeout: s}),
			Calls:  after(call(s, deaf(ok(3500*ms))), call(1500*ms, ok(ms)), call(2200*ms, ok(ms)), call(3*s, ok(ms)))},
		{ID: "C33", Fact: "or closes, if so told; a look takes it too",
			Policy: probing(policy.Breaker{Probes: 1, ProbeTimeout: s, ProbeExpiryCloses: true}),
			Calls:  after(call(s, deaf(ok(3500*ms))), call(3*s, ok(ms))), Hands: []Hand{look(2500 * ms)}},
		{ID: "C34", Fact: "the verdict at the third outcome; those in flight are stale",
			Policy: probing(policy.Breaker{Probes: 10, ProbeCalls: 3}),
			Calls: after(call(s, ok(10*ms)), call(s+1, ok(20*ms)), call(s+2, ok(30*ms)), call(s+3, down(40*ms)), call(s+4, down(50*ms)),
				call(3*s, ok(ms)))},
		{ID: "C35", Fact: "three successes of four close, two failures re-open",
			Policy: probing(policy.Breaker{Probes: 4, CloseAfter: 3, ReopenAfter: 2}),
			Calls:  slices.Concat(first, each(s, ms, "FSF"), each(3*s, ms, "SSS"))},
		{ID: "C28 E1", Fact: "headers alone close nothing: a probe whose result breaks re-opens",
			Policy: probing(policy.Breaker{Probes: 1}),
			Calls:  after(held(s, true, call(s, ok(10*ms))), call(1500*ms, ok(ms)), call(2500*ms, ok(ms)), call(4*s, ok(ms))),
			Check:  returned(map[policy.Reason]int{policy.AttemptsExhausted: 1, policy.None: 2, policy.BreakerOpen: 2})},
		{ID: "C28 E1", Fact: "a probe whose result comes whole closes then",
			Policy: probing(policy.Breaker{Probes: 1}),
			Calls:  after(held(s, false, call(s, ok(10*ms))), call(1500*ms, ok(ms)), call(2500*ms, ok(ms)))},
		{ID: "C28 E1 F6", Fact: "per call, too",
			Policy: probing(policy.Breaker{Probes: 1, Per: policy.PerCall}),
			Calls:  after(held(s, false, call(s, ok(10*ms))), call(1500*ms, ok(ms)), call(2500*ms, ok(ms)))},
		{ID: "C33 E1", Fact: "a probe whose result lives on closes when it has done so for an attempt's time",
			Policy: probing(policy.Breaker{Probes: 1}),
			Calls:  after(held(10*s, true, call(s, ok(10*ms))), call(4900*ms, ok(ms)), call(5100*ms, ok(ms)))},
		{ID: "C36", Fact: "a call of the closed time has no say in half-open",
			Policy: probing(policy.Breaker{Probes: 1}),
			Calls:  []Call{call(0, down(1500*ms)), call(1, down(ms)), call(1200*ms, ok(s)), call(3*s, ok(ms))}},
		{ID: "F3", Fact: "a call that waits for its slot holds no probe",
			Policy: with(probing(policy.Breaker{Probes: 1}), func(p *policy.Policy) {
				p.Bulkhead, p.Timeout = policy.Bulkhead{Limit: 1, QueueTimeout: policy.Off}, policy.Timeout{Call: 30 * s, Attempt: 3500 * ms}
			}),
			Calls: []Call{call(0, ok(3*s)), call(1500*ms, ok(ms)), call(1501*ms, ok(ms))},
			Hands: []Hand{move(10*ms, tripped)}},
		{ID: "F6", Fact: "those queued are refused when their slot comes and the breaker is open",
			Policy: with(guarded(policy.Breaker{Consecutive: 1}), func(p *policy.Policy) { p.Bulkhead = policy.Bulkhead{Limit: 1, QueueTimeout: policy.Off} }),
			Calls:  []Call{call(0, down(s)), call(ms, ok(ms)), call(2*ms, ok(ms))}},
		{ID: "F6", Fact: "no call queues before an open breaker",
			Policy: with(guarded(policy.Breaker{Consecutive: 1}), func(p *policy.Policy) { p.Bulkhead = policy.Bulkhead{Limit: 1, QueueTimeout: policy.Off} }),
			Calls:  []Call{call(0, ok(s)), call(500*ms, ok(ms))}, Hands: []Hand{move(10*ms, tripped)}},
		{ID: "F3", Fact: "tripped by hand it probes when its time is over, however many were refused",
			Policy: guarded(policy.Breaker{Open: s, OpenCalls: 3}), Calls: append(each(500*ms, 10*ms, "SSSSSS"), call(1100*ms, ok(ms))),
			Hands: []Hand{move(10*ms, tripped)},
			Check: returned(map[policy.Reason]int{policy.BreakerOpen: 6, policy.None: 1})},
		{ID: "F3 G5", Fact: "a hedge never probes",
			Policy: with(probing(policy.Breaker{Probes: 2}), func(p *policy.Policy) { p.Hedge = policy.Hedge{Max: 1, Delay: 100 * ms} }),
			Calls:  []Call{{NoHedge: true, Script: script(ends(0, errDown))}, call(s, ok(500*ms)), call(2*s, ok(500*ms)), call(3*s, ok(500*ms))}},
		{ID: "G5 F3", Fact: "a hedge does not half-open a breaker whose time is over",
			Policy: with(guarded(policy.Breaker{Consecutive: 1, Open: s, OpenGrowth: 1}), func(p *policy.Policy) { p.Hedge = policy.Hedge{Max: 1, Delay: 2 * s} }),
			Calls:  []Call{call(0, ok(3*s)), {At: 10 * ms, NoHedge: true, Script: script(down(ms))}}},
	}
}

func handCases() []Case {
	trip := policy.Breaker{Consecutive: 1, Open: 5 * s, Probes: 1}
	forced := func(end clock.Instant) func(*breaker.Breaker, clock.Instant) {
		return func(b *breaker.Breaker, now clock.Instant) {
			if end != clock.Never {
				b.By("").ForceOpen(now, now.Add(time.Duration(end)))
				return
			}
			b.By("").ForceOpen(now, end)
		}
	}
	two := func() []Hand {
		var one, other breaker.Isolation
		return []Hand{
			move(s, func(b *breaker.Breaker, now clock.Instant) { one, other = b.By("").Isolate(now), b.By("").Isolate(now) }),
			move(3*s, func(b *breaker.Breaker, now clock.Instant) { b.By("").Release(now, one); b.By("").Release(now, one) }),
			move(5*s, func(b *breaker.Breaker, now clock.Instant) { b.By("").Release(now, other) }),
		}
	}
	return []Case{
		{ID: "C39", Fact: "forced open rejects all, and time does not release it",
			Policy: guarded(trip), Calls: each(s, 10*time.Hour, "SSS"), Hands: []Hand{move(0, forced(clock.Never))}},
		{ID: "C40", Fact: "forced open for two hours",
			Policy: guarded(trip), Calls: each(time.Hour, time.Hour+s, "SS"), Hands: []Hand{move(0, forced(clock.Instant(2*time.Hour)))}},
		{ID: "C41", Fact: "disabled admits all, records nothing, says nothing",
			Policy: guarded(trip), Calls: each(s, s, "FFFF"), Hands: []Hand{move(0, disabled)}},
		{ID: "C42", Fact: "observe-only never rejects, and says each crossing once",
			Policy: guarded(policy.Breaker{Consecutive: 1, Observe: true}), Calls: each(s, s, "FFFFFFFFFF"), Check: all(counts(policy.KindBreakerExceeded, 1), counts(policy.KindAttemptSent, 10))},
		{ID: "C43", Fact: "closed can't be half-opened by hand; reset closes and empties",
			Policy: guarded(policy.Breaker{WindowCalls: 2}), Calls: slices.Concat(each(s, s, "FF"), each(4*s, s, "FS")),
			Hands: []Hand{
				move(0, func(b *breaker.Breaker, now clock.Instant) {
					if b.By("").TryHalfOpen(now) == nil {
						panic("half-opened a closed breaker")
					}
				}),
				move(3*s, closed),
			}},
		{ID: "C44", Fact: "two isolations: both must be released, and one only once",
			Policy: guarded(trip), Calls: each(2*s, 2*s, "SSS"), Hands: two()},
		{ID: "C117", Fact: "a reload keeps what the breaker knows; calls under way end on the old policy",
			Policy: guarded(policy.Breaker{Consecutive: 2}),
			Calls:  []Call{call(0, down(ms)), call(s, down(3*s)), call(5*s, down(ms)), call(8*s, ok(ms))},
			Hands: []Hand{
				reload(2*s, with(guarded(policy.Breaker{Consecutive: 3}), func(p *policy.Policy) { p.Retry.Attempts = 2 })),
				{6500 * ms, func(h Handle) {
					if h.Reload(policy.Policy{Retry: policy.Retry{Attempts: -7}}) == nil {
						panic("a bad policy was put in force")
					}
				}},
			}},
		{ID: "C117 F1", Fact: "a reload switches a breaker on for partitions that are there already",
			Policy: with(guarded(policy.Breaker{}), func(p *policy.Policy) { p.Breaker = noBreaker }),
			Calls:  []Call{in("a", call(0, down(ms))), in("a", call(2*s, down(ms))), in("a", call(3*s, ok(ms)))},
			Hands:  []Hand{reload(s, guarded(trip))}},
		{ID: "C117", Fact: "a reload gives hedges by percentile to partitions that are there already",
			Policy: retrying(1, every(s)),
			Calls:  []Call{in("a", call(0, ok(ms))), in("a", call(2*s, ok(s)))},
			Hands:  []Hand{reload(s, with(hedged(1, 100*ms), func(p *policy.Policy) { p.Hedge.Percentile = 0.95 }))}},
		{ID: "C117 F1", Fact: "a reload ends observing, and begins it",
			Policy: guarded(policy.Breaker{Consecutive: 1, Observe: true}),
			Calls:  each(0, s, "FFSFS"),
			Hands:  []Hand{reload(500*ms, guarded(trip)), reload(3500*ms, guarded(policy.Breaker{Consecutive: 1, Observe: true})), reload(2500*ms, guarded(policy.Breaker{Consecutive: 1, Observe: true}))}},
	}
}

func tripped(b *breaker.Breaker, now clock.Instant)  { b.By("").Trip(now) }
func closed(b *breaker.Breaker, now clock.Instant)   { b.By("").Reset(now) }
func disabled(b *breaker.Breaker, now clock.Instant) { b.By("").Disable(now, clock.Never) }
