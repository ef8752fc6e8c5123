package machine

import (
	"runtime"
	"testing"
	"time"

	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/internal/breaker"
	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/policy"
)

// A keeps is what an open result has.
type keeps struct {
	slots   int
	permits int   // of a breaker whose calls are all known, or that is half open
	streams int64 // results that outlived their attempt's time
	calls   int64 // that the breaker has counted
}

func (tr *trial) keeps(now clock.Instant) (k keeps) {
	a := accountsOf(tr.state, now)
	k.slots, k.permits, k.calls = a.slots, a.permits, a.calls
	if s := tr.state.streams(); s != nil {
		k.streams = s.open.Load()
	}
	return k
}

// A result that lives on has its slot, its probe and its place among the streams, until it
// gives them back, each once.
func TestAnOpenResultGivesBackWhatItHas(t *testing.T) {
	type step struct {
		do   string
		want keeps
	}
	limit := func(per policy.Per) policy.Policy {
		p := policy.Policy{Bulkhead: policy.Bulkhead{Limit: 3, Per: per}}
		p.Breaker.Per = per
		return p
	}
	for _, c := range []struct {
		fact     string
		p        policy.Policy
		halfOpen bool
		want     breaker.State // at the end
		steps    []step
	}{
		{"until it is released, once", limit(policy.PerAttempt), false, breaker.Closed, []step{
			{"open", keeps{slots: 2, calls: 1}}, {"release", keeps{slots: 1, calls: 1}}, {"release", keeps{slots: 1, calls: 1}},
		}},
		{"or its time is over, once", limit(policy.PerAttempt), false, breaker.Closed, []step{
			{"open", keeps{slots: 2, calls: 1}}, {"outlive", keeps{slots: 1, streams: 1, calls: 1}},
			{"outlive", keeps{slots: 1, streams: 1, calls: 1}}, {"release", keeps{slots: 1, calls: 1}},
		}},
		{"as the slot of the whole call", limit(policy.PerCall), false, breaker.Closed, []step{
			{"open", keeps{slots: 2, calls: 1}}, {"outlive", keeps{slots: 1, streams: 1, calls: 1}}, {"release", keeps{slots: 1, calls: 1}},
		}},
		{"a probe, when it ends well", limit(policy.PerAttempt), true, breaker.Closed, []step{
			{"open", keeps{slots: 2, permits: 1}}, {"release", keeps{slots: 1}},
		}},
		{"a probe, when it has lived for long enough", limit(policy.PerAttempt), true, breaker.Closed, []step{
			{"open", keeps{slots: 2, permits: 1}}, {"outlive", keeps{slots: 1, streams: 1}}, {"release", keeps{slots: 1}},
		}},
		{"a probe, when it breaks", limit(policy.PerAttempt), true, breaker.Open, []step{
			{"open", keeps{slots: 2, permits: 1}}, {"break", keeps{slots: 1}},
		}},
		{"a probe that is the whole call's", limit(policy.PerCall), true, breaker.Closed, []step{
			{"open", keeps{slots: 2, permits: 1}}, {"release", keeps{slots: 1}},
		}},
	} {
		t.Run(c.fact, func(t *testing.T) {
			c.p.Breaker.Probes, c.p.Breaker.CloseAfter = 1, 1
			tr := newTrial(t, c.p)
			other, _ := tr.begin(0) // so that a slot that is given back twice is somebody else's
			if by := tr.state.Breaker("").By(""); c.halfOpen {
				by.ForceOpen(0, clock.Never)
				if err := by.TryHalfOpen(0); err != nil {
					t.Fatal(err)
				}
			}
			call, ticket := tr.begin(ms)
			for i, s := range c.steps {
				now := clock.Instant(i+2) * ms
				switch s.do {
				case "open":
					call.Settle(now, ticket, policy.Outcome{Class: policy.ClassSuccess, Open: true})
					call.Next(now)
				case "outlive":
					call.Outlive(now, &ticket)
				default:
					call.Release(now, ticket, s.do == "break")
				}
				if got := tr.keeps(now); got != s.want {
					t.Errorf("%d. %s: %+v, want %+v", i+1, s.do, got, s.want)
				}
			}
			if got := tr.state.Breaker("").State(); got != c.want {
				t.Errorf("the breaker is %v, want %v", got, c.want)
			}
			other.Cancel(sec)
		})
	}
}

// The permit of a whole call is settled once, also if an attempt comes home after its end.
func TestTheEndOfAWholeCallIsCountedOnce(t *testing.T) {
	tr := newTrial(t, policy.Policy{Breaker: policy.Breaker{Per: policy.PerCall}, Hedge: policy.Hedge{Max: 1, Delay: time.Second}})
	call, first := tr.begin(0)
	second := call.Next(sec).Ticket
	call.Settle(2*sec, first, policy.Outcome{Class: policy.ClassSuccess})
	call.Next(2 * sec)
	call.Settle(3*sec, second, policy.Outcome{Class: policy.ClassNetwork})
	if got := accountsOf(tr.state, 3*sec).calls; got != 1 {
		t.Errorf("the breaker has counted %d calls", got)
	}
}

// A call that leaves the queue, for whatever reason, leaves no place behind and no slot.
func TestACallThatLeavesTheQueueKeepsNothing(t *testing.T) {
	for _, c := range []struct {
		fact    string
		granted bool // the slot had come before
		leave   func(*Call)
		want    policy.Reason
	}{
		{"its caller left", false, func(c *Call) { c.Cancel(2 * ms) }, policy.Canceled},
		{"its caller left as the slot came", true, func(c *Call) { c.Cancel(2 * ms) }, policy.Canceled},
		{"it has waited for long enough", false, func(c *Call) { c.Next(sec) }, policy.QueueTimeout},
		{"its deadline is over", false, func(c *Call) { c.Next(10 * sec) }, policy.CallTimeout},
		{"its deadline is over as the slot comes", true, func(c *Call) { c.Next(10 * sec) }, policy.CallTimeout},
	} {
		t.Run(c.fact, func(t *testing.T) {
			tr := newTrial(t, policy.Policy{Bulkhead: policy.Bulkhead{Limit: 1, QueueTimeout: time.Second}, Timeout: policy.Timeout{Call: 10 * time.Second}})
			holder, ticket := tr.begin(0)
			var call Call
			call.Begin(tr.state, 0, &Params{Waker: nobody{}})
			if s := call.Next(0); s.Verb != Wait || tr.state.bulkhead().Stats().Queued != 1 {
				t.Fatalf("%+v, %+v", s, tr.state.bulkhead().Stats())
			}
			if c.granted {
				tr.home(ms, holder, ticket, policy.ClassSuccess)
			}
			c.leave(&call)
			if got := call.End().Reason; got != c.want {
				t.Errorf("%v, want %v", got, c.want)
			}
			if !c.granted {
				tr.home(11*sec, holder, ticket, policy.ClassSuccess)
			}
			if u := tr.state.bulkhead().Stats(); u.InUse != 0 || u.Queued != 0 {
				t.Errorf("%d slots are in use and %d wait", u.InUse, u.Queued)
			}
		})
	}
}

// A call that queues while the breaker is half open has asked it, and keeps no probe.
func TestACallThatQueuesKeepsNoProbe(t *testing.T) {
	tr := newTrial(t, policy.Policy{Bulkhead: policy.Bulkhead{Limit: 1}, Breaker: policy.Breaker{Probes: 1}})
	tr.begin(0)
	by := tr.state.Breaker("").By("")
	by.ForceOpen(0, clock.Never)
	if err := by.TryHalfOpen(0); err != nil {
		t.Fatal(err)
	}
	var call Call
	call.Begin(tr.state, 0, &Params{Waker: nobody{}})
	if s := call.Next(0); s.Verb != Wait {
		t.Fatalf("%+v, %v", s, call.End().Reason)
	}
	if got := accountsOf(tr.state, 0).permits; got != 0 {
		t.Errorf("%d probes are out", got)
	}
}

// A call that gave its slot back to look at the clock again takes another, and no second
// request of the throttle's.
func TestACallThatAskedAgainHasASlotAndOneRequest(t *testing.T) {
	tr := newTrial(t, policy.Policy{
		RateLimit: policy.RateLimit{Rate: 1, MaxWait: policy.Off}, Bulkhead: policy.Bulkhead{Limit: 3}, Throttle: policy.Throttle{K: 2},
		Retry: policy.Retry{Hold: policy.Off, Backoff: backoff.Const(time.Millisecond), Budget: policy.Budget{Start: 2}},
	})
	call, first := tr.begin(0)
	s := tr.home(ms, call, first, policy.ClassServer)
	if s = call.Next(s.Again); s.Verb != Wait {
		t.Fatalf("%+v", s)
	}
	if s = call.Next(2 * sec); s.Verb != Send {
		t.Fatalf("%+v, %v", s, call.End().Reason)
	}
	if a := accountsOf(tr.state, 2*sec); a.slots != 1 || a.requests != 2 {
		t.Errorf("%d slots for one attempt that is out, %d requests for two that were sent", a.slots, a.requests)
	}
	call.Settle(3*sec, s.Ticket, policy.Outcome{Class: policy.ClassSuccess})
	if got := accountsOf(tr.state, 3*sec).slots; got != 0 {
		t.Errorf("%d slots are left behind", got)
	}
}

// A call that has waited for its turn of the rate limit takes no second one.
func TestACallThatWaitedTakesOneTurn(t *testing.T) {
	tr := newTrial(t, policy.Policy{RateLimit: policy.RateLimit{Rate: 1, MaxWait: time.Minute}})
	tr.begin(0)
	var call Call
	call.Begin(tr.state, 0, &Params{})
	s := call.Next(0)
	if s, _ = tr.goOn(&call, s); s.Verb != Send {
		t.Fatalf("%+v", s)
	}
	if got := accountsOf(tr.state, sec).turn; got != 2*sec {
		t.Errorf("the next turn is at %v", got)
	}
}

// Whoever finds an evicted partition is not counted in it.
func TestAnEvictedPartitionCountsNobody(t *testing.T) {
	var p namedPartition
	p.out.Store(evicted)
	if p.enter() || p.out.Load() != evicted {
		t.Errorf("%d calls are in it", p.out.Load()-evicted)
	}
}

// After an observer that left its goroutine another caller tells what is left.
func TestDeliveryGoesOnAfterAnObserverThatLeft(t *testing.T) {
	var o eventQueue
	o.listen(true)
	o.add(policy.Event{})
	left := make(chan struct{})
	go func() {
		defer close(left)
		o.deliver(func(policy.Event) { runtime.Goexit() })
	}()
	<-left
	for n := range 2 {
		told := 0
		o.add(policy.Event{})
		if o.deliver(func(policy.Event) { told++ }); told != 1 {
			t.Errorf("%d. delivery: %d events were told", n+1, told)
		}
	}
}

// A repeat has its charge back where it succeeded, or had no need to run, and once. One that
// failed has paid.
func TestARepeatGivesBackWhatItPaid(t *testing.T) {
	for _, c := range []struct {
		fact    string
		unspent int
		ends    policy.Class
		paid    bool
	}{
		{"it succeeded", 0, policy.ClassSuccess, false},
		{"its work had no need to run", 1, policy.ClassIgnored, false},
		{"which is said twice", 2, policy.ClassIgnored, false},
		{"and then it succeeded", 1, policy.ClassSuccess, false},
		{"it failed", 0, policy.ClassServer, true},
	} {
		for _, b := range []policy.Budget{{Start: 20, Reserve: 20}, {Shape: policy.BudgetWindow}, {Shape: policy.BudgetTokens}} {
			tr := newTrial(t, policy.Policy{Retry: policy.Retry{Budget: b}})
			for range 3 { // what is given back twice is taken from these
				tr.state.charge(0, tr.state.Rules())
			}
			before := accountsOf(tr.state, 0)
			var call Call
			call.Begin(tr.state, 0, &Params{Repeat: true, NoRetry: true})
			s := call.Next(0)
			if s.Verb != Send {
				t.Fatalf("%+v", call.End())
			}
			for range c.unspent {
				call.Unspent(0, &s.Ticket)
			}
			call.Settle(0, s.Ticket, policy.Outcome{Class: c.ends})
			after := accountsOf(tr.state, 0)
			paid := after.sent > before.sent || after.tokens < before.tokens
			if paid != c.paid || after.sent < before.sent || after.tokens > before.tokens+1 {
				t.Errorf("%s, %v: %+v, before %+v", c.fact, b.Shape, after, before)
			}
		}
	}
}

// A repeat that nothing has paid for ends once, whatever it showed.
func TestATrialEndsOnce(t *testing.T) {
	for _, c := range []struct {
		fact    string
		unspent int
		ends    policy.Class
	}{
		{"it succeeded", 0, policy.ClassSuccess},
		{"it failed", 0, policy.ClassServer},
		{"it showed nothing", 0, policy.ClassIgnored},
		{"its work had no need to run", 1, policy.ClassIgnored},
		{"which is said twice", 2, policy.ClassIgnored},
	} {
		tr := newTrial(t, policy.Policy{Retry: policy.Retry{Budget: policy.Budget{Start: policy.Off, Reserve: policy.Off}}})
		var call Call
		call.Begin(tr.state, 0, &Params{Repeat: true, NoRetry: true})
		s := call.Next(0)
		if s.Verb != Send || tr.state.trials().out != 1 {
			t.Fatalf("%+v, %d on trial", call.End(), tr.state.trials().out)
		}
		for range c.unspent {
			call.Unspent(0, &s.Ticket)
		}
		call.Settle(0, s.Ticket, policy.Outcome{Class: c.ends})
		if got := tr.state.trials().out; got != 0 {
			t.Errorf("%s: %d are on trial", c.fact, got)
		}
	}
}
