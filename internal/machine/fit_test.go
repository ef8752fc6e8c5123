package machine_test

import (
	"testing"
	"time"

	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/internal/machine"
	"github.com/gabion-go/gabion/policy"
)

// SPEC C4: no attempt is started that measured latency says cannot finish.
func TestARetryThatMeasuredLatencySaysCannotFinishIsNotMade(t *testing.T) {
	for _, c := range []struct {
		fact string
		fit  policy.Ratio
		want policy.Reason
	}{
		{"with the margin alone it is sent", 0, policy.None},
		{"with half of all attempts taking longer it is not", 0.5, policy.DeadlineShort},
	} {
		t.Run(c.fact, func(t *testing.T) {
			s := newState(t, policy.Policy{
				Safe: true, Timeout: policy.Timeout{Call: 10 * time.Second, Fit: c.fit},
				Retry: policy.Retry{Backoff: backoff.Full(50*time.Millisecond, time.Second)},
			})
			now := clock.Instant(0)
			for range 100 {
				now = oneCall(s, now, 200*time.Millisecond, clock.Never)
			}
			var call machine.Call
			call.Begin(s, now, &machine.Params{Deadline: now.Add(180 * time.Millisecond), Waker: deaf{}})
			first := call.Next(now)
			call.Settle(now, first.Ticket, policy.Outcome{Class: policy.ClassNetwork})
			step := call.Next(now)
			if got := call.End().Reason; got != c.want {
				t.Errorf("after a failure with 180 ms left the call says %v, %s; want %s", step.Verb, got, c.want)
			}
		})
	}
}

// oneCall makes a call that succeeds after that long, and returns when it ended.
func oneCall(s *machine.State, now clock.Instant, takes time.Duration, deadline clock.Instant) clock.Instant {
	var c machine.Call
	c.Begin(s, now, &machine.Params{Deadline: deadline, Waker: deaf{}})
	t := c.Next(now).Ticket
	now = now.Add(takes)
	c.Settle(now, t, policy.Outcome{Class: policy.ClassSuccess})
	c.Next(now)
	return now
}
