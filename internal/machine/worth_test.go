package machine

import (
	"fmt"
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/chance"
	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/policy"
)

// takes is how long an attempt of a load takes.
const takes = 10 * time.Millisecond

// load is an open loop of calls of one client: one begins each so often, whatever became of
// those before.
type load struct {
	every time.Duration
	lasts time.Duration
	fails func(at clock.Instant, u float64) policy.Class // u is a draw
	seed  uint64
}

// loaded is what became of a load.
type loaded struct{ calls, lost, sent, waited int }

// loadCall is a call of a load.
type loadCall struct {
	Call
	ticket Ticket
	due    clock.Instant // when it is asked, or its attempt ends
	out    bool
}

// play runs the load until all its calls have ended.
func (l load) play(tr *trial) (r loaded) {
	var open []*loadCall
	begins, ends := clock.Instant(0), clock.Instant(l.lasts)
	for now := begins; begins < ends || len(open) > 0; {
		if begins < ends && begins <= now {
			c := &loadCall{due: now}
			c.Begin(tr.state, now, &Params{})
			open = append(open, c)
			begins = begins.Add(l.every)
			r.calls++
		}
		next, left := clock.Never, open[:0]
		if begins < ends {
			next = begins
		}
		for _, c := range open {
			if c.due <= now && l.step(c, now, &r) {
				continue
			}
			next, left = min(next, c.due), append(left, c)
		}
		open, now = left, max(next, now)
	}
	return r
}

// step moves a call on, and reports whether it has ended.
func (l load) step(c *loadCall, now clock.Instant, r *loaded) (over bool) {
	if c.out {
		c.out = false
		c.Settle(now, c.ticket, policy.Outcome{Class: l.fails(now, chance.U(l.seed, uint64(r.sent), 0, 0))})
	}
	switch s := c.Next(now); s.Verb {
	case Return:
		if !c.Succeeded() {
			r.lost++
		}
		return true
	case Send:
		r.sent++
		c.ticket, c.due, c.out = s.Ticket, now.Add(takes), true
	default:
		if c.taken.has&aDebt != 0 {
			r.waited++
		}
		c.due = s.Again
	}
	return false
}

// everyday are failures of that share of all attempts.
func everyday(share float64) func(clock.Instant, float64) policy.Class {
	return func(_ clock.Instant, u float64) policy.Class {
		if u < share {
			return policy.ClassServer
		}
		return policy.ClassSuccess
	}
}

// outage are failures of all attempts that end in that time.
func outage(from, to clock.Instant) func(clock.Instant, float64) policy.Class {
	return func(at clock.Instant, _ float64) policy.Class {
		if at >= from && at < to {
			return policy.ClassServer
		}
		return policy.ClassSuccess
	}
}

// Without a budget a call is lost if three attempts fail.
func TestEverydayFailuresAreRetriedAsWithoutABudget(t *testing.T) {
	for _, share := range []float64{0.01, 0.05, 0.1, 0.2} {
		for _, every := range []time.Duration{20 * time.Millisecond, 250 * time.Millisecond, 5 * time.Second} {
			t.Run(fmt.Sprintf("%v of a call each %v", share, every), func(t *testing.T) {
				var with, without loaded
				for seed := range uint64(4) {
					l := load{every: every, lasts: 3000 * every, fails: everyday(share), seed: seed}
					for _, side := range []struct {
						sum *loaded
						p   policy.Policy
					}{{&with, policy.Policy{}}, {&without, policy.Policy{Retry: policy.Retry{Budget: policy.Budget{Off: true}}}}} {
						r := l.play(newTrial(t, side.p))
						side.sum.calls, side.sum.lost, side.sum.sent = side.sum.calls+r.calls, side.sum.lost+r.lost, side.sum.sent+r.sent
					}
				}
				if most := without.lost + without.lost/5 + 12; with.lost > most { // 12: each of four clients learns it anew
					t.Errorf("%d of %d calls are lost, %d without a budget", with.lost, with.calls, without.lost)
				}
				if float64(with.sent) > 1.01*float64(without.sent) {
					t.Errorf("%d attempts, %d without a budget", with.sent, without.sent)
				}
			})
		}
	}
}

// The load of an SDK's test: 20 calls a second for eight seconds, with an outage of three. Alone the
// AWS SDK loses 5 to 12 of 160.
func TestAShortOutageLosesNoMoreThanAnSDKAlone(t *testing.T) {
	for _, begins := range []clock.Instant{sec, 2 * sec, 4 * sec} {
		for seed := range uint64(5) {
			tr := newTrial(t, policy.Policy{})
			tr.state.draws.Store(chance.Bits(seed, 0, 0, 0) | 1)
			r := load{every: 50 * time.Millisecond, lasts: 8 * time.Second, fails: outage(begins, begins+3*sec), seed: seed}.play(tr)
			if r.lost > 5 || r.waited == 0 {
				t.Errorf("from %v, seed %d: %+v", begins, seed, r)
			}
			for range 255 { // no call waits any more
				if !tr.state.earned.Owe() {
					t.Fatalf("from %v, seed %d: a call that has ended still counts as waiting", begins, seed)
				}
			}
		}
	}
}

// What is sent again in an outage was earned before it, whether or not calls wait that have not paid.
func TestATotalOutageGetsWhatWasEarnedAndNoMore(t *testing.T) {
	for _, every := range []time.Duration{10 * time.Millisecond, 50 * time.Millisecond, time.Second, 5 * time.Second} {
		for _, breaker := range []policy.Breaker{{}, {Consecutive: policy.Off, FailureRate: policy.Off}} {
			tr := newTrial(t, policy.Policy{Breaker: breaker})
			begins, sent, most := clock.Instant(100*every), 0, 0
			l := load{every: every, lasts: 200 * every, seed: 1}
			l.fails = func(at clock.Instant, _ float64) policy.Class {
				if at < begins {
					return policy.ClassSuccess
				}
				if sent++; sent == 1 { // a part of a re-send may be a whole one
					most = int(tr.state.earned.Level(at, &tr.state.Rules().earned)+999_999) / 1_000_000
				}
				return policy.ClassServer
			}
			r := l.play(tr)
			if again := sent - (r.calls - 100); again > most {
				t.Errorf("a call each %v: %d attempts are sent again, want at most %d", every, again, most)
			}
		}
	}
}

// A retry that can't be paid for waits three seconds, and not until the deadline.
func TestACallThatHasNotPaidWaitsForThreeSeconds(t *testing.T) {
	for i := range clock.Instant(20) {
		tr := newTrial(t, policy.Policy{Breaker: policy.Breaker{Consecutive: policy.Off, FailureRate: policy.Off}})
		tr.call(0, ms, policy.ClassSuccess)
		var c *Call
		var s Step
		at := sec
		for ; c == nil || c.taken.has&aDebt == 0; at += 1 + i {
			var ticket Ticket
			c, ticket = tr.begin(at)
			s = tr.home(at+1, c, ticket, policy.ClassServer)
		}
		s, ended := tr.goOn(c, s)
		if s.Verb != Return || c.End().Reason != policy.BudgetExhausted || ended.Sub(at) > 3*time.Second {
			t.Errorf("it ended after %v: %+v", ended.Sub(at), c.End())
		}
	}
}

func TestWhatASuccessGivesBack(t *testing.T) {
	unpaced := policy.Policy{Pace: policy.Pace{Off: true}}
	for _, c := range []struct {
		fact  string
		p     policy.Policy
		after policy.Outcome // of the first attempt
		then  policy.Class   // of the second
		left  int64
		ended int
		share int
	}{
		{"a retry that succeeds pays for itself", policy.Policy{}, policy.Outcome{Class: policy.ClassServer}, policy.ClassSuccess, 1, 1, 1},
		{"one that fails does not", policy.Policy{}, policy.Outcome{Class: policy.ClassServer}, policy.ClassServer, 0, 1, 0},
		{"one that took another's turn does not", unpaced, policy.Outcome{Class: policy.ClassThrottled}, policy.ClassSuccess, 0, 1, 1},
		{"nor one that came when it was told to", unpaced, policy.Outcome{Class: policy.ClassServer, HasAfter: true, After: time.Second}, policy.ClassSuccess, 0, 1, 1},
		{"an answer that is no success says nothing", policy.Policy{}, policy.Outcome{Class: policy.ClassServer}, policy.ClassBusiness, 0, 0, 0},
	} {
		tr := newTrial(t, c.p)
		a, first := tr.begin(0)
		a.Settle(ms, first, c.after)
		s, now := tr.goOn(a, a.Next(ms))
		if s.Verb != Send {
			t.Fatalf("%s: %+v", c.fact, a.End())
		}
		tr.home(now+ms, a, s.Ticket, c.then)
		if st := tr.state.Stats(now + ms).Budget; st.Level != c.left || st.Ended != c.ended || st.Helped != c.share {
			t.Errorf("%s: %+v", c.fact, st)
		}
	}
}

// A call that gives up while it waits makes room for another.
func TestACallThatLeavesOwesNothing(t *testing.T) {
	tr := newTrial(t, policy.Policy{Breaker: policy.Breaker{Consecutive: policy.Off, FailureRate: policy.Off}})
	for i := range clock.Instant(10) {
		tr.call(i*ms, i*ms+1, policy.ClassSuccess)
	}
	var waiting []*Call
	for i := range clock.Instant(400) {
		c, ticket := tr.begin(sec + i*ms)
		if s := tr.home(sec+i*ms+1, c, ticket, policy.ClassServer); s.Verb == Wait && c.taken.has&aDebt != 0 {
			waiting = append(waiting, c)
		}
	}
	if len(waiting) != 255 {
		t.Errorf("%d calls wait that have not paid", len(waiting))
	}
	for _, c := range waiting {
		c.Cancel(2 * sec)
	}
	c, ticket := tr.begin(2 * sec)
	if s := tr.home(2*sec+1, c, ticket, policy.ClassServer); s.Verb != Wait {
		t.Errorf("all have left, and no other may wait: %+v", c.End())
	}
}

// While other calls succeed, a call whose retry can't be paid for ends at once.
func TestARetryIsRefusedAtOnceWhileOthersSucceed(t *testing.T) {
	tr := newTrial(t, policy.Policy{Retry: policy.Retry{Budget: policy.Budget{Ratio: policy.Off}}})
	a, first := tr.begin(0)
	s := tr.home(ms, a, first, policy.ClassServer)
	tr.call(2*ms, 3*ms, policy.ClassSuccess)
	s, now := tr.goOn(a, s)
	if s.Verb != Send {
		t.Fatalf("%+v", a.End())
	}
	if s = tr.home(now+ms, a, s.Ticket, policy.ClassServer); s.Verb != Return || a.End().Reason != policy.BudgetExhausted {
		t.Errorf("%+v after %+v", s, a.End())
	}
}

// Of the calls that wait until others succeed, one is sent that nothing has paid for. It pays for the next.
func TestOneThatWaitedIsSentUnpaidOnceOthersSucceed(t *testing.T) {
	tr := newTrial(t, policy.Policy{Retry: policy.Retry{Budget: policy.Budget{Ratio: policy.Off}}})
	tr.call(0, ms, policy.ClassSuccess)
	var calls [4]*Call
	var steps [4]Step
	for i := range calls {
		at := sec + clock.Instant(i)*ms
		c, ticket := tr.begin(at)
		calls[i], steps[i] = c, tr.home(at+1, c, ticket, policy.ClassServer)
		if steps[i].Verb != Wait {
			t.Fatalf("call %d: %+v", i, c.End())
		}
	}
	if calls[0].taken.has&aDebt != 0 || calls[1].taken.has&aDebt == 0 {
		t.Fatal("the first has not paid, or the second has")
	}
	calls[0].Cancel(sec + 10*ms) // it gives back what it has paid
	b, ticket := tr.begin(sec + 11*ms)
	if s := tr.home(sec+12*ms, b, ticket, policy.ClassServer); s.Verb != Wait { // and this one takes it
		t.Fatalf("%+v", b.End())
	}
	tr.call(sec+13*ms, sec+14*ms, policy.ClassSuccess)
	now := 3 * sec // all of them are due, and the first of them borrows
	s := calls[1].Next(now)
	if s.Verb != Send {
		t.Fatalf("one is sent: %+v", calls[1].End())
	}
	if other := calls[2].Next(now); other.Verb == Send {
		t.Error("a second one is sent before it is known what the first comes to")
	}
	if tr.home(now+ms, calls[1], s.Ticket, policy.ClassSuccess); !calls[1].Succeeded() {
		t.Errorf("%+v", calls[1].End())
	}
	if s = calls[3].Next(now + 2*ms); s.Verb != Send {
		t.Errorf("the first has paid for the next: %+v", calls[3].End())
	}
}
