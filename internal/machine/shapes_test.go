package machine

import (
	"slices"
	"testing"
	"time"

	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/internal/chance"
	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/policy"
)

// naive is a budget of one shape, kept the obvious way. Tokens are thousandths.
type naive struct {
	b      policy.Budget
	tokens int
	calls  int // in flight
	held   int // re-sends that are granted and have not ended
}

func newNaive(b policy.Budget) *naive { return &naive{b: b, tokens: 1000 * b.Capacity} }

func (n *naive) cost(class policy.Class) int {
	switch {
	case n.b.Shape == policy.BudgetQuota && class == policy.ClassThrottled:
		return 1000 * n.b.ThrottledCost
	case n.b.Shape == policy.BudgetQuota && class == policy.ClassTimeout:
		return 1000 * n.b.TimeoutCost
	}
	return 1000 * n.b.Cost
}

// allows says what a re-send after that failure would get.
func (n *naive) allows(class policy.Class) bool {
	switch n.b.Shape {
	case policy.BudgetGRPC:
		return 2*n.tokens > 1000*n.b.Capacity
	case policy.BudgetShare:
		return n.held < max(int(float64(n.b.Ratio)*float64(n.calls)), n.b.MinInFlight)
	}
	return n.tokens >= n.cost(class)
}

func (n *naive) take(class policy.Class) (paid int) {
	n.held++
	if n.b.Shape != policy.BudgetTokens && n.b.Shape != policy.BudgetQuota {
		return 0
	}
	n.tokens -= n.cost(class)
	return n.cost(class)
}

func (n *naive) back(paid int) {
	n.held--
	n.add(paid)
}

func (n *naive) add(tokens int) { n.tokens = max(min(n.tokens+tokens, 1000*n.b.Capacity), 0) }

// ended is an attempt's end. Charged says whether it is a re-send that the budget granted.
func (n *naive) ended(attempt uint8, charged bool, paid int, o policy.Outcome, loser bool) {
	if charged {
		n.held--
	}
	won, earns := o.Class == policy.ClassSuccess && !loser, int(float64(n.b.Ratio)*1000)
	failed := o.Class.Transient() && o.Class != policy.ClassContention || o.Stop
	switch {
	case n.b.Shape == policy.BudgetTokens && won, n.b.Shape == policy.BudgetGRPC && won, n.b.Shape == policy.BudgetQuota && won && attempt == 1:
		n.add(earns)
	case n.b.Shape == policy.BudgetQuota && won && charged:
		n.add(paid)
	case n.b.Shape == policy.BudgetGRPC && failed && !loser:
		n.add(-1000)
	}
}

// callInPlay is a call that a script drives, beside what the model knows of it.
type callInPlay struct {
	call   Call
	log    Log
	out    []Ticket
	paid   map[uint8]int // by attempt, what the budget granted it for
	held   bool          // a re-send is granted and waits
	pays   int
	failed policy.Class
}

type shapePlay struct {
	t     *testing.T
	state *State
	model *naive
	now   clock.Instant
	calls []*callInPlay
	sent  int
}

// small are budgets of which random scripts soon find the end.
var small = []policy.Budget{
	{Shape: policy.BudgetTokens, Capacity: 6, Cost: 2, Ratio: 0.25},
	{Shape: policy.BudgetGRPC, Capacity: 7, Ratio: 0.25},
	{Shape: policy.BudgetShare, Ratio: 0.5, MinInFlight: 1},
	{Shape: policy.BudgetQuota, Capacity: 30, Cost: 7, ThrottledCost: 3, TimeoutCost: 9, Ratio: 0.5},
}

func TestRandomCallsAndEveryShapeOfBudget(t *testing.T) {
	for _, b := range small {
		sent := 0
		for seed := range uint64(60) {
			script := make([]byte, 400)
			for i := range script {
				script[i] = byte(chance.Bits(seed, uint64(i), uint64(b.Shape), 0) >> 32)
			}
			sent += playShape(t, b, script)
		}
		if sent < 200 {
			t.Errorf("%s: only %d re-sends were made", b.Shape, sent)
		}
	}
}

func FuzzShapes(f *testing.F) {
	f.Add(byte(0), []byte{0, 0, 9, 17, 6, 33, 14, 7, 250, 22})
	f.Fuzz(func(t *testing.T, shape byte, script []byte) {
		playShape(t, small[int(shape)%len(small)], script)
	})
}

// playShape runs a script of calls, and compares the budget with the model after each step.
func playShape(t *testing.T, b policy.Budget, script []byte) (resends int) {
	p := policy.Policy{
		Safe: true, Timeout: policy.Timeout{Call: policy.Off, Attempt: policy.Off}, Pace: policy.Pace{Off: true},
		Retry: policy.Retry{Attempts: 4, Backoff: backoff.Const(10 * time.Millisecond), Hold: policy.Off, Budget: b},
		Hedge: policy.Hedge{Max: 1, Delay: 30 * time.Millisecond}, Breaker: policy.Breaker{Off: true}, Bulkhead: policy.Bulkhead{Off: true},
	}
	s := shapePlay{t: t, state: NewState(0, rulesOf(t, p), Setup{Seed: 3, Shards: 2}), model: newNaive(p.Resolved().Retry.Budget)}
	for i, step := range script {
		s.step(step&7, step>>3)
		if st := s.state.Stats(s.now).Budget; !s.model.same(&st) {
			t.Fatalf("step %d of %v: %+v, the model has %+v", i, script[:i+1], st, *s.model)
		}
	}
	for _, c := range s.calls { // all ends, and what is in flight goes back
		s.cancel(c)
		for len(c.out) > 0 {
			s.settle(c, 0, policy.Outcome{Class: policy.ClassIgnored})
		}
	}
	st := s.state.Stats(s.now).Budget
	if !s.model.same(&st) || s.model.calls != 0 || s.model.held != 0 {
		t.Fatalf("at the end of %v: %+v, the model has %+v", script, st, *s.model)
	}
	return s.sent
}

func (n *naive) same(st *policy.BudgetStats) bool {
	if n.b.Shape == policy.BudgetShare {
		return st.Calls == int64(n.calls) && st.Sent == int64(n.held) && (st.Level > 0) == n.allows(0)
	}
	return st.Tokens == float64(n.tokens)/1000 && n.tokens >= 0 && n.tokens <= 1000*n.b.Capacity
}

func (s *shapePlay) step(verb, what byte) {
	if verb < 2 {
		if len(s.calls) < 12 {
			c := &callInPlay{paid: map[uint8]int{}}
			c.call.Begin(s.state, s.now, &Params{Shard: uint32(what), Log: &c.log})
			s.calls = append(s.calls, c)
			s.next(c)
		}
		return
	}
	if verb == 6 {
		s.now += clock.Instant(what%8) * 5 * ms
		for _, c := range s.calls {
			s.next(c)
		}
		return
	}
	if len(s.calls) == 0 {
		return
	}
	c := s.calls[int(what)%len(s.calls)]
	switch {
	case verb == 7:
		s.cancel(c)
	case len(c.out) > 0:
		of := []policy.Outcome{
			{}, {Class: policy.ClassSuccess}, {Class: policy.ClassServer}, {Class: policy.ClassServer}, {Class: policy.ClassTimeout}, {Class: policy.ClassThrottled},
			{Class: policy.ClassNetwork, NeverSent: true}, {Class: policy.ClassContention}, {Class: policy.ClassClient}, {Class: policy.ClassClient, Stop: true}, {Class: policy.ClassServer, Stop: true},
			{Class: policy.ClassCrashed}, {Class: policy.ClassSuccess}, {Class: policy.ClassThrottled, HasAfter: true, After: 20 * time.Millisecond},
		}
		s.settle(c, int(verb)%len(c.out), of[int(what)*5%len(of)])
		s.next(c)
	}
	s.calls = slices.DeleteFunc(s.calls, func(c *callInPlay) bool { return c.call.Over() && len(c.out) == 0 })
}

func (s *shapePlay) settle(c *callInPlay, i int, o policy.Outcome) {
	t := c.out[i]
	c.out = slices.Delete(c.out, i, i+1)
	paid, charged := c.paid[t.Attempt]
	s.model.ended(t.Attempt, charged, paid, o, c.call.Over())
	if !c.call.Over() && o.Class != policy.ClassSuccess {
		c.failed = o.Class
	}
	c.call.Settle(s.now, t, o)
	s.drain(c)
}

func (s *shapePlay) cancel(c *callInPlay) {
	c.call.Cancel(s.now)
	s.drain(c)
}

func (s *shapePlay) next(c *callInPlay) {
	for range 10 {
		step := c.call.Next(s.now)
		s.drain(c)
		if step.Verb != Send {
			return
		}
		c.out = append(c.out, step.Ticket)
	}
}

// drain tells the model what the machine has decided, and asks whether it may.
func (s *shapePlay) drain(c *callInPlay) {
	granted := func(class policy.Class, what string) {
		if !s.model.allows(class) {
			s.t.Fatalf("%s is granted, the model has %+v", what, *s.model)
		}
		c.pays, c.held = s.model.take(class), true
	}
	refused := func(class policy.Class, what string) {
		if s.model.allows(class) {
			s.t.Fatalf("%s is refused, the model has %+v", what, *s.model)
		}
	}
	for _, e := range c.log.Drain() {
		switch e.Kind {
		case policy.KindWaiting:
			if c.failed != policy.ClassContention && len(c.out) == 0 && !c.held {
				granted(c.failed, "a retry")
			}
		case policy.KindAttemptSent:
			if e.Attempt == 1 {
				s.model.calls++
				continue
			}
			if e.Hedge && !c.held {
				granted(0, "a hedge")
			}
			if c.held {
				c.paid[e.Attempt], c.held = c.pays, false
			}
			s.sent++
		case policy.KindHedgeSkipped:
			if e.Reason == policy.BudgetExhausted {
				refused(0, "a hedge")
			}
		case policy.KindReturned:
			if e.Reason == policy.BudgetExhausted {
				refused(c.failed, "a retry")
			}
			if c.held {
				s.model.back(c.pays)
				c.held = false
			}
			s.model.calls--
		}
	}
}

// What a refusal says is what a retry would have needed.
func TestARefusalSaysTheNumbersOfItsShape(t *testing.T) {
	for _, c := range []struct {
		budget policy.Budget
		class  policy.Class
		calls  int // that fail before
		want   policy.Numbers
	}{
		{policy.Budget{Shape: policy.BudgetTokens, Capacity: 1}, policy.ClassServer, 1, policy.Numbers{Shape: policy.BudgetTokens, Ratio: 0.1}},
		{policy.Budget{Shape: policy.BudgetGRPC, Capacity: 4}, policy.ClassServer, 1, policy.Numbers{Shape: policy.BudgetGRPC, Ratio: 0.1, Tokens: 2, Capacity: 4}},
		{policy.Budget{Shape: policy.BudgetQuota, Capacity: 20}, policy.ClassServer, 1, policy.Numbers{Shape: policy.BudgetQuota, Ratio: 1, Level: 6. / 14, Tokens: 6, Capacity: 20, Cost: 14}},
		{policy.Budget{Shape: policy.BudgetQuota, Capacity: 18}, policy.ClassThrottled, 3, policy.Numbers{Shape: policy.BudgetQuota, Ratio: 1, Level: 3. / 5, Tokens: 3, Capacity: 18, Cost: 5}},
		{policy.Budget{Shape: policy.BudgetShare, MinInFlight: 1}, policy.ClassServer, 1, policy.Numbers{Shape: policy.BudgetShare, Ratio: 0.2, Calls: 2, Resends: 1, Allowed: 1}},
	} {
		tr := newTrial(t, policy.Policy{Pace: policy.Pace{Off: true}, Retry: policy.Retry{Hold: policy.Off, Budget: c.budget}})
		for i := range c.calls {
			call, first := tr.begin(clock.Instant(i))
			if step := tr.home(clock.Instant(i), call, first, c.class); step.Verb != Wait {
				t.Fatalf("%+v: call %d is not sent again", c.budget, i+1)
			}
		}
		call, first := tr.begin(ms)
		tr.home(ms, call, first, c.class)
		if end := call.End(); end.Reason != policy.BudgetExhausted || end.Numbers == nil || *end.Numbers != c.want {
			t.Errorf("%+v: %v, %+v", c.budget, end.Reason, end.Numbers)
		}
	}
}
