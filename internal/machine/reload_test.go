package machine

import (
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/breaker"
	"github.com/gabion-go/gabion/internal/bulkhead"
	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/policy"
)

// asksAtOnce asks its call for the next step in the moment in which it is woken, as a
// goroutine on another processor may.
type asksAtOnce struct {
	call *Call
	at   clock.Instant
	saw  Step
}

func (w *asksAtOnce) Wake() { w.saw = w.call.Next(w.at) }

// A reload lets in those who wait for a slot when all else of it is done.
func TestWhomAReloadLetsInFindsTheTurnsOfTheNewRate(t *testing.T) {
	p := policy.Policy{Breaker: policy.Breaker{Off: true}, Bulkhead: policy.Bulkhead{Limit: 1}, RateLimit: policy.RateLimit{Rate: 1}}
	wide := p
	wide.Bulkhead.Limit, wide.RateLimit.Rate = 2, 2
	state := NewState(0, rulesOf(t, p), Setup{})
	var first, second Call
	first.Begin(state, 0, &Params{})
	if step := first.Next(0); step.Verb != Send {
		t.Fatal(step)
	}
	w := &asksAtOnce{call: &second, at: 10}
	second.Begin(state, 0, &Params{Waker: w})
	if step := second.Next(0); step.Verb != Wait {
		t.Fatal(step)
	}
	state.Reload(10, rulesOf(t, wide))
	if w.saw.Verb != Send {
		t.Errorf("it is told %+v, want to send: the reload forgot all turns", w.saw)
	}
}

// So it is with those who wait for a turn of a share.
func TestWhomAReloadMovesUpFindsAllElseOfItDone(t *testing.T) {
	p := rated(1, 1)
	p.Breaker.Off, p.Breaker.MinCalls = false, 1
	next := p
	next.RateLimit.Rate, next.Breaker.Observe = 2, true
	state := NewState(0, rulesOf(t, p), Setup{})
	Grant(state, 0, &Lease{Until: 100 * second, Share: turns(5)})
	var first, waits Call
	first.Begin(state, 0, &Params{})
	first.Next(0)
	w := &asksAtOnce{call: &waits, at: second / 2}
	waits.Begin(state, 0, &Params{Waker: w})
	if step := waits.Next(0); step.Verb != Wait {
		t.Fatal(step)
	}
	b := state.main.breaker.Load()
	for b.State() != breaker.Open {
		permit, _, _ := b.Acquire(1, 0)
		b.Settle(1, 0, permit, breaker.Bad, 0)
	}
	state.Reload(second/2, rulesOf(t, next))
	if at := second/2 + second/4 + 1; w.saw.Verb != Wait || w.saw.Again != at { // half of a turn was there
		t.Errorf("it got %+v, %+v, want its turn at %s: the breaker only observes now", w.saw, waits.End(), time.Duration(at))
	}
}

var _ bulkhead.Waker = (*asksAtOnce)(nil)

// What was reserved under a rate that is gone is no turn of the one in force.
func TestATurnOfARateThatIsGoneIsNotHandedOut(t *testing.T) {
	const s = clock.Instant(time.Second)
	p := policy.Policy{Timeout: policy.Timeout{Call: time.Minute}, Breaker: policy.Breaker{Off: true}, Bulkhead: policy.Bulkhead{Off: true}, RateLimit: policy.RateLimit{Rate: 1}}
	fast := p
	fast.RateLimit.Rate = 4
	for _, c := range []struct {
		name  string
		turns int // of the new rate that are taken before the old one comes back
		want  clock.Instant
	}{
		{"none is taken yet", 0, 0},
		{"less far ahead are taken", 4, s},
		{"further ahead are taken", 20, 5 * s},
	} {
		t.Run(c.name, func(t *testing.T) {
			state := NewState(0, rulesOf(t, p), Setup{})
			begin := func() (*Call, clock.Instant) {
				call := new(Call)
				call.Begin(state, 0, &Params{})
				if step := call.Next(0); step.Verb == Wait {
					return call, step.Again
				}
				return call, 0
			}
			var old []*Call
			for range 4 {
				call, _ := begin()
				old = append(old, call)
			}
			state.Reload(0, rulesOf(t, fast))
			for range c.turns {
				begin()
			}
			old[2].Cancel(0) // has the turn at 2 s
			if _, at := begin(); at != c.want {
				t.Errorf("the next call goes at %v, want %v", time.Duration(at), time.Duration(c.want))
			}
		})
	}
}

// A reservation of before a reload that emptied the budget is not taken from what
// was charged since.
func TestRefundStopsAtAReloadThatEmptiedTheBudget(t *testing.T) {
	safe := policy.Policy{Safe: true, Breaker: policy.Breaker{Off: true}, Retry: policy.Retry{Budget: policy.Budget{Shape: policy.BudgetWindow}}}
	s := NewState(0, rulesOf(t, safe), Setup{Seed: 1})
	fail := func(c *Call) {
		c.Begin(s, 0, &Params{})
		c.Settle(0, c.Next(0).Ticket, policy.Outcome{Class: policy.ClassNetwork})
		c.Next(0)
	}
	var before, since Call
	fail(&before)
	safe.Retry.Budget.Window = 20 * time.Second
	s.Reload(0, rulesOf(t, safe))
	fail(&since)
	before.Cancel(0)
	if got := s.Stats(0).Budget.Sent; got != 1 {
		t.Errorf("%d re-sends are charged, want the one since the reload", got)
	}
	since.Cancel(0)
	if got := s.Stats(0).Budget.Sent; got != 0 {
		t.Errorf("%d re-sends are charged, want none", got)
	}
}
