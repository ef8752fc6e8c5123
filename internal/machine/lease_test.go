package machine

import (
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/policy"
)

const second = clock.Instant(time.Second)

func rated(rate policy.PerSecond, burst int) policy.Policy {
	return policy.Policy{
		Timeout: policy.Timeout{Call: time.Minute}, Breaker: policy.Breaker{Off: true}, Bulkhead: policy.Bulkhead{Off: true},
		RateLimit: policy.RateLimit{Rate: rate, Burst: burst},
	}
}

func turns(rate float64) Share { return Share{Limits: OfRate, Rate: rate} }

// sentWithin begins calls from then on, each as soon as the one before it was sent, and returns how many were sent in a time.
func sentWithin(s *State, from clock.Instant, lasts time.Duration) (sent int) {
	for now := from; ; {
		var c Call
		c.Begin(s, now, &Params{})
		step := c.Next(now)
		for step.Verb == Wait && step.Again < from.Add(lasts) {
			now = step.Again
			step = c.Next(now)
		}
		if step.Verb != Send {
			c.Cancel(now)
			return sent
		}
		sent++
		c.Settle(now, step.Ticket, policy.Outcome{Class: policy.ClassSuccess})
	}
}

func TestAShareIsWhatCallsGoBy(t *testing.T) {
	for _, c := range []struct {
		fact  string
		lease *Lease
		at    clock.Instant
		want  int // of ten seconds at 10/s
	}{
		{"without one the policy's rate holds", nil, 0, 101},
		{"a share is a part of it", &Lease{Until: 100 * second, Share: turns(2)}, 0, 21},
		{"one that is larger than the whole is the whole", &Lease{Until: 100 * second, Share: turns(50)}, 0, 101},
		{"zero is nothing", &Lease{Until: 100 * second, Share: turns(0)}, 0, 0},
		{"what is not shared stays whole", &Lease{Until: 100 * second, Share: Share{Rate: 1}}, 0, 101},
		{"once it has ended, what is declared for that holds", &Lease{Until: second, Share: turns(5), Lost: turns(1)}, second, 11},
		{"and it may end in between", &Lease{Until: 4*second + 1, Share: turns(5), Lost: turns(1)}, 0, 27},
		{"one that ends before it comes was never in force", &Lease{Until: -second, Share: turns(5), Lost: turns(1)}, 0, 11},
	} {
		t.Run(c.fact, func(t *testing.T) {
			s := NewState(0, rulesOf(t, rated(10, 1)), Setup{})
			Grant(s, 0, c.lease)
			if got := sentWithin(s, c.at, 10*time.Second); got < max(c.want-1, 0) || got > c.want {
				t.Errorf("%d calls are sent, want %d", got, c.want)
			}
		})
	}
}

// A turn of no rate would come in 36 years. A call that may wait for ever would not notice a later share.
func TestNoCallWaitsForATurnOfAShareThatHasNone(t *testing.T) {
	p := rated(10, 1)
	p.Timeout.Call = policy.Off
	s := NewState(0, rulesOf(t, p), Setup{})
	Grant(s, 0, &Lease{Until: 5 * second, Share: turns(0)})
	var c Call
	c.Begin(s, 0, &Params{})
	now, step := clock.Instant(0), c.Next(0)
	for step.Verb == Wait && step.Again < second {
		now = step.Again
		step = c.Next(now)
	}
	if end := c.End(); step.Verb != Return || end.Reason != policy.RateLimited || end.RetryAfter != 5*time.Second-time.Duration(now) {
		t.Errorf("at %v %+v, end %+v", now, step, end)
	}
}

// A process that was stopped for longer than its lease has a turn that it waited for. It is not its own any more.
func TestATurnOfALeaseThatHasEndedIsNotSpent(t *testing.T) {
	s := NewState(0, rulesOf(t, rated(10, 1)), Setup{})
	Grant(s, 0, &Lease{Until: 5 * second, Share: turns(1), Lost: turns(0)})
	var first, waits Call
	first.Begin(s, 0, &Params{})
	waits.Begin(s, 0, &Params{})
	if a, b := first.Next(0), waits.Next(0); a.Verb != Send || b.Verb != Wait || b.Again != second {
		t.Fatal(a, b)
	}
	if step := waits.Next(35 * second); step.Verb == Send {
		t.Error("it is sent 30 s after the lease has ended")
	}
}

// The same process, awake: the turn is as good as it was.
func TestATurnStaysGoodWhileTheRateIsTheSame(t *testing.T) {
	s := NewState(0, rulesOf(t, rated(10, 1)), Setup{})
	Grant(s, 0, &Lease{Until: 5 * second, Share: turns(1)})
	var first, waits Call
	first.Begin(s, 0, &Params{})
	waits.Begin(s, 0, &Params{})
	first.Next(0)
	waits.Next(0)
	Grant(s, second/2, &Lease{Until: 8 * second, Share: turns(1)})
	if step := waits.Next(second); step.Verb != Send {
		t.Errorf("it must %+v after a renewal of the same share", step)
	}
}

// Turns far ahead, at the old rate, would use what another process was given.
func TestThoseWhoWaitGoByTheNewRate(t *testing.T) {
	s := NewState(0, rulesOf(t, rated(10, 1)), Setup{})
	Grant(s, 0, &Lease{Until: 100 * second, Share: turns(10)})
	calls := make([]Call, 40)
	again := make([]clock.Instant, len(calls))
	for i := range calls {
		calls[i].Begin(s, 0, &Params{})
		again[i] = calls[i].Next(0).Again
	}
	Grant(s, 0, &Lease{Until: 100 * second, Share: turns(1)})
	sent := 1 // the first was sent
	for now := clock.Instant(0); now <= 4*second; now += second / 100 {
		for i := 1; i < len(calls); i++ {
			if again[i] > now {
				continue
			}
			switch step := calls[i].Next(now); step.Verb {
			case Wait:
				again[i] = step.Again
			case Send:
				sent++
				again[i] = clock.Never
			}
		}
	}
	if sent < 4 || sent > 5 {
		t.Errorf("%d of those that waited are sent in 4 s at one a second", sent)
	}
}

func TestSlotsOfAShare(t *testing.T) {
	p := policy.Policy{Breaker: policy.Breaker{Off: true}, Bulkhead: policy.Bulkhead{Limit: 10}}
	s := NewState(0, rulesOf(t, p), Setup{})
	Grant(s, 0, &Lease{Until: second, Share: Share{Limits: OfSlots, Slots: 3}, Lost: Share{Limits: OfSlots, Slots: 1}})
	check := func(now clock.Instant, limit, queue int) {
		t.Helper()
		if b := s.Stats(now).Bulkhead; b.Limit != limit || b.QueueLimit != queue {
			t.Errorf("at %s: %d slots and %d places, want %d and %d", time.Duration(now), b.Limit, b.QueueLimit, limit, queue)
		}
	}
	check(0, 3, 6)
	wide := p
	wide.Bulkhead.Limit = 20
	s.Reload(0, rulesOf(t, wide))
	check(0, 3, 6) // a reload keeps the share
	var c Call
	c.Begin(s, second, &Params{}) // notices that it has ended
	check(second, 1, 2)
	Grant(s, second, nil)
	check(second, 20, 40)
}

func TestTheFloorOfAShare(t *testing.T) {
	p := policy.Policy{Safe: true, Breaker: policy.Breaker{Off: true}, Retry: policy.Retry{Budget: policy.Budget{Reserve: 10, Start: 10}}}
	s := NewState(0, rulesOf(t, p), Setup{})
	Grant(s, 0, &Lease{Until: second, Share: Share{Limits: OfFloor, Floor: 0.2}, Lost: Share{Limits: OfFloor}})
	if got := s.Stats(0).Budget.Level; got != 2 {
		t.Errorf("a fifth of the reserve is %d re-sends, want 2", got)
	}
	if got := s.Stats(second).Budget.Level; got != 0 {
		t.Errorf("%d re-sends are left once the share has ended, want none", got)
	}
}

func TestQuotasOfAShare(t *testing.T) {
	p := policy.Policy{RateLimit: policy.RateLimit{Quotas: []policy.Quota{
		{Unit: "tokens", Amount: 100, Span: 100 * time.Second, Estimate: 1}, {Unit: "requests", Amount: 50, Span: time.Second},
	}}}
	s := NewState(0, rulesOf(t, p), Setup{})
	Grant(s, 0, &Lease{Until: second, Share: Share{Limits: OfQuotas, Quotas: []Part{{"tokens", 100 * time.Second, 0.1}}}})
	quotas := s.Stats(0).Main.Quotas
	if quotas[0].Left != 10 || !quotas[0].Shared || quotas[1].Left != 50 || quotas[1].Shared {
		t.Errorf("a tenth of one of the quotas is left: %+v", quotas)
	}
	var c Call
	c.Begin(s, 0, &Params{Partition: "another"}) // made under the share
	if one := s.Stats(0).Partitions[0].Quotas[0]; one.Left != 10 {
		t.Errorf("%+v", one)
	}
}

func TestARateWhereThePolicyHasNone(t *testing.T) {
	s := NewState(0, rulesOf(t, policy.Policy{}), Setup{})
	Grant(s, 0, &Lease{Until: 100 * second, Share: turns(2)})
	if got := sentWithin(s, 0, 10*time.Second); got < 20 || got > 21 {
		t.Errorf("%d calls are sent in 10 s at two a second", got)
	}
	Grant(s, 20*second, nil)
	if st := s.Stats(20 * second); st.RateLimit.On {
		t.Errorf("%+v without a share", st.RateLimit)
	}
}

func TestARefusalSaysThatTheLimitWasAShare(t *testing.T) {
	p := rated(10, 1)
	p.RateLimit.MaxWait = policy.Off
	s := NewState(0, rulesOf(t, p), Setup{})
	Grant(s, 0, &Lease{Until: 100 * second, Share: turns(1)})
	sentWithin(s, 0, 1)
	var c Call
	c.Begin(s, 1, &Params{})
	step := c.Next(1)
	for step.Verb == Wait {
		step = c.Next(step.Again)
	}
	if end := c.End(); end.Reason != policy.RateLimited || end.Numbers == nil || !end.Numbers.Shared {
		t.Errorf("it ends with %+v", c.End())
	}
}

func TestStatsSayWhichShareIsInForce(t *testing.T) {
	s := NewState(0, rulesOf(t, rated(10, 4)), Setup{})
	if s.Stats(0).Share.On {
		t.Error("no share is in force")
	}
	Grant(s, 0, &Lease{Until: second, Share: turns(5), Lost: turns(1)})
	if st := s.Stats(0); st.Share != (policy.ShareStats{On: true, Until: second, Rate: 5, RateOf: 10}) || st.RateLimit.Rate != 5 || st.RateLimit.Burst != 2 {
		t.Errorf("%+v, %+v", st.Share, st.RateLimit)
	}
	if st := s.Stats(second); st.Share != (policy.ShareStats{On: true, Lost: true, Until: second, Rate: 1, RateOf: 10}) || st.RateLimit.Burst != 1 {
		t.Errorf("%+v, %+v", st.Share, st.RateLimit)
	}
}

func TestACallUnderAShareAllocatesNothing(t *testing.T) {
	s := NewState(0, rulesOf(t, rated(1e6, 10)), Setup{})
	Grant(s, 0, &Lease{Until: clock.Never, Share: turns(1e5)})
	now := clock.Instant(0)
	var c Call
	if n := testing.AllocsPerRun(1000, func() {
		now += second
		c.Begin(s, now, &Params{})
		step := c.Next(now)
		c.Settle(now, step.Ticket, policy.Outcome{Class: policy.ClassSuccess})
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// A small share has a few turns at once, for calls that come unevenly, but no more than a second's, and no more
// than the policy's.
func TestASmallShareServesCallsThatComeUnevenly(t *testing.T) {
	for _, c := range []struct {
		fact  string
		rate  policy.PerSecond
		burst int
		share Share
		want  int
	}{
		{"a part of the policy's burst", 1000, 100, turns(500), 50},
		{"two at least", 1000, 100, turns(10), 2},
		{"not more than the policy's", 1000, 1, turns(10), 1},
		{"no more than a second's", 1000, 100, turns(1.5), 1},
		{"one, however small it is", 1000, 100, turns(0.1), 1},
		{"one, where the policy has no burst", 1000, 0, turns(100), 1},
		{"six, where others want more", 1000, 100, Share{Rate: 10, Sated: true}, 6},
		{"and no more than a second's", 1000, 100, Share{Rate: 3.5, Sated: true}, 3},
		{"nor than the policy's", 1000, 4, Share{Rate: 10, Sated: true}, 4},
	} {
		r := rulesOf(t, rated(c.rate, c.burst))
		if got := r.partOfRate(&c.share).Burst; got != c.want {
			t.Errorf("%s: %d at once, want %d", c.fact, got, c.want)
		}
	}
}

// A call that begins in the moment of a reload must not begin by the share that has ended.
func TestAPlainCallBeginsByNoShareThatHasEnded(t *testing.T) {
	p := rated(10, 5)
	throttled := p
	throttled.Throttle = policy.Throttle{K: 2}
	for name, meanwhile := range map[string]func(*State){
		"as a rule":                         func(*State) {},
		"and another call has noticed it":   func(s *State) { current(s, second) },
		"and another policy is not plain":   func(s *State) { s.Reload(second, rulesOf(t, throttled)) },
		"and the next share has ended, too": func(s *State) { Grant(s, second, &Lease{Until: second, Lost: turns(0)}) },
	} {
		s := NewState(0, rulesOf(t, p), Setup{})
		Grant(s, 0, &Lease{Until: second, Share: turns(5), Lost: turns(0)})
		r := s.Rules()
		if !r.Short() {
			t.Fatal("a call under a share is not plain")
		}
		meanwhile(s)
		var c Short
		var ticket Ticket
		if BeginShort(&c, s, r, second, 0, 0); SendShort(&c, &ticket) {
			t.Errorf("%s: it is sent, and the share has no turn left", name)
		}
		var whole Call
		Resume(&whole, &c, &Params{}, false)
		whole.SetWaker(bell{0, new([]int)})
		step := whole.Next(second)
		for step.Verb == Wait && step.Again < 2*second {
			step = whole.Next(step.Again)
		}
		if step.Verb != Return || whole.End().Reason != policy.RateLimited {
			t.Errorf("%s: %+v, %+v", name, step, whole.End())
		}
	}
}
