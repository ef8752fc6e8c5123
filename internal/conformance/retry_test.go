package conformance

import (
	"fmt"
	"slices"
	"time"

	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/policy"
)

func retryCases() []Case {
	once := &told{policy.Outcome{Class: policy.ClassServer, Once: true}}
	fixed := &told{policy.Outcome{Class: policy.ClassServer, Fixed: true}}
	after := func(d time.Duration) error {
		return &told{policy.Outcome{Class: policy.ClassServer, HasAfter: true, After: d}}
	}
	pushback := func(d time.Duration) error {
		return &told{policy.Outcome{Class: policy.ClassServer, HasAfter: true, After: d, Exact: true, Alone: true}}
	}
	waits := func(k backoff.Kind) Case {
		return Case{ID: "C54", Fact: "waits of " + k.String() + " from 1 s",
			Policy: retrying(4, backoff.Backoff{Kind: k, Base: s}), Calls: []Call{call(0, ends(0, errDown))}}
	}
	undone := &told{policy.Outcome{Class: policy.ClassThrottled, Undone: true}}
	conflict := &told{policy.Outcome{Class: policy.ClassContention, Undone: true}}
	undoneLate := &told{policy.Outcome{Class: policy.ClassNetwork, Undone: true}}
	unknowing := &told{policy.Outcome{Class: policy.ClassThrottled}}
	return []Case{
		{ID: "C52 SPEC.C1", Fact: "three attempts, always failing: three calls, two waits",
			Policy: retrying(3, every(s)), Calls: []Call{call(0, down(10*ms))}},
		{ID: "C52", Fact: "a failure, then a success: two calls",
			Policy: retrying(3, every(s)), Calls: []Call{call(0, down(10*ms), ok(20*ms))}},
		{ID: "C52 SPEC.C1", Fact: "one attempt means never retry",
			Policy: retrying(1, every(s)), Calls: []Call{call(0, down(10*ms))}},
		{ID: "C53 SPEC.C4", Fact: "no wait when the remaining deadline is shorter than the wait",
			Policy: retrying(3, every(3*s)), Calls: []Call{within(2*s, call(0, down(10*ms)))}},
		{ID: "C53 SPEC.C4", Fact: "a retry that leaves less than the margin is not waited for",
			Policy: retrying(3, every(s)), Calls: []Call{within(1059*ms, call(0, down(10*ms)))}},
		{ID: "C53 SPEC.C4", Fact: "a retry that leaves the margin is made",
			Policy: retrying(3, every(s)), Calls: []Call{within(1060*ms, call(0, down(10*ms), ok(ms)))}},
		waits(backoff.Exponential),
		waits(backoff.Linear),
		waits(backoff.Constant),
		{ID: "C57", Fact: "full jitter waits less than its bound, and differs by call", Seed: 7,
			Policy: retrying(4, backoff.Full(100*ms, s)), Calls: []Call{call(0, down(ms)), call(3, down(ms)), call(5, down(ms))},
			Check: all(counts(policy.KindAttemptSent, 12), jittered)},
		{ID: "C62 B9", Fact: "an unclassified error is not retried",
			Policy: retrying(3, every(s)), Calls: []Call{call(0, ends(10*ms, errPlain))}},
		{ID: "C62", Fact: "permanent failures and valid noes are not retried",
			Policy: retrying(3, every(s)), Calls: []Call{call(0, ends(10*ms, errWrong)), call(s, ends(10*ms, errNo))}},
		{ID: "C64 SPEC.C4", Fact: "a cancel during the wait returns at once, without another attempt",
			Policy: retrying(3, every(s)), Calls: []Call{canceled(300*ms, call(0, down(10*ms)))}},
		{ID: "C65", Fact: "the caller's cancel is never retried",
			Policy: retrying(3, every(s)), Calls: []Call{canceled(300*ms, call(0, hangs()))}},
		{ID: "C65", Fact: "an attempt's timeout is retried if that is safe",
			Policy: with(retrying(2, every(s)), func(p *policy.Policy) { p.Timeout.Attempt = 4 * s }),
			Calls:  []Call{call(0, hangs(), ok(10*ms)), unsafe(call(10*s, hangs()))}},
		{ID: "SPEC.E1", Fact: "an attempt that nothing can follow has the time of a last one",
			Policy: with(retrying(2, every(s)), func(p *policy.Policy) { p.Timeout.Last = 6 * s }),
			Calls:  []Call{call(0, hangs(), hangs()), unsafe(call(20*s, hangs())), unsafe(call(40*s, ok(5*s)))}},
		{ID: "C66 B5 B10", Fact: "unsafe work is retried only if it was never sent",
			Policy: retrying(3, every(s)), Calls: []Call{unsafe(call(0, ends(10*ms, errDial), down(20*ms)))}},
		{ID: "C66 B5", Fact: "unsafe work is retried if the dependency did nothing",
			Policy: with(retrying(3, every(s)), func(p *policy.Policy) { p.Pace = noPace }),
			Calls:  []Call{unsafe(call(0, ends(10*ms, undone), ends(10*ms, conflict), ok(10*ms)))}, Check: counts(policy.KindAttemptSent, 3)},
		{ID: "C66 B5", Fact: "an outcome that says nothing of effects does not make unsafe work safe",
			Policy: retrying(3, every(s)), Calls: []Call{unsafe(call(0, ends(10*ms, unknowing), ok(10*ms)))}, Check: counts(policy.KindAttemptSent, 1)},
		{ID: "C66 B6", Fact: "what timed out is in doubt, whatever it says was undone",
			Policy: with(retrying(3, every(s)), func(p *policy.Policy) { p.Timeout.Attempt = s }),
			Calls:  []Call{unsafe(call(0, ends(s, undoneLate), ok(10*ms)))}, Check: counts(policy.KindAttemptSent, 1)},
		{ID: "C66", Fact: "a policy may declare all work safe",
			Policy: with(retrying(2, every(s)), func(p *policy.Policy) { p.Safe = true }),
			Calls:  []Call{unsafe(call(0, down(10*ms)))}},
		{ID: "C67", Fact: "a body that can't be sent again makes one attempt",
			Policy: retrying(3, every(s)), Calls: []Call{call(0, ends(10*ms, fixed))}},
		{ID: "C69", Fact: "never sent lifts only safety: attempts are spent all the same",
			Policy: retrying(3, every(s)), Calls: []Call{unsafe(call(0, ends(10*ms, errDial)))}},
		{ID: "SPEC.C2", Fact: "an immediate first retry of never-sent work, and only the first",
			Policy: with(retrying(3, every(s)), func(p *policy.Policy) { p.Retry.Immediate = true }),
			Calls:  []Call{unsafe(call(0, ends(10*ms, errDial)))}},
		{ID: "B3", Fact: "what may be a bug is retried once",
			Policy: retrying(5, every(s)), Calls: []Call{call(0, ends(10*ms, once))}},
		{ID: "C71 SPEC.C3", Fact: "waits as long as Retry-After says, and a little of its own",
			Policy: with(retrying(2, every(100*ms)), func(p *policy.Policy) { p.Pace = noPace }), Seed: 3,
			Calls: []Call{call(0, ends(10*ms, after(2*s)), ok(ms))}, Check: sendsApart(2*s+1, 2400*ms)},
		{ID: "C71 SPEC.C3", Fact: "a Retry-After above the policy's most ends the call now",
			Policy: with(retrying(2, every(100*ms)), func(p *policy.Policy) { p.Retry.MaxAfter = s }),
			Calls:  []Call{call(0, ends(10*ms, after(2*s)))}},
		{ID: "C71 SPEC.C3", Fact: "a Retry-After beyond the deadline ends the call now",
			Policy: with(retrying(2, every(100*ms)), func(p *policy.Policy) { p.Pace = noPace }),
			Calls:  []Call{within(2*s, call(0, ends(10*ms, after(1990*ms))))}},
		{ID: "C73", Fact: "pushback: exactly that long, and then the backoff begins anew",
			Policy: with(retrying(5, backoff.Backoff{Kind: backoff.Exponential, Base: 100 * ms, Cap: 10 * s}), func(p *policy.Policy) { p.Timeout.Call = 60 * s }),
			Calls:  []Call{call(0, down(10*ms), ends(10*ms, pushback(s)), down(10*ms), down(10*ms), ok(ms))}, Check: pauses(100*ms, s, 100*ms, 200*ms)},
		{ID: "C73", Fact: "pushback: jitter is not added, and the jitter of the next waits begins anew",
			Policy: with(retrying(4, backoff.Backoff{Kind: backoff.DecorrelatedJitter, Base: 100 * ms, Cap: 10 * s}), func(p *policy.Policy) { p.Timeout.Call = 60 * s }),
			Calls:  []Call{call(0, ends(10*ms, pushback(5*s)), down(10*ms), ok(ms))}, Check: pausesWithin(5*s, 5*s, 100*ms, 300*ms)},
		{ID: "C73", Fact: "pushback when the attempts are used up is not waited for",
			Policy: retrying(2, every(100*ms)), Calls: []Call{call(0, down(10*ms), ends(10*ms, pushback(s)))}, Check: endedAt(120 * ms)},
		{ID: "C73", Fact: "pushback holds no other call back",
			Policy: retrying(2, every(100*ms)), Calls: []Call{call(0, ends(10*ms, pushback(s)), ok(ms)), call(20*ms, ok(ms))}, Check: counts(policy.KindPaceSet, 0)},
		{ID: "C75 SPEC.C6", Fact: "overloaded, don't retry: no call does",
			Policy: retrying(3, every(s)), Calls: []Call{call(0, ends(10*ms, errStop))}},
		{ID: "C121 SPEC.C7", Fact: "the kill switch stops retries, of calls under way too",
			Policy: retrying(3, every(s)), Calls: []Call{call(0, down(10*ms)), call(2*s, down(10*ms)), call(4*s, down(10*ms), ok(ms))},
			Hands: []Hand{
				{500 * ms, func(h Handle) { h.SetRetries(false) }},
				{3 * s, func(h Handle) { h.SetRetries(true) }},
			}},
		{ID: "SPEC.C9", Fact: "a call may forgo retries",
			Policy: retrying(3, every(s)), Calls: []Call{{Script: script(down(10 * ms)), NoRetry: true}}},
		{ID: "C32", Fact: "a panic ends the call and is raised again; Goexit too",
			Policy: retrying(3, every(s)), Calls: []Call{call(0, panics(10*ms)), call(s, exits(10*ms))}},
		{ID: "SPEC.C5", Fact: "a result that is a failure is replaced by the retry's",
			Policy: retrying(3, every(s)), Calls: []Call{held(s, false, call(0, Work{Takes: 10 * ms, Means: &policy.Outcome{Class: policy.ClassServer}}, ok(20*ms)))}},
	}
}

// jittered says whether waits lie below their bounds and no two are alike.
func jittered(l Log) error {
	seen := map[time.Duration]bool{}
	for _, line := range l.Of(policy.KindWaiting) {
		d := line.Event.Until.Sub(line.Event.At)
		bound := 100 * ms << (line.Event.Attempt - 2)
		if d < 0 || d >= bound || seen[d] {
			return fmt.Errorf("%s: the wait is not below %s, or was drawn before", line, bound)
		}
		seen[d] = true
	}
	return nil
}

// sentAt checks when attempts began.
func sentAt(want ...time.Duration) func(Log) error {
	return func(l Log) error {
		var got []time.Duration
		for _, e := range l.Of(policy.KindAttemptSent) {
			got = append(got, e.At)
		}
		if !slices.Equal(got, want) {
			return fmt.Errorf("attempts began at %v", got)
		}
		return nil
	}
}

// pauses checks how long after each failure the next attempt began.
func pauses(want ...time.Duration) func(Log) error {
	var bounds []time.Duration
	for _, d := range want {
		bounds = append(bounds, d, d)
	}
	return pausesWithin(bounds...)
}

// pausesWithin is pauses with the least and the most of each.
func pausesWithin(bounds ...time.Duration) func(Log) error {
	return func(l Log) error {
		sent, home := l.Of(policy.KindAttemptSent), l.Of(policy.KindAttemptSettled)
		if len(sent) != 1+len(bounds)/2 {
			return fmt.Errorf("%d attempts", len(sent))
		}
		for i := range sent[1:] {
			if d := sent[i+1].At - home[i].At; d < bounds[2*i] || d > bounds[2*i+1] {
				return fmt.Errorf("attempt %d began %s after the failure", i+2, d)
			}
		}
		return nil
	}
}

// sendsApart says whether the first two attempts began so far from each other,
// not counting what the first took.
func sendsApart(least, most time.Duration) func(Log) error {
	return func(l Log) error {
		sent, home := l.Of(policy.KindAttemptSent), l.Of(policy.KindAttemptSettled)
		if len(sent) < 2 {
			return fmt.Errorf("%d attempts", len(sent))
		}
		if d := sent[1].At - home[0].At; d < least || d > most {
			return fmt.Errorf("the retry began %s after the failure", d)
		}
		return nil
	}
}

func timeCases() []Case {
	return []Case{
		{ID: "E1 C93", Fact: "the attempt timeout ends an attempt, the call timeout ends the call",
			Policy: with(retrying(3, every(s)), func(p *policy.Policy) { p.Timeout = policy.Timeout{Call: 5 * s, Attempt: 2 * s} }),
			Calls:  []Call{call(0, hangs())}},
		{ID: "C94", Fact: "the caller's earlier deadline wins, and is a timeout",
			Policy: retrying(3, every(s)), Calls: []Call{until(2*s, call(0, hangs()))}},
		{ID: "C94", Fact: "our earlier deadline wins",
			Policy: retrying(1, every(s)), Calls: []Call{until(20*s, within(2*s, call(0, hangs())))}},
		{ID: "C94", Fact: "the caller's cancel is reported as cancel",
			Policy: retrying(3, every(s)), Calls: []Call{canceled(s, until(2*s, call(0, hangs())))}},
		{ID: "C95", Fact: "timeouts that are off end nothing",
			Policy: with(retrying(1, every(s)), func(p *policy.Policy) {
				p.Timeout = policy.Timeout{Call: policy.Off, Attempt: policy.Off}
			}),
			Calls: []Call{call(0, ok(time.Hour/2))}},
		{ID: "C98", Fact: "work that is deaf is waited for, and ends as the layer's timeout",
			Policy: with(retrying(2, every(s)), func(p *policy.Policy) { p.Timeout = policy.Timeout{Call: 9 * s, Attempt: 2 * s} }),
			Calls:  []Call{call(0, deaf(down(3*s)), deaf(down(10*s)))}},
		{ID: "C98", Fact: "a late success of deaf work is a success",
			Policy: with(retrying(2, every(s)), func(p *policy.Policy) { p.Timeout = policy.Timeout{Call: 9 * s, Attempt: 2 * s} }),
			Calls:  []Call{call(0, deaf(ok(3*s))), call(20*s, deaf(ok(10*s)))}},
		{ID: "SPEC.C5", Fact: "time that runs out in a queue ends the call as such",
			Policy: with(slots(policy.Bulkhead{Limit: 1, QueueTimeout: policy.Off}), func(p *policy.Policy) { p.Timeout.Call = 5 * s }),
			Calls:  []Call{call(0, ok(4*s-1)), within(2*s, call(s, ok(0)))}},
	}
}

func budgetCases() []Case {
	budget := func(b policy.Budget) policy.Policy {
		if b == (policy.Budget{}) || b.Ratio > 0 && b.Shape == policy.BudgetEarned {
			b.Shape = policy.BudgetWindow
		}
		p := retrying(3, every(s))
		p.Retry.Budget = b
		return p
	}
	earned := func(b policy.Budget) policy.Policy {
		p := retrying(3, every(s))
		p.Retry.Budget = b
		return p
	}
	one := policy.Budget{Ratio: policy.Off, Floor: 0.1} // one re-send in ten seconds
	var crowd, seven []Call
	for i := range 1000 {
		crowd = append(crowd, call(time.Duration(i), down(10*ms)))
	}
	for i := range 40 {
		seven = append(seven, call(time.Duration(i)*11*ms, down(ms)))
	}
	apart := func(n int, gap time.Duration) (calls []Call) { // all of which fail
		for i := range n {
			calls = append(calls, call(time.Duration(i)*gap, down(10*ms)))
		}
		return calls
	}
	together := func(n int) (calls []Call) { // that are out at the same time, and whose retries succeed
		for i := range n {
			calls = append(calls, call(time.Duration(i), down(10*ms), ok(10*ms)))
		}
		return calls
	}
	return []Case{
		{ID: "C88 D4", Fact: "a refusal of the budget ends the call at once",
			Policy: budget(one), Calls: []Call{call(0, down(10*ms)), call(100*ms, down(10*ms))}},
		{ID: "C83 D1", Fact: "a thousand simultaneous failures: a tenth and the floor go again",
			Policy: budget(policy.Budget{}), Calls: crowd,
			Check: all(between(policy.KindAttemptSent, 1000+100, 1000+110), counts(policy.KindReturned, 1000))},
		{ID: "C83", Fact: "a thousand simultaneous failures at 20 %",
			Policy: budget(policy.Budget{Ratio: 0.2}), Calls: crowd,
			Check: between(policy.KindAttemptSent, 1000+200, 1000+210)},
		{ID: "D3", Fact: "eight attempts send the same load in an outage as three",
			Policy: with(budget(policy.Budget{}), func(p *policy.Policy) { p.Retry.Attempts, p.Retry.Backoff = 8, every(100*ms) }), Calls: crowd,
			Check: between(policy.KindAttemptSent, 1000+100, 1000+110)},
		{ID: "D1", Fact: "earned: of a thousand simultaneous failures one goes again, and no more while nothing succeeds",
			Policy: earned(policy.Budget{}), Calls: crowd, Check: counts(policy.KindAttemptSent, 1001)},
		{ID: "D1", Fact: "earned: five successes earn a re-send, and one that succeeds pays for itself and lets the next call send two",
			Policy: earned(policy.Budget{}),
			Calls:  slices.Concat([]Call{call(0, down(ms), down(ms))}, each(5*s, ms, "SSSSS"), []Call{call(6*s, down(ms), ok(ms)), call(9*s, down(ms))}),
			Check:  counts(policy.KindAttemptSent, 2+5+2+3)},
		{ID: "D1", Fact: "earned: without a start, re-sends must be earned first",
			Policy: earned(policy.Budget{Start: policy.Off}), Calls: []Call{call(0, down(ms))}, Check: counts(policy.KindAttemptSent, 1)},
		{ID: "D1", Fact: "earned: a retry that is not made gives its re-send back",
			Policy: earned(policy.Budget{}), Calls: []Call{canceled(500*ms, call(0, down(10*ms))), call(600*ms, down(10*ms), ok(ms))}},
		{ID: "C69", Fact: "a refused connection can't spin: it is charged",
			Policy: budget(one), Calls: []Call{unsafe(call(0, ends(ms, errDial)))}},
		{ID: "D1", Fact: "a retry that is not made gives its reservation back",
			Policy: budget(one), Calls: []Call{canceled(500*ms, call(0, down(10*ms))), call(600*ms, down(10*ms), ok(ms))}},
		{ID: "D1", Fact: "a retry that its slot is refused for gives its reservation back",
			Policy: with(budget(one), func(p *policy.Policy) { p.Bulkhead = policy.Bulkhead{Limit: 1, Queue: policy.Off} }),
			Calls:  []Call{call(0, down(10*ms)), call(900*ms, ok(500*ms)), call(2*s, down(10*ms), ok(ms))}},
		{ID: "C80", Fact: "no ratio and no floor never retries",
			Policy: budget(policy.Budget{Ratio: policy.Off, Floor: policy.Off}), Calls: seven, Check: counts(policy.KindAttemptSent, 40)},
		{ID: "D2", Fact: "tokens: the bucket's capacity, and no more while nothing succeeds",
			Policy: budget(policy.Budget{Shape: policy.BudgetTokens, Capacity: 7}), Calls: seven, Check: counts(policy.KindAttemptSent, 47)},
		{ID: "C87 D2", Fact: "tokens: successes bring retries back",
			Policy: budget(policy.Budget{Shape: policy.BudgetTokens, Capacity: 1, Ratio: 0.5}),
			Calls:  []Call{call(0, down(ms)), call(3*s, ok(ms)), call(4*s, down(ms)), call(5*s, ok(ms)), call(6*s, down(ms), ok(ms))}},
		{ID: "C84 D2", Fact: "grpc: failures spend the tokens above half, and no more is sent while nothing succeeds",
			Policy: budget(policy.Budget{Shape: policy.BudgetGRPC}), Calls: seven, Check: counts(policy.KindAttemptSent, 40+4)},
		{ID: "C84 C87 D2", Fact: "grpc: answers that are no failure move nothing, a mark that stops retries takes a token, a success brings one back",
			Policy: budget(policy.Budget{Shape: policy.BudgetGRPC, Capacity: 3, Ratio: 1}),
			Calls: []Call{call(0, ends(ms, errWrong)), call(100*ms, ends(ms, errWrong)), call(200*ms, ends(ms, errWrong)), call(s, down(ms), ok(ms)),
				call(3*s, ends(ms, errStop)), call(4*s, down(ms)), call(5*s, ok(ms)), call(6*s, ok(ms)), call(7*s, down(ms), ok(ms))}},
		{ID: "C82 D2", Fact: "share: of a hundred calls that fail together 25 are sent again at a quarter, whatever they wait",
			Policy: budget(policy.Budget{Shape: policy.BudgetShare, Ratio: 0.25}), Calls: together(100), Check: counts(policy.KindAttemptSent, 125)},
		{ID: "C82 D2", Fact: "share: of 25 calls five at a fifth", Policy: budget(policy.Budget{Shape: policy.BudgetShare}), Calls: together(25), Check: counts(policy.KindAttemptSent, 30)},
		{ID: "C82 D2", Fact: "share: of two calls both, since three may be in flight", Policy: budget(policy.Budget{Shape: policy.BudgetShare}), Calls: together(2), Check: counts(policy.KindAttemptSent, 4)},
		{ID: "C83 D2", Fact: "share: a fifth of a thousand simultaneous failures",
			Policy: budget(policy.Budget{Shape: policy.BudgetShare}), Calls: together(1000), Check: counts(policy.KindAttemptSent, 1200)},
		{ID: "C69 D2", Fact: "share: a retry makes room when it has ended, and when it is not made",
			Policy: budget(policy.Budget{MinInFlight: 1, Ratio: policy.Off}),
			Calls:  []Call{call(0, down(10*ms), ok(3*s)), call(500*ms, down(10*ms)), call(5*s, down(10*ms), ok(ms)), canceled(7500*ms, call(7*s, down(10*ms))), call(7600*ms, down(10*ms), ok(ms))}},
		{ID: "C85 D2", Fact: "quota: fifty calls are sent twice more, the next once",
			Policy: budget(policy.Budget{Shape: policy.BudgetQuota, Cost: 5, TimeoutCost: 10}), Calls: apart(51, 3*s), Check: counts(policy.KindAttemptSent, 151)},
		{ID: "C86 D2", Fact: "quota: a success gives back what its retry cost, a first success brings one",
			Policy: budget(policy.Budget{Shape: policy.BudgetQuota, Capacity: 28}),
			Calls:  []Call{call(0, down(ms), ok(ms)), call(3*s, down(ms), down(ms), ok(ms)), call(7*s, down(ms)), call(10*s, ok(ms)), call(13*s, down(ms))}},
		{ID: "C87 D1", Fact: "window: what is spent is there again a window later",
			Policy: budget(one), Calls: []Call{call(0, down(ms)), call(5*s, down(ms)), call(13*s, down(ms), ok(ms))}},
		{ID: "G5 D1", Fact: "hedges are charged to the budget",
			Policy: with(budget(one), func(p *policy.Policy) { p.Hedge = policy.Hedge{Max: 1, Delay: 100 * ms} }),
			Calls:  []Call{call(0, ok(s)), call(2*s, ok(s))}},
		{ID: "D2", Fact: "tokens that are off are not asked for",
			Policy: budget(policy.Budget{Off: true, Shape: policy.BudgetTokens}), Calls: []Call{call(0, down(ms), ok(ms))}},
		{ID: "D1 F6", Fact: "a loop that the breaker stops spends no budget",
			Policy: with(budget(one), func(p *policy.Policy) {
				p.Breaker = policy.Breaker{Consecutive: 1, OpenJitter: policy.Off, Open: s + 50*ms}
			}),
			Calls: []Call{call(0, down(ms))}, Hands: []Hand{move(900*ms, closed)}},
	}
}
