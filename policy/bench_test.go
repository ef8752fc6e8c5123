package policy_test

import (
	"testing"

	"github.com/gabion-go/gabion/clock"
	"github.com/gabion-go/gabion/policy"
)

type deaf struct{}

func (deaf) Wake() {}

func newState(b testing.TB, p policy.Policy) *policy.State {
	r, err := policy.Compile(p)
	if err != nil {
		b.Fatal(err)
	}
	return policy.NewState(0, r, policy.Setup{Shards: 4, Seed: 1})
}

func BenchmarkCallSuccess(b *testing.B) {
	s := newState(b, policy.Policy{})
	params := policy.Params{Waker: deaf{}, Safe: true}
	now := clock.Instant(0)
	b.ReportAllocs()
	for b.Loop() {
		var c policy.Call
		c.Begin(s, now, &params)
		step := c.Next(now)
		now += 10
		c.Settle(now, step.Ticket, policy.Outcome{})
		if c.Next(now).Verb != policy.Return || c.Verdict().Reason != policy.None {
			b.Fatal("not a success")
		}
	}
}
