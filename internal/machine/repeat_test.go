package machine

import (
	"testing"
	"time"

	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/policy"
)

// deliver plays a delivery that takes a millisecond, and returns why it was not let in.
func (tr *trial) deliver(now clock.Instant, repeat bool, ends policy.Class) policy.Reason {
	tr.t.Helper()
	c := new(Call)
	c.Begin(tr.state, now, &Params{NoRetry: true, Repeat: repeat})
	s := c.Next(now)
	if s.Verb != Send {
		return c.End().Reason
	}
	c.Settle(now.Add(time.Millisecond), s.Ticket, policy.Outcome{Class: ends})
	c.Next(now.Add(time.Millisecond))
	return policy.None
}

// quiet is a policy whose breaker stays out of the way.
var quiet = policy.Policy{Breaker: policy.Breaker{Off: true}, Retry: policy.Retry{Backoff: backoff.Backoff{Kind: backoff.DecorrelatedJitter, Base: time.Second, Cap: time.Minute}}}

func TestRepeatsThatFailSpendTheBudget(t *testing.T) {
	for _, shape := range []policy.BudgetShape{policy.BudgetEarned, policy.BudgetWindow, policy.BudgetTokens, policy.BudgetQuota} {
		p := quiet
		p.Retry.Budget.Shape = shape
		tr := newTrial(t, p)
		for i := range clock.Instant(100) {
			tr.deliver(i*ms, false, policy.ClassSuccess)
		}
		let := 0
		for i := range clock.Instant(1000) {
			if why := tr.deliver(sec+i*ms, true, policy.ClassServer); why == policy.None {
				let++
			} else if why != policy.BudgetExhausted {
				t.Fatalf("%v: refused with %v", shape, why)
			}
		}
		if let < 2 || let > 200 {
			t.Errorf("%v: %d of 1000 failing repeats were let go", shape, let)
		}
	}
}

func TestRepeatsThatSucceedCostNothing(t *testing.T) {
	for _, shape := range []policy.BudgetShape{policy.BudgetEarned, policy.BudgetWindow, policy.BudgetTokens, policy.BudgetQuota, policy.BudgetShare} {
		p := quiet
		p.Retry.Budget.Shape = shape
		tr := newTrial(t, p)
		for i := range clock.Instant(100) {
			tr.deliver(i*ms, false, policy.ClassSuccess)
		}
		for i := range clock.Instant(1000) {
			if why := tr.deliver(sec+i*ms, true, policy.ClassSuccess); why != policy.None {
				t.Fatalf("%v: the %d. was refused with %v", shape, i+1, why)
			}
		}
	}
}

// Where all messages failed once and no new ones come, nothing but a repeat can earn.
func TestABacklogOfRepeatsIsWorkedOffOnceTheyWork(t *testing.T) {
	tr := newTrial(t, quiet)
	now := clock.Instant(0)
	for range 100 { // an outage: the budget is spent
		tr.deliver(now, true, policy.ClassServer)
		now += ms
	}
	refused, done := 0, 0
	for ; done < 1000 && now < 60*sec; now += 5 * ms {
		switch tr.deliver(now, true, policy.ClassSuccess) {
		case policy.None:
			done++
		case policy.BudgetExhausted:
			refused++
		}
	}
	if done < 1000 {
		t.Errorf("%d were done and %d refused in a minute", done, refused)
	}
	if refused == 0 {
		t.Error("the outage did not empty the budget: the test shows nothing")
	}
}

func TestRepeatsThatNothingPaysForGoOneAtATime(t *testing.T) {
	tr := newTrial(t, quiet)
	let := 0
	for now := clock.Instant(0); now < 100*sec; now += 10 * ms {
		if tr.deliver(now, true, policy.ClassServer) == policy.None {
			let++
		}
	}
	if let < 99 || let > 103 {
		t.Errorf("%d went in 100 s, not one a second", let)
	}
}

func TestRepeatsStopWhereRetriesAreOff(t *testing.T) {
	tr := newTrial(t, quiet)
	tr.state.StopRetries(0, clock.Never, "")
	if why := tr.deliver(ms, true, policy.ClassSuccess); why != policy.RetriesOff {
		t.Errorf("a repeat ends with %v", why)
	}
	if why := tr.deliver(ms, false, policy.ClassSuccess); why != policy.None {
		t.Errorf("a first delivery ends with %v", why)
	}
}

func TestRoomFollowsTheBreaker(t *testing.T) {
	tr := newTrial(t, policy.Policy{Breaker: policy.Breaker{MinCalls: 20}})
	if n, _ := tr.state.Room(0); n != Unlimited {
		t.Errorf("a closed breaker has room for %d", n)
	}
	for i := range clock.Instant(200) {
		tr.deliver(i*ms, false, policy.ClassServer)
	}
	n, after := tr.state.Room(sec)
	if n != 0 || after <= 0 {
		t.Fatalf("an open breaker has room for %d, ask again after %v", n, after)
	}
	probing := sec.Add(after)
	if n, _ := tr.state.Room(probing); n != 1 {
		t.Errorf("a breaker that wants probes has room for %d", n)
	}
	if why := tr.deliver(probing, false, policy.ClassSuccess); why != policy.None {
		t.Errorf("the probe was refused with %v", why)
	}
}

func TestRoomFollowsTheDependencysWishes(t *testing.T) {
	tr := newTrial(t, policy.Policy{Breaker: policy.Breaker{Off: true}})
	c, ticket := tr.begin(0)
	c.Settle(ms, ticket, policy.Outcome{Class: policy.ClassThrottled, HasAfter: true, After: 2 * time.Second})
	n, after := tr.state.Room(2 * ms)
	if n != 0 || after < time.Second {
		t.Fatalf("room for %d, ask again after %v", n, after)
	}
	if n, _ := tr.state.Room(clock.Instant(2 * ms).Add(after)); n != 1 {
		t.Errorf("room for %d when the time is over", n)
	}
}

func TestRedeliveries(t *testing.T) {
	r, err := Compile(policy.Policy{Retry: policy.Retry{Attempts: 11, Backoff: backoff.Backoff{Kind: backoff.DecorrelatedJitter, Base: time.Second, Cap: time.Minute}}})
	if err != nil {
		t.Fatal(err)
	}
	retry := &r.Policy.Retry
	for _, c := range []struct {
		fact        string
		o           policy.Outcome
		runs        int
		why         policy.Reason
		least, most time.Duration
	}{
		{"the first failure waits at least the base", policy.Outcome{Class: policy.ClassServer}, 1, policy.None, time.Second, 3 * time.Second},
		{"the tenth at most the cap", policy.Outcome{Class: policy.ClassTimeout}, 10, policy.None, time.Second, time.Minute},
		{"the eleventh is the last", policy.Outcome{Class: policy.ClassServer}, 11, policy.AttemptsExhausted, 0, 0},
		{"more runs than there may be", policy.Outcome{Class: policy.ClassServer}, 500, policy.AttemptsExhausted, 0, 0},
		{"a run that nobody counted is the first", policy.Outcome{Class: policy.ClassServer}, 0, policy.None, time.Second, 3 * time.Second},
		{"a wrong request stays wrong", policy.Outcome{Class: policy.ClassClient}, 1, policy.NotRetryable, 0, 0},
		{"a no stays no", policy.Outcome{Class: policy.ClassBusiness}, 1, policy.NotRetryable, 0, 0},
		{"what nobody classified is tried again", policy.Outcome{Class: policy.ClassUnclassified}, 1, policy.None, time.Second, 3 * time.Second},
		{"so is a panic", policy.Outcome{Class: policy.ClassCrashed}, 1, policy.None, time.Second, 3 * time.Second},
		{"a wish of the dependency is kept", policy.Outcome{Class: policy.ClassThrottled, HasAfter: true, After: 10 * time.Minute}, 1, policy.None, 10 * time.Minute, 12 * time.Minute},
		{"to the letter if it is meant so", policy.Outcome{Class: policy.ClassThrottled, HasAfter: true, Exact: true, After: 10 * time.Minute}, 1, policy.None, 10 * time.Minute, 10 * time.Minute},
		{"one of a year is kept for a day", policy.Outcome{Class: policy.ClassThrottled, HasAfter: true, Exact: true, After: 8760 * time.Hour}, 1, policy.None, longestAfter, longestAfter},
		{"a conflict is tried again soon", policy.Outcome{Class: policy.ClassContention}, 1, policy.None, 0, 10 * time.Millisecond},
		{"a bug has one more chance", policy.Outcome{Class: policy.ClassServer, Once: true}, 1, policy.None, time.Second, 3 * time.Second},
		{"and no second", policy.Outcome{Class: policy.ClassServer, Once: true}, 2, policy.AttemptsExhausted, 0, 0},
		{"where a layer below gave up, the wait is long", policy.Outcome{Class: policy.ClassServer, Stop: true}, 1, policy.None, 30 * time.Second, time.Minute},
	} {
		for seed := range uint64(200) {
			wait, why := Redelivery(retry, &c.o, c.runs, seed)
			if why != c.why || wait < c.least || wait > c.most {
				t.Fatalf("%s: %v after %v, seed %d", c.fact, why, wait, seed)
			}
			if again, _ := Redelivery(retry, &c.o, c.runs, seed); again != wait {
				t.Fatalf("%s: %v, and %v the next time", c.fact, wait, again)
			}
		}
	}
}

// What a call's end means to a message whose work made the call: a refusal is no run, and
// whatever failed was tried often enough below.
func TestWhatTheEndOfACallMeansAroundIt(t *testing.T) {
	unsure := func() policy.Outcome { return policy.Outcome{Class: policy.ClassNetwork, NeverSent: true} }
	for _, c := range []struct {
		fact  string
		end   End
		inner func() policy.Outcome
		class policy.Class
	}{
		{"the breaker refused it", End{Reason: policy.BreakerOpen}, unsure, policy.ClassRejected},
		{"the breaker refused to repeat it", End{Reason: policy.BreakerOpen, Attempts: 1}, unsure, policy.ClassNetwork},
		{"its time was over", End{Reason: policy.CallTimeout, Attempts: 2}, unsure, policy.ClassTimeout},
		{"its attempts were", End{Reason: policy.AttemptsExhausted, Attempts: 3}, unsure, policy.ClassNetwork},
		{"nothing more is known", End{Reason: policy.AttemptsExhausted, Attempts: 3}, nil, policy.ClassServer},
	} {
		if o := Around(&c.end, c.inner); o.Class != c.class || !o.Stop || o.NeverSent {
			t.Errorf("%s: %+v", c.fact, o)
		}
	}
	for left, want := range map[time.Duration]time.Duration{-1: time.Second, 3 * time.Second: 3 * time.Second, time.Minute: 5 * time.Second} {
		if got := AskAgain(left); got != want {
			t.Errorf("with %v left it is asked again after %v", left, got)
		}
	}
}

// spend empties the budget of what it begins with.
func (tr *trial) spend(now clock.Instant) clock.Instant {
	for range 50 {
		tr.deliver(now, true, policy.ClassServer)
		now += ms
	}
	return now.Add(2 * time.Second)
}

func TestATrialThatIsNotMadeIsGivenBack(t *testing.T) {
	p := quiet
	p.Bulkhead = policy.Bulkhead{Limit: 1, Queue: policy.Off}
	tr := newTrial(t, p)
	now := tr.spend(0)
	first, ticket := tr.begin(now)
	c := new(Call)
	c.Begin(tr.state, now, &Params{NoRetry: true, Repeat: true, Waker: nobody{}})
	if c.Next(now); c.End().Reason != policy.BulkheadFull {
		t.Fatalf("beside a full bulkhead it ends with %v", c.End().Reason)
	}
	first.Settle(now, ticket, policy.Outcome{Class: policy.ClassServer})
	if why := tr.deliver(now, true, policy.ClassSuccess); why != policy.None {
		t.Errorf("the next was refused with %v", why)
	}
}

func TestARepeatThatNeverRanPaysNothing(t *testing.T) {
	for _, ends := range []policy.Class{policy.ClassNetwork, policy.ClassIgnored} {
		tr := newTrial(t, quiet)
		for now := clock.Instant(0); now < sec; now += ms {
			c := new(Call)
			c.Begin(tr.state, now, &Params{NoRetry: true, Repeat: true})
			s := c.Next(now)
			if s.Verb != Send {
				t.Fatalf("at %v it was refused with %v", now, c.End().Reason)
			}
			c.Unspent(now, &s.Ticket)
			c.Settle(now, s.Ticket, policy.Outcome{Class: ends})
			c.Next(now)
		}
	}
}

// The bound of what nothing pays for: beside what the budget begins with, one for each pause, and
// half of what succeeds.
func TestRepeatsOnTrialThatFailAreFew(t *testing.T) {
	for _, share := range []uint64{100, 60, 40, 20} {
		tr := newTrial(t, quiet)
		good, bad, let := 0, 0, clock.Instant(0)
		for n := range uint64(20_000) {
			now := clock.Instant(n) * 10 * ms
			fails := (n*2654435761)>>7%100 < share
			ends := policy.ClassSuccess
			if fails {
				ends = policy.ClassServer
			}
			if tr.deliver(now, true, ends) != policy.None {
				continue
			}
			if let = now; fails {
				bad++
			} else {
				good++
			}
		}
		paid := good/5 + 20 // by what succeeded, at most, and by what there was
		if seconds := int(let / sec); bad > good/2+paid+seconds+10 {
			t.Errorf("of %d %% failing %d went, and %d good ones, in %d s", share, bad, good, seconds)
		} else if share == 20 && good < 12_000 {
			t.Errorf("%d good ones went where few fail", good)
		}
	}
}

func TestRoomIsForOneWhileNothingPaysForRepeats(t *testing.T) {
	tr := newTrial(t, quiet)
	now := tr.spend(0)
	tr.deliver(now, true, policy.ClassServer)
	if why := tr.deliver(now, true, policy.ClassServer); why != policy.BudgetExhausted {
		t.Fatalf("two at once: %v", why)
	}
	n, after := tr.state.Room(now)
	if n != 0 || after <= 0 || after > 2*time.Second {
		t.Fatalf("room for %d, ask again after %v", n, after)
	}
	if n, _ := tr.state.Room(now.Add(after)); n != 1 {
		t.Errorf("when the next may go there is room for %d", n)
	}
	tr.deliver(now, false, policy.ClassSuccess) // of what is new
	if n, _ := tr.state.Room(now); n != Unlimited {
		t.Errorf("once something succeeds there is room for %d", n)
	}
}

func TestRefusedOnesWaitLongerAndLonger(t *testing.T) {
	tr := newTrial(t, policy.Policy{Breaker: policy.Breaker{Off: true}, Retry: policy.Retry{Backoff: backoff.Backoff{Kind: backoff.Exponential, Base: 10 * time.Millisecond, Cap: time.Minute}}})
	var last time.Duration
	for n := range 3000 {
		wait := tr.state.PutOffRefused(uint64(n))
		if wait < last || wait > longestRefused {
			t.Fatalf("the %d. waits %v, and the one before %v", n+1, wait, last)
		}
		last = wait
	}
	if last != longestRefused {
		t.Errorf("the last waits %v", last)
	}
	tr.deliver(0, true, policy.ClassSuccess)
	if wait := tr.state.PutOffRefused(1); wait != 10*time.Millisecond {
		t.Errorf("after a success it waits %v", wait)
	}
}
