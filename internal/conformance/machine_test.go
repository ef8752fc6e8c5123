package conformance

import (
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/breaker"
	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/internal/machine"
	"github.com/gabion-go/gabion/policy"
)

// machinePolicies are what the fuzzer may begin and reload with. Tokens that no
// success earns make the budget's account exact.
var machinePolicies = func() (all []policy.Policy) {
	base := policy.Policy{
		Safe:    true,
		Timeout: policy.Timeout{Call: 2 * s, Attempt: 300 * ms},
		Retry: policy.Retry{Attempts: 4, Backoff: every(20 * ms),
			Budget: policy.Budget{Shape: policy.BudgetTokens, Capacity: 30, Ratio: policy.Off}},
		Breaker:  policy.Breaker{Consecutive: 2, Open: 50 * ms, Probes: 1, ProbeTimeout: 100 * ms},
		Bulkhead: policy.Bulkhead{Limit: 2, Queue: 1, QueueTimeout: 100 * ms},
	}
	call := with(base, func(p *policy.Policy) {
		p.Breaker.Per, p.Bulkhead.Per, p.Breaker.ProbeTimeout = policy.PerCall, policy.PerCall, 0
		p.Pace = noPace
	})
	hedge := with(base, func(p *policy.Policy) { p.Hedge = policy.Hedge{Max: 2, Delay: 30 * ms} })
	rate := with(hedge, func(p *policy.Policy) { p.RateLimit.Rate, p.Throttle.K, p.Hedge.Delay = 20, 2, 0 })
	bare := with(base, func(p *policy.Policy) { p.Breaker, p.Bulkhead = noBreaker, noBulkhead })
	return append(all, base, call, hedge, rate, bare)
}()

// outcomes are what the fuzzer settles with.
var outcomes = []policy.Outcome{
	{}, {Class: policy.ClassServer}, {Class: policy.ClassTimeout, Effect: policy.UnknownEffect}, {Class: policy.ClassNetwork, NeverSent: true},
	{Class: policy.ClassThrottled, HasAfter: true, After: 10 * ms}, {Class: policy.ClassClient}, {Class: policy.ClassCrashed},
	{Class: policy.ClassIgnored}, {Class: policy.ClassUnclassified}, {Open: true}, {Class: policy.ClassServer, Open: true},
	{Class: policy.ClassContention, Undone: true}, {Class: policy.ClassContention, HasAfter: true, After: 10 * ms},
	{Class: policy.ClassServer, Stop: true}, {Class: policy.ClassServer, Once: true}, {Class: policy.ClassServer, Fixed: true},
}

// played is one call that the fuzzer plays with.
type played struct {
	call    machine.Call
	log     machine.Log
	tickets []machine.Ticket
	resent  int          // attempts after the first that the budget for retries pays for
	failed  policy.Class // of the attempt that was settled last
	settled int          // AttemptSettled and LoserSettled
	ended   int
}

// game plays verbs in any order on calls of one State.
type game struct {
	t     *testing.T
	now   clock.Instant
	state *machine.State
	rules []*machine.Rules
	calls [3]played
	done  []played
}

// Wake implements bulkhead.Waker. It does nothing: the game calls Next anyway.
func (g *game) Wake() {}

func (g *game) begin(i int, b byte) {
	p := &g.calls[i]
	*p = played{}
	partition := ""
	if b&1 != 0 {
		partition = "p"
	}
	p.call.Begin(g.state, g.now, &machine.Params{Safe: b&2 == 0, NoRetry: b&12 == 12, Partition: partition, Waker: g, Log: &p.log})
	g.drain(p)
}

func (g *game) next(p *played) machine.Step {
	step := p.call.Next(g.now)
	switch {
	case step.Verb == machine.Send:
		p.tickets = append(p.tickets, step.Ticket)
		conflict := p.failed == policy.ClassContention && !step.Ticket.Hedge // another budget pays for what follows one
		if len(p.tickets) > 1 && !conflict {
			p.resent++
		}
	case step.Verb == machine.Wait && step.Again <= g.now:
		g.t.Fatal("a wait that ends now")
	case step.Verb != machine.Wait && step.Verb != machine.Return:
		g.t.Fatalf("verb %d", step.Verb)
	}
	g.drain(p)
	return step
}

func (g *game) drain(p *played) {
	for _, e := range p.log.Drain() {
		switch e.Kind {
		case policy.KindAttemptSettled, policy.KindLoserSettled:
			p.settled++
			p.failed = e.Class
		case policy.KindReturned:
			p.ended++
		}
	}
	if p.log.Lost() > 0 {
		g.t.Fatal("events lost")
	}
}

// finish brings everything home and drives the call to its end.
func (g *game) finish(p *played) {
	for range 200 {
		for _, t := range p.tickets {
			p.call.Settle(g.now, t, policy.Outcome{Class: policy.ClassSuccess})
			g.drain(p)
			p.call.Release(g.now, t, false)
			g.drain(p)
		}
		if g.next(p).Verb == machine.Return {
			break
		}
		g.now = g.now.Add(47 * ms)
	}
	for _, t := range p.tickets {
		p.call.Settle(g.now, t, policy.Outcome{Class: policy.ClassSuccess})
		p.call.Release(g.now, t, false)
		g.drain(p)
	}
	if p.call.Out() != 0 || p.ended != 1 || p.settled != len(p.tickets) || g.next(p).Verb != machine.Return {
		g.t.Fatalf("%d sent, %d settled, %d out, ended %d times", len(p.tickets), p.settled, p.call.Out(), p.ended)
	}
}

func (g *game) play(op, arg byte) {
	p := &g.calls[op%3]
	switch op / 3 % 8 {
	case 0, 1:
		g.next(p)
	case 2:
		g.now = g.now.Add(time.Duration(arg) * ms)
	case 3, 4:
		if len(p.tickets) > 0 { // any of them, as often as one likes
			p.call.Settle(g.now, p.tickets[int(arg>>4)%len(p.tickets)], outcomes[int(arg&15)%len(outcomes)])
		}
	case 5:
		if arg&1 == 0 {
			p.call.Cancel(g.now)
		} else if len(p.tickets) > 0 {
			p.call.Release(g.now, p.tickets[int(arg>>1)%len(p.tickets)], arg&2 != 0)
		}
	case 6:
		if arg&1 == 0 {
			g.state.Reload(g.now, g.rules[int(arg>>1)%len(g.rules)])
		} else {
			switchRetries(g.state, g.now, arg&2 != 0)
		}
	case 7:
		if arg&1 == 0 {
			g.now = g.now.Add(-time.Duration(arg) * ms) // a clock that was set back
		} else {
			g.finish(p)
			g.done = append(g.done, *p)
			g.begin(int(op%3), arg)
		}
	}
	g.drain(p)
	g.state.Deliver(func(policy.Event) {})
}

// FuzzMachine uses every verb at any time in any order: no panic, no wait that
// spins, no slot, probe, token or attempt lost.
func FuzzMachine(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0, 9, 1, 0, 0, 6, 40, 0, 0, 9, 0})
	f.Add([]byte{2, 0, 0, 6, 31, 0, 0, 0, 15, 0, 18, 2, 21, 1, 24, 3})
	f.Add([]byte{3, 0, 1, 0, 10, 11}) // one retry, after a conflict
	f.Add([]byte{3, 255, 0, 0, 1, 0, 2, 0, 9, 1, 10, 1, 11, 1, 6, 60, 0, 0, 1, 0, 2, 0})
	f.Fuzz(func(t *testing.T, ops []byte) {
		if len(ops) < 2 || len(ops) > 400 {
			return
		}
		g := &game{t: t, now: clock.Instant(int64(int8(ops[1])) * int64(time.Hour))}
		for _, p := range machinePolicies {
			r, err := machine.Compile(p)
			if err != nil {
				t.Fatal(err)
			}
			g.rules = append(g.rules, r)
		}
		g.state = machine.NewState(g.now, g.rules[int(ops[0])%len(g.rules)], machine.Setup{Events: ops[0]&128 != 0})
		for i := range g.calls {
			g.begin(i, ops[0]>>i)
		}
		for i := 2; i+1 < len(ops); i += 2 {
			g.play(ops[i], ops[i+1])
		}
		g.settle()
	})
}

// settle ends the game and does the accounts.
func (g *game) settle() {
	resent := 0
	for i := range g.calls {
		g.finish(&g.calls[i])
		g.done = append(g.done, g.calls[i])
	}
	for i := range g.done {
		resent += g.done[i].resent
	}
	g.state.Reload(g.now, g.rules[0])
	stats := g.state.Stats(g.now)
	for _, leak := range Leaks(stats) {
		g.t.Error(leak)
	}
	if left := 30 - int(stats.Budget.Level); left != resent {
		g.t.Errorf("%d re-sends, but the budget is charged with %d", resent, left)
	}
}

type noWaker struct{}

func (noWaker) Wake() {}

// What the machine decides costs no memory.
func TestTheMachineAllocatesNothing(t *testing.T) {
	compiled := func(f func(*policy.Policy)) *machine.Rules {
		p := policy.Policy{Safe: true}
		f(&p)
		r, err := machine.Compile(p)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	p := &machine.Params{Waker: noWaker{}}
	now := clock.Instant(0)
	run := func(state *machine.State, c *machine.Call, script ...policy.Outcome) policy.Reason {
		now += clock.Instant(s)
		c.Begin(state, now, p)
		for {
			switch step := c.Next(now); step.Verb {
			case machine.Send:
				c.Settle(now, step.Ticket, script[0])
				script = script[1:]
			case machine.Wait:
				now = step.Again
			case machine.Return:
				return c.End().Reason
			}
		}
	}
	down, fine := policy.Outcome{Class: policy.ClassServer}, policy.Outcome{Class: policy.ClassSuccess}
	for _, c := range []struct {
		fact   string
		rules  *machine.Rules
		first  []policy.Outcome
		script []policy.Outcome
		want   policy.Reason
	}{
		{"success", compiled(func(*policy.Policy) {}), nil, []policy.Outcome{fine}, policy.None},
		{"two failures, then success", compiled(func(p *policy.Policy) { p.Retry.Budget.Floor, p.Breaker.FailureRate = 1000, 0.9 }), nil, []policy.Outcome{down, down, fine}, policy.None},
		{"refused by an open breaker", compiled(func(p *policy.Policy) { p.Breaker.Consecutive, p.Breaker.Open = 1, 24*time.Hour }), []policy.Outcome{down}, nil, policy.BreakerOpen},
		{"hedging, and the first wins", compiled(func(p *policy.Policy) { p.Hedge = policy.Hedge{Max: 1, Delay: s} }), nil, []policy.Outcome{fine}, policy.None},
	} {
		state := machine.NewState(now, c.rules, machine.Setup{Shards: 4})
		var call machine.Call
		if c.first != nil {
			run(state, &call, c.first...)
		}
		got := policy.None
		script := make([]policy.Outcome, len(c.script))
		copy(script, c.script)
		if n := testing.AllocsPerRun(200, func() { got = run(state, &call, script...) }); n != 0 || got != c.want {
			t.Errorf("%s: %v allocations, ended for %s", c.fact, n, got)
		}
	}
}

// The lab makes States without an observer, with nothing but what their policy needs.
func TestABareStateHasWhatItsPolicyAsksFor(t *testing.T) {
	rules, err := machine.Compile(policy.Policy{
		Safe: true, Retry: policy.Retry{Budget: policy.Budget{Off: true, Shape: policy.BudgetTokens}}, Bulkhead: noBulkhead, Breaker: noBreaker,
	})
	if err != nil {
		t.Fatal(err)
	}
	state := machine.NewState(0, rules, machine.Setup{})
	var c machine.Call
	c.Begin(state, 0, &machine.Params{})
	c.Settle(0, c.Next(0).Ticket, policy.Outcome{Class: policy.ClassServer})
	retry := c.Next(0)
	for retry.Verb == machine.Wait {
		retry = c.Next(retry.Again)
	}
	c.Settle(clock.Instant(s), retry.Ticket, policy.Outcome{Class: policy.ClassSuccess})
	if c.Next(1); c.End().Reason != policy.None {
		t.Error(c.End())
	}
}

// spy looks at the breaker at the moment at which it is handed a slot.
type spy struct {
	state *machine.State
	saw   breaker.State
}

func (w *spy) Wake() { w.saw = w.state.Breaker("").State() }

// The call that gets the slot must see the verdict of the call that held it: SPEC F6.
func TestTheBreakerHearsBeforeTheSlotGoes(t *testing.T) {
	rules, err := machine.Compile(policy.Policy{Breaker: policy.Breaker{Consecutive: 1}, Bulkhead: policy.Bulkhead{Limit: 1}})
	if err != nil {
		t.Fatal(err)
	}
	state := machine.NewState(0, rules, machine.Setup{})
	var first, second machine.Call
	w := &spy{state: state}
	first.Begin(state, 0, &machine.Params{Waker: noWaker{}})
	second.Begin(state, 0, &machine.Params{Waker: w})
	ticket := first.Next(0).Ticket
	second.Next(0)
	first.Settle(1, ticket, policy.Outcome{Class: policy.ClassServer})
	if w.saw != breaker.Open {
		t.Errorf("the breaker was %s when the slot came", w.saw)
	}
}

// A slot that was granted and not yet taken goes back with a cancel.
func TestACancelGivesAGrantedSlotBack(t *testing.T) {
	rules, err := machine.Compile(policy.Policy{Bulkhead: policy.Bulkhead{Limit: 1}})
	if err != nil {
		t.Fatal(err)
	}
	state := machine.NewState(0, rules, machine.Setup{})
	var first, second machine.Call
	first.Begin(state, 0, &machine.Params{Waker: noWaker{}})
	second.Begin(state, 0, &machine.Params{Waker: noWaker{}})
	ticket := first.Next(0).Ticket
	second.Next(0)
	first.Settle(1, ticket, policy.Outcome{Class: policy.ClassSuccess})
	second.Cancel(1)
	for _, leak := range Leaks(state.Stats(1)) {
		t.Error(leak)
	}
}
