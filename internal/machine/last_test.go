package machine

import (
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/policy"
)

// lasting is a policy whose attempts have a second, and ten where nothing can follow.
func lasting(t *testing.T, change func(*policy.Policy)) *Rules {
	t.Helper()
	p := policy.Policy{Timeout: policy.Timeout{Call: 20 * time.Second, Attempt: time.Second, Last: 10 * time.Second}}
	if change != nil {
		change(&p)
	}
	r, err := Compile(p)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// had sends the next attempt of a call at now and returns how much time it has.
func had(t *testing.T, c *Call, now clock.Instant) (time.Duration, *Ticket) {
	t.Helper()
	step := c.Next(now)
	for step.Verb == Wait {
		now = step.Again
		step = c.Next(now)
	}
	if step.Verb != Send {
		t.Fatalf("at %v: %v, want an attempt", now, step.Verb)
	}
	return step.Ticket.Deadline.Sub(step.Ticket.Sent), &step.Ticket
}

func TestAnAttemptThatNothingCanFollowHasMoreTime(t *testing.T) {
	const short, long = time.Second, 10 * time.Second
	for _, c := range []struct {
		fact   string
		change func(*policy.Policy)
		params Params
		want   []time.Duration // of the attempts, each of which fails at its end
	}{
		{"the last of its attempts", nil, Params{Safe: true}, []time.Duration{short, long}}, // the budget has one re-send
		{"work that is not safe to repeat", nil, Params{}, []time.Duration{long}},
		{"a call without retries", nil, Params{Safe: true, NoRetry: true}, []time.Duration{long}},
		{"a policy without retries", func(p *policy.Policy) { p.Retry.Attempts = 1 }, Params{Safe: true}, []time.Duration{long}},
		{"a call too short for another attempt", nil, Params{Safe: true, Deadline: clock.Instant(1020 * time.Millisecond)}, []time.Duration{1020 * time.Millisecond}},
		{"without a budget only attempts count", func(p *policy.Policy) { p.Retry.Budget.Off = true }, Params{Safe: true}, []time.Duration{short, short, long}},
		{"off: the call's deadline", func(p *policy.Policy) { p.Timeout.Last = policy.Off }, Params{}, []time.Duration{20 * time.Second}},
		{"not written: the attempt's time, where that is", func(p *policy.Policy) { p.Timeout.Last = 0 }, Params{}, []time.Duration{short}},
		{"nothing written: the call's time", func(p *policy.Policy) { p.Timeout = policy.Timeout{} }, Params{}, []time.Duration{15 * time.Second}},
		{"only a percentile written, and nothing measured: the call's time", func(p *policy.Policy) { p.Timeout = policy.Timeout{Percentile: .999} }, Params{}, []time.Duration{15 * time.Second}},
	} {
		t.Run(c.fact, func(t *testing.T) {
			s := NewState(0, lasting(t, c.change), Setup{})
			var call Call
			call.Begin(s, 0, &c.params)
			now := clock.Instant(0)
			for i, want := range c.want {
				got, ticket := had(t, &call, now)
				if got != want {
					t.Fatalf("attempt %d has %v, want %v", i+1, got, want)
				}
				now = ticket.Deadline
				call.Settle(now, *ticket, policy.Outcome{Class: policy.ClassTimeout, Effect: policy.UnknownEffect})
			}
		})
	}
}

// While the budget has no whole re-send attempts have more time, and once it has one again
// they have their own.
func TestAnEmptyBudgetGivesAttemptsMoreTime(t *testing.T) {
	for _, c := range []struct {
		fact   string
		budget policy.Budget
		good   int // successes until there is a whole re-send again
	}{
		{"earned", policy.Budget{Ratio: .25}, 4},
		{"a window", policy.Budget{Shape: policy.BudgetWindow, Window: 10 * time.Second, Ratio: .25, Floor: .1}, 2},
		{"a bucket", policy.Budget{Shape: policy.BudgetTokens, Capacity: 1, Ratio: .25}, 4},
		{"a quota", policy.Budget{Shape: policy.BudgetQuota, Capacity: 10, Cost: 10, ThrottledCost: 10, TimeoutCost: 10}, 10},
	} {
		t.Run(c.fact, func(t *testing.T) {
			s := NewState(0, lasting(t, func(p *policy.Policy) { p.Retry.Budget = c.budget }), Setup{})
			now := clock.Instant(0)
			send := func() (*Call, time.Duration, *Ticket) {
				call := new(Call)
				call.Begin(s, now, &Params{Safe: true})
				d, ticket := had(t, call, now)
				return call, d, ticket
			}
			call, d, ticket := send()
			if d != time.Second {
				t.Fatalf("with a full budget the first attempt has %v", d)
			}
			now = ticket.Deadline
			call.Settle(now, *ticket, policy.Outcome{Class: policy.ClassTimeout})
			if _, ticket = had(t, call, now); ticket.Attempt != 2 {
				t.Fatal("the budget paid for no retry")
			}
			now = ticket.Sent.Add(time.Millisecond)
			call.Settle(now, *ticket, policy.Outcome{Class: policy.ClassNetwork})
			for range c.good {
				call, d, ticket := send()
				if d != 10*time.Second {
					t.Fatalf("with an empty budget an attempt has %v", d)
				}
				call.Settle(now, *ticket, policy.Outcome{Class: policy.ClassSuccess})
			}
			if _, d, _ := send(); d != time.Second {
				t.Errorf("with a whole re-send again an attempt has %v", d)
			}
		})
	}
}

// One re-send is there for a process that has begun. While nothing was ever answered, one attempt at a time is cut off for it.
func TestOnlyOneAttemptIsCutOffForTheReSendOfANewProcess(t *testing.T) {
	const short, long = time.Second, 10 * time.Second
	for _, c := range []struct {
		fact   string
		change func(*policy.Policy)
		before policy.Class
		want   []time.Duration // of attempts that are out together
	}{
		{"nothing was ever answered", nil, policy.ClassServer, []time.Duration{short, long, long}},
		{"a call was answered", nil, policy.ClassSuccess, []time.Duration{short, short, short}},
		{"it is not known how many are out", func(p *policy.Policy) { p.Bulkhead.Off = true }, policy.ClassServer, []time.Duration{short, short, short}},
		{"retries are not rationed", func(p *policy.Policy) { p.Retry.Budget.Off = true }, policy.ClassServer, []time.Duration{short, short, short}},
		{"what a new process has is bounded by a window", func(p *policy.Policy) { p.Retry.Budget.Shape = policy.BudgetWindow }, policy.ClassServer, []time.Duration{short, short, short}},
	} {
		t.Run(c.fact, func(t *testing.T) {
			s := NewState(0, lasting(t, c.change), Setup{})
			var first Call
			first.Begin(s, 0, &Params{Safe: true, NoRetry: true})
			_, ticket := had(t, &first, 0)
			first.Settle(1, *ticket, policy.Outcome{Class: c.before})
			first.Next(1)
			for i, want := range c.want {
				call := new(Call)
				call.Begin(s, 2, &Params{Safe: true})
				if got, _ := had(t, call, 2); got != want {
					t.Errorf("attempt %d has %v, want %v", i+1, got, want)
				}
			}
		})
	}
}

// A success that came after the time of an attempt earns nothing: the dependency is as slow
// as that because it has too much to do.
func TestALateSuccessEarnsNothing(t *testing.T) {
	for _, c := range []struct {
		fact string
		took time.Duration
		want int64
	}{
		{"in time", time.Second, 750_000},
		{"late", time.Second + 1, 500_000},
	} {
		t.Run(c.fact, func(t *testing.T) {
			s := NewState(0, lasting(t, func(p *policy.Policy) { p.Retry.Budget = policy.Budget{Ratio: .25, Start: .5, Reserve: 5} }), Setup{})
			var call Call
			call.Begin(s, 0, &Params{})
			_, ticket := had(t, &call, 0)
			now := clock.Instant(c.took)
			call.Settle(now, *ticket, policy.Outcome{Class: policy.ClassSuccess})
			if got := s.earned.Level(now, &s.rules.Load().earned); got != c.want {
				t.Errorf("the budget has %d millionths, want %d", got, c.want)
			}
		})
	}
}

// Others wait for what a probe brings, so it has the time of an attempt.
func TestAProbeHasNoMoreTime(t *testing.T) {
	s := NewState(0, lasting(t, nil), Setup{})
	s.main.breaker.Load().By("").Trip(0)
	now := clock.Instant(time.Minute)
	var call Call
	call.Begin(s, now, &Params{})
	if d, _ := had(t, &call, now); d != time.Second {
		t.Errorf("a probe has %v", d)
	}
}

func TestEventsSayThatNothingCouldFollow(t *testing.T) {
	s := NewState(0, lasting(t, nil), Setup{})
	var call Call
	var log Log
	call.Begin(s, 0, &Params{Log: &log})
	_, ticket := had(t, &call, 0)
	call.Settle(ticket.Deadline, *ticket, policy.Outcome{Class: policy.ClassTimeout})
	call.Next(ticket.Deadline)
	var told int
	for _, e := range log.Drain() {
		if e.Kind == policy.KindAttemptSent || e.Kind == policy.KindAttemptSettled {
			if told++; !e.Last {
				t.Errorf("%v does not say so", e.Kind)
			}
		}
	}
	if told != 2 {
		t.Errorf("%d events of the attempt", told)
	}
}
