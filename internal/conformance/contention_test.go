package conformance

import "github.com/gabion-go/gabion/policy"

// Conflicts with other calls (SPEC B7): tried again soon, on bounds of their own.
func contentionCases() []Case {
	conflict := ends(10*ms, &told{policy.Outcome{Class: policy.ClassContention, Undone: true}})
	inDoubt := ends(10*ms, &told{policy.Outcome{Class: policy.ClassContention, Effect: policy.UnknownEffect}})
	waited := ends(900*ms, &told{policy.Outcome{Class: policy.ClassContention, Undone: true}})
	once := func(c Call) Call { c.NoRetry = true; return c }
	conflicts := func(n int, then ...Work) (all []Work) {
		for range n {
			all = append(all, conflict)
		}
		return append(all, then...)
	}
	contending := func(change func(p *policy.Policy)) policy.Policy {
		return with(retrying(3, every(s)), func(p *policy.Policy) {
			p.Retry.Contention.Backoff = every(10 * ms)
			change(p)
		})
	}
	plain := contending(func(*policy.Policy) {})
	tripping := contending(func(p *policy.Policy) { p.Breaker = policy.Breaker{Consecutive: 1, Open: s, OpenJitter: policy.Off} })
	poor := contending(func(p *policy.Policy) { p.Retry.Budget = policy.Budget{Ratio: policy.Off, Floor: 0.1} }) // one re-send in ten seconds
	few := func(n int) policy.Policy {
		return contending(func(p *policy.Policy) { p.Retry.Contention.Attempts = n })
	}
	return []Case{
		{ID: "B7", Fact: "conflicts are tried again more often than failures, and soon",
			Policy: plain, Calls: []Call{call(0, conflicts(5, ok(10*ms))...)}, Check: all(counts(policy.KindAttemptSent, 6), sendsApart(10*ms, 10*ms))},
		{ID: "B7 B5", Fact: "work that nothing declares safe is repeated where the conflict undid it",
			Policy: plain, Calls: []Call{unsafe(call(0, conflicts(3, ok(10*ms))...))}, Check: counts(policy.KindAttemptSent, 4)},
		{ID: "B7 B5", Fact: "and not where it is in doubt",
			Policy: plain, Calls: []Call{unsafe(call(0, inDoubt, ok(10*ms)))}, Check: counts(policy.KindAttemptSent, 1)},
		{ID: "B7 C52", Fact: "conflicts and failures are counted apart",
			Policy: plain, Calls: []Call{call(0, down(10*ms), conflict, conflict, down(10*ms), conflict, down(10*ms))}, Check: counts(policy.KindAttemptSent, 6)},
		{ID: "B7", Fact: "conflicts are tried again so often and no more",
			Policy: few(4), Calls: []Call{call(0, conflict)}, Check: counts(policy.KindAttemptSent, 4)},
		{ID: "B7 SPEC.C1", Fact: "one attempt means never again, conflicts too",
			Policy: contending(func(p *policy.Policy) { p.Retry.Attempts = 1 }), Calls: []Call{call(0, conflict)}, Check: counts(policy.KindAttemptSent, 1)},
		{ID: "B7", Fact: "fifteen by default",
			Policy: plain, Calls: []Call{call(0, conflict)}, Check: counts(policy.KindAttemptSent, 15)},
		{ID: "B7 D1", Fact: "conflicts take nothing of the retry budget",
			Policy: poor, Calls: []Call{call(0, conflicts(8, down(10*ms), ok(10*ms))...)}, Check: counts(policy.KindAttemptSent, 10)},
		{ID: "B7 D1", Fact: "a spent retry budget does not end what met a conflict",
			Policy: poor, Calls: []Call{call(0, down(10*ms)), call(5*s, conflicts(3, ok(10*ms))...)}, Check: counts(policy.KindAttemptSent, 2+4)},
		{ID: "B7", Fact: "conflicts have a budget of their own: twice for each call that met one, and one a second",
			Policy: contending(func(p *policy.Policy) { p.Retry.Contention.Repeats = 2 }),
			Calls:  []Call{call(0, conflict), call(ms, conflict), call(2*ms, conflict)}, Check: counts(policy.KindAttemptSent, 3+3*2+10)},
		{ID: "B7", Fact: "a repeat that is not made gives its reservation back",
			Policy: contending(func(p *policy.Policy) {
				p.Retry.Contention = policy.ContentionRetry{Backoff: every(500 * ms), Repeats: 1}
			}),
			Calls: []Call{
				canceled(300*ms, call(0, conflict)), canceled(400*ms, call(100*ms, conflict)), canceled(450*ms, call(200*ms, conflict)),
				call(s, conflict),
			}, Check: counts(policy.KindAttemptSent, 3+1+4+10)},
		{ID: "B7 F5", Fact: "conflicts open no breaker",
			Policy: tripping, Calls: []Call{call(0, conflicts(6, ok(10*ms))...)}, Check: all(counts(policy.KindAttemptSent, 7), counts(policy.KindBreakerMoved, 0))},
		{ID: "B7 F5", Fact: "a conflict answers a probe: the dependency works",
			Policy: with(tripping, func(p *policy.Policy) { p.Breaker.Probes = 1 }),
			Calls:  []Call{unsafe(call(0, down(10*ms))), once(call(2*s, conflict))}, Check: counts(policy.KindBreakerMoved, 3)},
		{ID: "B7 F5", Fact: "a long wait for a rival is not the dependency's slowness",
			Policy: contending(func(p *policy.Policy) {
				p.Breaker = policy.Breaker{WindowCalls: 2, MinCalls: 1, SlowCall: 500 * ms, SlowRate: 0.1}
			}), Calls: []Call{call(0, waited, waited, ok(10*ms))}, Check: counts(policy.KindBreakerMoved, 0)},
		{ID: "B7 G5", Fact: "a conflict is not a hedge's to answer",
			Policy: contending(func(p *policy.Policy) {
				p.Hedge = policy.Hedge{Max: 1, Delay: 500 * ms}
				p.Retry.Budget = policy.Budget{Ratio: policy.Off, Floor: policy.Off}
			}), Calls: []Call{call(0, conflict, ok(10*ms))}, Check: all(counts(policy.KindAttemptSent, 2), sendsApart(10*ms, 10*ms))},
		{ID: "B7 G5", Fact: "a conflict beside an attempt that is out brings no hedge forward",
			Policy: contending(func(p *policy.Policy) { p.Hedge = policy.Hedge{Max: 2, Delay: 300 * ms} }),
			Calls:  []Call{call(0, ok(450*ms), conflict, ok(10*ms))}, Check: counts(policy.KindAttemptSent, 2)},
		{ID: "B7", Fact: "a kill switch stops what met a conflict",
			Policy: plain, Calls: []Call{call(0, conflict)}, Hands: []Hand{{At: 25 * ms, Do: func(h Handle) { h.SetRetries(false) }}},
			Check: counts(policy.KindAttemptSent, 2)},
		{ID: "B7", Fact: "a reload on the way forgets nothing",
			Policy: plain, Calls: []Call{call(0, conflicts(4, ok(10*ms))...)},
			Hands: []Hand{reload(25*ms, few(1))}, Check: counts(policy.KindAttemptSent, 5)},
	}
}
