package conformance

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/internal/bulkhead"
	"github.com/gabion-go/gabion/policy"
)

func bulkheadCases() []Case {
	two := policy.Bulkhead{Limit: 2, Queue: 1}
	forever := policy.Bulkhead{Limit: 1, Queue: 10, QueueTimeout: policy.Off}
	as := func(tenant string, c Call) Call { c.Tenant = tenant; return c }
	prio := func(p bulkhead.Priority, c Call) Call { c.Priority = p; return c }
	again := func(b policy.Bulkhead) policy.Policy {
		p := retrying(2, every(s))
		p.Bulkhead = b
		return p
	}
	bad := &policy.Outcome{Class: policy.ClassServer}
	return []Case{
		{ID: "C99", Fact: "two run, the third waits, the fourth is refused; one home, and the third runs",
			Policy: slots(two), Calls: []Call{call(0, ok(500*ms)), call(1, ok(800*ms)), call(2, ok(ms)), call(3, ok(ms))}},
		{ID: "G1", Fact: "a wait for a slot has an end",
			Policy: slots(policy.Bulkhead{Limit: 1, QueueTimeout: 200 * ms}), Calls: []Call{call(0, ok(s)), call(1, ok(ms))}},
		{ID: "C100", Fact: "cancelled waiters leave at once and the next live one is served, in order",
			Policy: slots(forever),
			Calls: []Call{call(0, ok(s)), canceled(100*ms, call(1, ok(ms))), canceled(100*ms+1, call(2, ok(ms))), canceled(100*ms+2, call(3, ok(ms))),
				call(4, ok(2*ms)), call(5, ok(3*ms))}},
		{ID: "C101", Fact: "error, panic, Goexit, cancel and timeout give the slot back",
			Policy: slots(forever),
			Calls: []Call{call(0, down(ms)), call(1, panics(ms)), call(2, exits(ms)), canceled(100*ms, call(3, hangs())), within(300*ms, call(4, hangs())),
				call(5, ok(ms))}},
		{ID: "C102", Fact: "a shrink kills nothing and admits no call until under; growing starts waiters",
			Policy: slots(policy.Bulkhead{Limit: 2, Queue: 10, QueueTimeout: policy.Off}),
			Calls:  []Call{call(0, ok(s)), call(1, ok(2*s)), call(2, ok(3*s)), call(3, ok(3*s+ms)), call(4, ok(3*s+2*ms))},
			Hands: []Hand{
				reload(500*ms, slots(policy.Bulkhead{Limit: 1, Queue: 10, QueueTimeout: policy.Off})),
				reload(2500*ms, slots(policy.Bulkhead{Limit: 3, Queue: 10, QueueTimeout: policy.Off})),
			}},
		{ID: "C117 G1", Fact: "a bulkhead that is switched off lets those go who queue",
			Policy: slots(forever), Calls: []Call{call(0, ok(s)), call(1, ok(s)), call(2, ok(s))},
			Hands: []Hand{reload(500*ms, retrying(1, every(s)))}},
		{ID: "C103", Fact: "a bulkhead's refusals are no failures",
			Policy: with(slots(policy.Bulkhead{Limit: 1, Queue: policy.Off}), func(p *policy.Policy) { p.Breaker = policy.Breaker{Consecutive: 1} }),
			Calls:  []Call{call(0, ok(s)), call(1, ok(s)), call(2, ok(s)), call(2*s, ok(ms))}},
		{ID: "G1", Fact: "per attempt: a call that sleeps holds no slot",
			Policy: again(policy.Bulkhead{Limit: 1, Queue: policy.Off}), Calls: []Call{call(0, down(ms), ok(ms)), call(500*ms, ok(ms))}},
		{ID: "G1 F6", Fact: "per call: a call that sleeps keeps its slot",
			Policy: again(policy.Bulkhead{Limit: 1, Queue: policy.Off, Per: policy.PerCall}), Calls: []Call{call(0, down(ms), ok(ms)), call(500*ms, ok(ms)), call(2*s, ok(ms))}},
		{ID: "C117", Fact: "a change of per: in flight loses no slot",
			Policy: again(policy.Bulkhead{Limit: 1, Queue: policy.Off, Per: policy.PerCall}), Calls: []Call{call(0, down(ms), ok(s)), call(500*ms, ok(ms)), call(1500*ms, ok(ms)), call(3*s, ok(ms))},
			Hands: []Hand{reload(300*ms, again(policy.Bulkhead{Limit: 1, Queue: policy.Off}))}},
		{ID: "G1", Fact: "who matters more goes first",
			Policy: slots(forever), Calls: []Call{call(0, ok(s)), prio(bulkhead.Low, call(1, ok(ms))), call(2, ok(2*ms)), prio(bulkhead.High, call(3, ok(3*ms)))}},
		{ID: "G1", Fact: "a fair bulkhead serves the tenant with the fewest slots, and makes room for it",
			Policy: slots(policy.Bulkhead{Limit: 1, Queue: 2, QueueTimeout: policy.Off, Fair: true}),
			Calls:  []Call{as("a", call(0, ok(s))), as("a", call(1, ok(ms))), as("a", call(2, ok(2*ms))), as("b", call(3, ok(3*ms)))}},
		{ID: "C117 G1", Fact: "a reload makes a bulkhead fair",
			Policy: slots(policy.Bulkhead{Limit: 1, Queue: 2, QueueTimeout: policy.Off}),
			Calls:  []Call{as("a", call(0, ok(s))), as("a", call(501*ms, ok(ms))), as("a", call(502*ms, ok(2*ms))), as("b", call(503*ms, ok(3*ms)))},
			Hands:  []Hand{reload(500*ms, slots(policy.Bulkhead{Limit: 1, Queue: 2, QueueTimeout: policy.Off, Fair: true}))}},
		{ID: "E1 I1", Fact: "a result that is open keeps its slot until it is closed",
			Policy: slots(policy.Bulkhead{Limit: 1, Queue: policy.Off}), Calls: []Call{held(s, false, call(0, ok(10*ms))), call(500*ms, ok(ms)), call(2*s, ok(ms))}},
		{ID: "E1", Fact: "a result that breaks is one further failure, never a second verdict",
			Policy: with(guarded(policy.Breaker{Failures: 1, WindowCalls: 10}), func(*policy.Policy) {}),
			Calls:  []Call{held(s, true, call(0, ok(10*ms))), call(500*ms, ok(ms)), call(2*s, ok(ms))}},
		{ID: "E1", Fact: "a result that breaks because the caller left is no failure",
			Policy: guarded(policy.Breaker{Failures: 1, WindowCalls: 10}),
			Calls:  []Call{canceled(500*ms, held(s, true, call(0, ok(10*ms)))), call(2*s, ok(ms))}},
		{ID: "E1 SPEC.C5", Fact: "a failed result that is open gives its slot back before the retry asks for one",
			Policy: again(policy.Bulkhead{Limit: 1, Queue: policy.Off}), Calls: []Call{held(s, false, call(0, Work{Takes: ms, Means: bad}, ok(ms))), call(500*ms, ok(ms))}},
		{ID: "F3 G1", Fact: "with all probes out no call queues: the rest is refused at once, with the time to come back",
			Policy: with(slots(policy.Bulkhead{Limit: 1}), func(p *policy.Policy) {
				p.Breaker = policy.Breaker{Consecutive: 1, Open: s, OpenJitter: policy.Off, Probes: 1, ProbeTimeout: 4 * s}
			}),
			Calls: []Call{call(0, down(ms)), call(2*s, ok(3*s)), call(2500*ms, ok(ms))},
			Check: all(returned(map[policy.Reason]int{policy.AttemptsExhausted: 1, policy.None: 1, policy.BreakerOpen: 1}), func(l Log) error {
				refused := l.Of(policy.KindAttemptRefused)
				if len(refused) != 1 || refused[0].At != 2500*ms || refused[0].Event.Until.Sub(refused[0].Event.At) != 3500*ms {
					return fmt.Errorf("refused: %v", refused)
				}
				return nil
			})},
		{ID: "F3 G1", Fact: "who queues beside a probe that may still go takes no probe's place",
			Policy: with(slots(policy.Bulkhead{Limit: 1}), func(p *policy.Policy) {
				p.Breaker = policy.Breaker{Consecutive: 1, Open: s, OpenJitter: policy.Off, Probes: 2, ProbeTimeout: 4 * s}
			}),
			Calls: []Call{call(0, down(ms)), call(2*s, ok(300*ms)), call(2100*ms, ok(ms))}, Check: returned(map[policy.Reason]int{policy.AttemptsExhausted: 1, policy.None: 2})},
		{ID: "G1", Fact: "a retry waits for its slot like any other",
			Policy: again(forever), Calls: []Call{call(0, down(ms), ok(ms)), call(900*ms, ok(s))}},
		{ID: "G1", Fact: "a wait without end is reported too",
			Policy: with(slots(forever), func(p *policy.Policy) { p.Timeout = policy.Timeout{Call: policy.Off, Attempt: policy.Off} }),
			Calls:  []Call{call(0, ok(s)), call(1, ok(ms))}},
	}
}

func hedgeCases() []Case {
	sibling := func(p policy.Policy) policy.Policy {
		p.Breaker = policy.Breaker{Consecutive: 1, OpenJitter: policy.Off}
		return p
	}
	stop := &told{policy.Outcome{Class: policy.ClassServer, Stop: true}}
	push := &told{policy.Outcome{Class: policy.ClassServer, HasAfter: true, After: 300 * ms}}
	soon := &told{policy.Outcome{Class: policy.ClassServer, HasAfter: true, After: 50 * ms}}
	exact := &told{policy.Outcome{Class: policy.ClassServer, HasAfter: true, After: 300 * ms, Exact: true, Alone: true}}
	bug := &told{policy.Outcome{Class: policy.ClassServer, Once: true}}
	return []Case{
		{ID: "C104", Fact: "delay 500 ms, four attempts: one more in flight every 500 ms",
			Policy: hedged(3, 500*ms), Calls: []Call{call(0, ok(1700*ms), ok(3*s), ok(3*s), ok(3*s))}},
		{ID: "C105", Fact: "a transient failure brings the next hedge at once, and starts the delay again",
			Policy: hedged(3, 500*ms), Calls: []Call{call(0, down(100*ms), ok(2*s), ok(ms))}},
		{ID: "C105", Fact: "a permanent failure cancels all",
			Policy: hedged(3, 500*ms), Calls: []Call{call(0, ok(2*s), ends(100*ms, errWrong))}},
		{ID: "C106", Fact: "the first success cancels the rest; a loser says nothing",
			Policy: sibling(hedged(1, 500*ms)), Calls: []Call{call(0, deaf(down(2*s)), ok(100*ms)), call(3*s, ok(ms))}},
		{ID: "C106", Fact: "an attempt that the call's deadline leaves behind is no loser",
			Policy: with(sibling(hedged(1, 500*ms)), func(p *policy.Policy) { p.Timeout = policy.Timeout{Call: 2 * s, Attempt: policy.Off} }),
			Calls:  []Call{call(0, deaf(down(3*s)), hangs()), call(4*s, ok(ms))}},
		{ID: "C106", Fact: "nor are they when the call was over before they came home",
			Policy: with(sibling(hedged(1, 100*ms)), func(p *policy.Policy) {
				p.Breaker.Consecutive, p.Timeout = 2, policy.Timeout{Call: 2 * s, Attempt: policy.Off}
			}),
			Calls: []Call{call(0, down(300*ms), deaf(down(3*s))), call(3500*ms, ok(ms))}},
		{ID: "F6 C106", Fact: "per call: a call timeout that leaves work behind is a failure",
			Policy: with(sibling(hedged(1, 100*ms)), func(p *policy.Policy) {
				p.Pace = noPace
				p.Breaker.Per, p.Timeout = policy.PerCall, policy.Timeout{Call: 2 * s, Attempt: policy.Off}
			}),
			Calls: []Call{call(0, ends(300*ms, throttled(0)), deaf(ok(4*s))), call(2500*ms, ok(ms))}},
		{ID: "G1 C106", Fact: "per call: the slot is kept until the last loser is home",
			Policy: with(hedged(1, 100*ms), func(p *policy.Policy) {
				p.Bulkhead = policy.Bulkhead{Limit: 1, Queue: policy.Off, Per: policy.PerCall}
			}),
			Calls: []Call{call(0, ok(200*ms), deaf(ok(s))), call(500*ms, ok(ms)), call(2*s, ok(ms))}},
		{ID: "G5 F2", Fact: "a hedge without a slot leaves no call that ages",
			Policy: with(hedged(1, 100*ms), func(p *policy.Policy) {
				p.Bulkhead = policy.Bulkhead{Limit: 1}
				p.Breaker = policy.Breaker{InFlight: true, SlowCall: 2 * s, MinCalls: 1, SlowRate: 0.5, OpenJitter: policy.Off}
			}),
			Calls: []Call{call(0, ok(s)), call(5*s, ok(ms))}},
		{ID: "G5 D1", Fact: "a hedge without a slot gives its reservation back",
			Policy: with(hedged(1, 100*ms), func(p *policy.Policy) {
				p.Bulkhead = policy.Bulkhead{Limit: 1}
				p.Retry.Attempts, p.Retry.Budget = 2, policy.Budget{Ratio: policy.Off, Floor: 0.1}
			}),
			Calls: []Call{call(0, down(300*ms), ok(ms))}},
		{ID: "C107", Fact: "delay 0: all at once", Policy: hedged(2, 0), Calls: []Call{call(0, ok(300*ms), ok(200*ms), ok(100*ms))}},
		{ID: "C107", Fact: "delay off: only a failure brings the next",
			Policy: hedged(1, policy.Off), Calls: []Call{call(0, ok(2*s)), call(3*s, down(ms), ok(ms))}},
		{ID: "C108", Fact: "pushback: the next hedge not before that time, and then the delay again",
			Policy: with(hedged(2, 500*ms), func(p *policy.Policy) { p.Pace, p.Retry.Backoff = noPace, every(ms) }), Calls: []Call{call(0, ends(100*ms, push), ok(2*s), ok(ms))}},
		{ID: "C108 C73", Fact: "pushback of gRPC: the next hedge at exactly that time, and then the delay again",
			Policy: with(hedged(2, 500*ms), func(p *policy.Policy) { p.Retry.Backoff = backoff.Backoff{Base: 50 * ms} }), Calls: []Call{call(0, ends(100*ms, exact), ok(2*s), ok(ms))}, Check: sentAt(0, 400*ms, 900*ms)},
		{ID: "C108", Fact: "negative pushback: no more hedges, those in flight continue",
			Policy: hedged(3, 500*ms), Calls: []Call{call(0, ok(2*s), ends(100*ms, stop), ok(ms))}},
		{ID: "C108", Fact: "negative pushback: no retry either, whatever the sibling says",
			Policy: with(hedged(2, 500*ms), func(p *policy.Policy) { p.Retry.Attempts = 3 }), Calls: []Call{call(0, down(s), ends(100*ms, stop), ok(ms))}},
		{ID: "C71 G5", Fact: "a Retry-After longer than the policy's ends the call at once, hedges left or not",
			Policy: with(hedged(1, 500*ms), func(p *policy.Policy) { p.Pace, p.Retry.Attempts, p.Retry.MaxAfter = noPace, 2, 200*ms }),
			Calls:  []Call{call(0, ends(100*ms, push), ok(ms))}, Check: all(endedAt(100*ms), returned(map[policy.Reason]int{policy.RetryAfterTooLong: 1}))},
		{ID: "C71 G5", Fact: "nor is a Retry-After waited for that leaves a hedge no time",
			Policy: with(hedged(1, 200*ms), func(p *policy.Policy) {
				p.Pace, p.Timeout = noPace, policy.Timeout{Call: 420 * ms, Attempt: policy.Off}
			}),
			Calls: []Call{call(0, ends(100*ms, push), ok(ms))}, Check: endedAt(100 * ms)},
		{ID: "C88 G5", Fact: "a hedge that the budget refuses is not slept for",
			Policy: with(hedged(1, 500*ms), func(p *policy.Policy) {
				p.Pace, p.Retry.Attempts, p.Retry.Budget = noPace, 2, policy.Budget{Ratio: policy.Off, Floor: policy.Off}
			}),
			Calls: []Call{call(0, ends(100*ms, push), ok(ms))}, Check: all(endedAt(100*ms), returned(map[policy.Reason]int{policy.BudgetExhausted: 1}))},
		{ID: "D1 G5", Fact: "a hedge that waits for a pushback has its re-send already, and gives it back when the caller leaves",
			Policy: with(hedged(1, 500*ms), func(p *policy.Policy) {
				p.Pace, p.Retry.Backoff, p.Retry.Budget = noPace, every(ms), policy.Budget{Ratio: policy.Off, Floor: 0.1}
			}),
			Calls: []Call{canceled(300*ms, call(0, ends(100*ms, push))), call(s, ends(100*ms, push), ok(ms)), call(1200*ms, ends(ms, soon), ok(ms))}},
		{ID: "D1 G5", Fact: "of two pushbacks one re-send is reserved",
			Policy: with(hedged(2, 70*ms), func(p *policy.Policy) {
				p.Pace, p.Retry.Backoff, p.Retry.Budget = noPace, every(ms), policy.Budget{Ratio: policy.Off, Floor: 0.3}
			}),
			Calls: []Call{call(0, ends(100*ms, push), ends(100*ms, push), ok(ms)), call(2*s, ends(ms, push), ok(ms))},
			Check: all(counts(policy.KindAttemptSent, 5), returned(map[policy.Reason]int{policy.None: 2}))},
		{ID: "F6 G5", Fact: "a hedge does not sleep into an open breaker",
			Policy: with(sibling(hedged(1, 500*ms)), func(p *policy.Policy) { p.Pace, p.Retry.Attempts = noPace, 2 }),
			Calls:  []Call{call(0, ends(100*ms, push), ok(ms))}, Check: all(endedAt(100*ms), returned(map[policy.Reason]int{policy.BreakerOpen: 1}))},
		{ID: "E1 G5", Fact: "a failed result that is open has no slot while its hedge waits for a pushback",
			Policy: with(hedged(1, 500*ms), func(p *policy.Policy) {
				p.Pace, p.Retry.Backoff, p.Bulkhead = noPace, every(ms), policy.Bulkhead{Limit: 1, Queue: policy.Off}
			}),
			Calls: []Call{held(s, false, call(0, Work{Takes: ms, Means: &push.o}, ok(ms))), call(100*ms, ok(ms))}, Check: returned(map[policy.Reason]int{policy.None: 2})},
		{ID: "B3 G5", Fact: "what may be a bug is sent again once, by a hedge or by a retry",
			Policy: with(hedged(3, 500*ms), func(p *policy.Policy) { p.Retry.Attempts = 3 }),
			Calls:  []Call{call(0, ends(ms, bug))}, Check: all(counts(policy.KindAttemptSent, 2), returned(map[policy.Reason]int{policy.AttemptsExhausted: 1}))},
		{ID: "SPEC.C4 G5", Fact: "a hedge that could not finish is not made",
			Policy: with(hedged(1, 980*ms), func(p *policy.Policy) { p.Timeout = policy.Timeout{Call: s, Attempt: policy.Off} }),
			Calls:  []Call{call(0, hangs())}, Check: all(counts(policy.KindAttemptSent, 1), counts(policy.KindHedgeSkipped, 1))},
		{ID: "C109", Fact: "all fail: the last to come home is the error",
			Policy: hedged(1, 500*ms), Calls: []Call{call(0, ends(s, errDown), down(700*ms))}},
		{ID: "C109", Fact: "the caller's cancel ends all",
			Policy: hedged(2, 500*ms), Calls: []Call{canceled(1200*ms, call(0, hangs()))}},
		{ID: "C110", Fact: "unsafe work is never hedged", Policy: hedged(2, 500*ms), Calls: []Call{unsafe(call(0, ok(2*s)))}},
		{ID: "C110 SPEC.C9", Fact: "a call may forgo hedges", Policy: hedged(2, 500*ms), Calls: []Call{{Script: script(ok(2 * s)), NoHedge: true}}},
		{ID: "G5", Fact: "when hedges are spent, the retry's plan goes on",
			Policy: with(hedged(1, 100*ms), func(p *policy.Policy) { p.Retry.Attempts = 2 }), Calls: []Call{call(0, down(300*ms), down(300*ms), ok(ms))}},
		{ID: "G5", Fact: "a hedge takes a free slot or is not made",
			Policy: with(hedged(2, 100*ms), func(p *policy.Policy) { p.Bulkhead = policy.Bulkhead{Limit: 1} }), Calls: []Call{call(0, ok(s))}},
		{ID: "G5", Fact: "hedges that all find no slot do not spin",
			Policy: with(hedged(3, 0), func(p *policy.Policy) { p.Bulkhead = policy.Bulkhead{Limit: 1} }), Calls: []Call{call(0, ok(s))}},
		{ID: "G5 C32", Fact: "a hedge that panics ends the call",
			Policy: hedged(1, 100*ms), Calls: []Call{call(0, ok(s), panics(ms)), call(2*s, ok(s), exits(ms))}},
		{ID: "G5", Fact: "no hedge at or after the deadline",
			Policy: with(hedged(2, 500*ms), func(p *policy.Policy) { p.Timeout = policy.Timeout{Call: s, Attempt: policy.Off} }), Calls: []Call{call(0, deaf(ok(3*s)))}},
		{ID: "C121 G5", Fact: "the kill switch stops hedges too",
			Policy: hedged(2, 500*ms), Calls: []Call{call(0, ok(2*s))}, Hands: []Hand{{700 * ms, func(h Handle) { h.SetRetries(false) }}}},
		{ID: "G5", Fact: "the caller's own deadline while a deaf hedge is out",
			Policy: hedged(1, 100*ms), Calls: []Call{until(s, call(0, down(300*ms), deaf(ok(2*s))))}},
		{ID: "G5", Fact: "a percentile of measured latency sets the delay",
			Policy: with(hedged(1, 900*ms), func(p *policy.Policy) { p.Hedge.Percentile = 0.9 }),
			Calls:  append(each(0, 20*ms, fmt.Sprintf("%0120d", 0)), call(5*s, ok(800*ms), ok(ms))), Check: counts(policy.KindAttemptSent, 122)},
		{ID: "E1 G5", Fact: "of two open results one is kept and one let go",
			Policy: with(hedged(1, 100*ms), func(p *policy.Policy) { p.Bulkhead = policy.Bulkhead{Limit: 2, Queue: policy.Off} }),
			Calls:  []Call{held(s, false, call(0, deaf(ok(500*ms)), ok(200*ms))), call(800*ms, ok(ms)), call(800*ms+7, ok(ms))}},
		{ID: "E1 C32", Fact: "a caller that exits after a hedge won gets no result, and its slot goes back",
			Policy: with(hedged(1, 100*ms), func(p *policy.Policy) { p.Bulkhead = policy.Bulkhead{Limit: 2, Queue: policy.Off} }),
			Calls:  []Call{held(s, false, call(0, deaf(exits(500*ms)), ok(100*ms))), call(600*ms, ok(ms)), call(600*ms+7, ok(ms))}},
		{ID: "E1 C32", Fact: "a caller whose attempt panics after a hedge won gets the hedge's result, which has its slot",
			Policy: with(hedged(1, 100*ms), func(p *policy.Policy) { p.Bulkhead = policy.Bulkhead{Limit: 2, Queue: policy.Off} }),
			Calls:  []Call{held(s, false, call(0, deaf(panics(500*ms)), ok(100*ms))), call(600*ms, ok(ms)), call(600*ms+7, ok(ms))}},
		{ID: "F6 G5", Fact: "per call: what was called by hedges is one outcome",
			Policy: with(hedged(1, 100*ms), func(p *policy.Policy) { p.Breaker = policy.Breaker{Consecutive: 1, Per: policy.PerCall} }),
			Calls:  []Call{call(0, down(300*ms), ok(500*ms)), call(2*s, down(300*ms), down(400*ms)), call(3*s, ok(ms))}},
	}
}

func paceCases() []Case {
	paced := func(p policy.Pace) policy.Policy { q := retrying(1, every(100*ms)); q.Pace = p; return q }
	limited := func(r policy.RateLimit) policy.Policy { q := retrying(1, every(s)); q.RateLimit = r; return q }
	var crowd []Call
	for i := range 400 {
		w := ok(ms)
		if i >= 100 {
			w = down(ms)
		}
		crowd = append(crowd, Call{At: time.Duration(i) * 10 * ms, Script: script(w), NoRetry: true})
	}
	return []Case{
		{ID: "G8 C71", Fact: "a throttled answer holds the others back until its time, and spreads them", Seed: 5,
			Policy: paced(policy.Pace{}), Calls: []Call{call(0, ends(ms, throttled(2*s))), call(s, ok(ms)), call(s+1, ok(ms))},
			Check: all(counts(policy.KindPaceSet, 1), counts(policy.KindWaiting, 2), sentBetween(2, 2*s+ms, 6250*ms))},
		{ID: "G8", Fact: "no longer than the policy's most",
			Policy: paced(policy.Pace{Max: s}), Calls: []Call{call(0, ends(ms, throttled(20*s))), call(1500*ms, ok(ms))}},
		{ID: "G8", Fact: "a call whose deadline does not allow the wait is refused with the time to come back",
			Policy: paced(policy.Pace{}), Calls: []Call{call(0, ends(ms, throttled(3*s))), within(s, call(s, ok(ms)))}},
		{ID: "G8", Fact: "pace can be off", Policy: paced(noPace), Calls: []Call{call(0, ends(ms, throttled(3*s))), call(s, ok(ms))}},
		{ID: "G8 F5", Fact: "the breaker does not count it",
			Policy: with(paced(policy.Pace{Max: ms}), func(p *policy.Policy) { p.Breaker = policy.Breaker{Consecutive: 1} }),
			Calls:  each(0, s, "III"), Check: counts(policy.KindBreakerMoved, 0)},
		{ID: "G8 F8", Fact: "a partition is held back by itself",
			Policy: with(paced(policy.Pace{}), func(p *policy.Policy) { p.Breaker = policy.Breaker{} }),
			Calls:  []Call{in("a", call(0, ends(ms, throttled(3*s)))), in("b", call(s, ok(ms))), within(s, in("a", call(s+1, ok(ms))))}},
		{ID: "G8", Fact: "no time named, four times: one wait of the backoff",
			Policy: paced(policy.Pace{}), Calls: append(slices.Repeat([]Call{call(0, ends(ms, throttled(0)))}, 4), call(100*ms, ok(ms)))},
		{ID: "G8", Fact: "no time named, once: no call waits",
			Policy: paced(policy.Pace{}), Calls: []Call{call(0, ends(ms, throttled(0))), call(100*ms, ok(ms))}},
		{ID: "G8 G5", Fact: "a hedge does not wait for pace: it is not made",
			Policy: with(hedged(1, 100*ms), func(*policy.Policy) {}), Calls: []Call{call(0, ok(s)), {At: ms, NoHedge: true, Script: script(ends(ms, throttled(s)))}}},
		{ID: "G2", Fact: "turns are spaced, and waited for",
			Policy: limited(policy.RateLimit{Rate: 10}), Calls: []Call{call(0, ok(ms)), call(10*ms, ok(ms)), call(20*ms, ok(ms))}},
		{ID: "G2", Fact: "who may not wait is refused",
			Policy: limited(policy.RateLimit{Rate: 10, MaxWait: policy.Off}), Calls: []Call{call(0, ok(ms)), call(10*ms, ok(ms)), call(200*ms, ok(ms))}},
		{ID: "G2", Fact: "no call waits beyond the deadline",
			Policy: limited(policy.RateLimit{Rate: 1}), Calls: []Call{call(0, ok(ms)), within(500*ms, call(10*ms, ok(ms)))}},
		{ID: "G2 SPEC.C4", Fact: "nor for a turn that leaves less than the margin",
			Policy: limited(policy.RateLimit{Rate: 1}), Calls: []Call{call(0, ok(ms)), within(1000*ms, call(10*ms, ok(ms)))},
			Check: all(endedAt(10*ms+1), returned(map[policy.Reason]int{policy.None: 1, policy.RateLimited: 1}))},
		{ID: "G2", Fact: "a turn that is not used is given back",
			Policy: limited(policy.RateLimit{Rate: 1}), Calls: []Call{call(0, ok(ms)), canceled(500*ms, call(10*ms, ok(ms))), call(600*ms, ok(ms))}},
		{ID: "G2 G1", Fact: "a slot is held while the turn is waited for",
			Policy: with(limited(policy.RateLimit{Rate: 1}), func(p *policy.Policy) { p.Bulkhead = policy.Bulkhead{Limit: 1, Queue: policy.Off} }),
			Calls:  []Call{call(0, ok(ms)), call(10*ms, ok(ms)), call(500*ms, ok(ms))}},
		{ID: "G2 F6", Fact: "the breaker is asked when the turn has come",
			Policy: with(limited(policy.RateLimit{Rate: 1, Burst: 2}), func(p *policy.Policy) { p.Breaker = policy.Breaker{Consecutive: 1} }),
			Calls:  []Call{call(0, down(500*ms)), call(10*ms, ok(ms)), call(20*ms, ok(ms)), call(600*ms, ok(ms))}},
		{ID: "G3 C89", Fact: "adaptive throttling rejects when too little is accepted", Seed: 11,
			Policy: with(retrying(1, every(s)), func(p *policy.Policy) { p.Throttle.K = 2 }), Calls: crowd, Check: throttles(60, 130)},
		{ID: "G3 C90", Fact: "all accepted: no call is rejected",
			Policy: with(retrying(1, every(s)), func(p *policy.Policy) { p.Throttle.K = 2 }), Calls: crowd[:100], Check: throttles(0, 0)},
	}
}

func throttles(least, most int) func(Log) error {
	return func(l Log) error {
		n := 0
		for _, line := range l.Of(policy.KindAttemptRefused) {
			if line.Event.Reason == policy.ThrottledLocally {
				n++
			}
		}
		if n < least || n > most {
			return fmt.Errorf("%d throttled, want %d to %d", n, least, most)
		}
		return nil
	}
}

// sentBetween says whether the last n attempts began between two times, and no
// two at the same.
func sentBetween(n int, least, most time.Duration) func(Log) error {
	return func(l Log) error {
		sent := l.Of(policy.KindAttemptSent)
		last := time.Duration(0)
		for _, line := range sent[max(len(sent)-n, 0):] {
			if line.At < least || line.At > most || line.At == last {
				return fmt.Errorf("sent at %s", line.At)
			}
			last = line.At
		}
		return nil
	}
}

// lone makes calls that are never retried.
func lone(calls []Call) []Call {
	for i := range calls {
		calls[i].NoRetry = true
	}
	return calls
}

func defaultCases() []Case {
	return []Case{
		{ID: "N", Fact: "the zero policy: attempts of four seconds, full jitter, and one re-send before the first success", Seed: 1,
			Calls: []Call{call(0, hangs()), unsafe(call(20*s, hangs())), call(60*s, ok(ms))}, Check: all(counts(policy.KindAttemptSent, 4), counts(policy.KindWaiting, 1))},
		{ID: "N F2", Fact: "the zero policy: half of the calls failing do not trip",
			Calls: lone(each(0, 10*ms, "SSSSSSSSSSFFFFFFFFFFSS")), Check: trips(0)},
		{ID: "N F2", Fact: "the zero policy: twenty failures in a row that last ten seconds trip",
			Calls: lone(each(0, 500*ms, strings.Repeat("F", 24))), Check: trips(21)},
		{ID: "N F2", Fact: "the zero policy: a thousand in a second do not",
			Calls: lone(append(each(0, ms, "SSSSSSSSSSSSSSSSSSSSSSSSSSSSSSSSSSSSSSSSSSSSSSSSSSSSSSSSSSSS"), each(s, ms, strings.Repeat("F", 1000))...)), Check: trips(0)},
		{ID: "N F4", Fact: "the zero policy: an open breaker lets a probe go after three calls, and closes by its success",
			Calls: lone(slices.Concat(each(0, 500*ms, strings.Repeat("F", 21)), each(10500*ms, 10*ms, "SSSSS"))),
			Check: returned(map[policy.Reason]int{policy.None: 3, policy.AttemptsExhausted: 21, policy.BreakerOpen: 2})},
	}
}
