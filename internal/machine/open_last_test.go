package machine

import (
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/policy"
)

// That an attempt which nothing can follow has the time of the call is about how soon its
// answer begins. A stream that follows the answer must not have a slot for as long.
func TestAnOpenResultOfALastAttemptKeepsItsSlotForAnAttemptsTime(t *testing.T) {
	for _, c := range []struct {
		fact     string
		answered time.Duration
		change   func(*policy.Policy)
		want     time.Duration
	}{
		{"answered in time", 200 * time.Millisecond, nil, 1200 * time.Millisecond},
		{"answered later than an attempt's time", 4 * time.Second, nil, 5 * time.Second},
		{"never for longer than the attempt had", 9900 * time.Millisecond, nil, 10 * time.Second},
		{"with the time of the call", time.Second, func(p *policy.Policy) { p.Timeout.Last = policy.Off }, 2 * time.Second},
		{"an attempt that could be followed", 200 * time.Millisecond, func(p *policy.Policy) { p.Timeout.Last = p.Timeout.Attempt }, time.Second},
	} {
		t.Run(c.fact, func(t *testing.T) {
			s := NewState(0, lasting(t, c.change), Setup{})
			var call Call
			call.Begin(s, 0, &Params{})
			_, ticket := had(t, &call, 0)
			now := clock.Instant(c.answered)
			call.SettleFrom(now, ticket, &policy.Outcome{Class: policy.ClassSuccess, Open: true})
			if got := call.Limits(now, ticket).Slot; got != clock.Instant(c.want) {
				t.Errorf("it has its slot until %v, want %v", time.Duration(got), c.want)
			}
		})
	}
}
