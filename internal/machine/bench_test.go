package machine_test

import (
	"testing"

	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/internal/machine"
	"github.com/gabion-go/gabion/policy"
)

type deaf struct{}

func (deaf) Wake() {}

func newState(b testing.TB, p policy.Policy) *machine.State {
	r, err := machine.Compile(p)
	if err != nil {
		b.Fatal(err)
	}
	return machine.NewState(0, r, machine.Setup{Shards: 4, Seed: 1})
}

func BenchmarkCallSuccess(b *testing.B) {
	s := newState(b, policy.Policy{})
	params := machine.Params{Waker: deaf{}, Safe: true}
	now := clock.Instant(0)
	b.ReportAllocs()
	for b.Loop() {
		var c machine.Call
		c.Begin(s, now, &params)
		step := c.Next(now)
		now += 10
		c.Settle(now, step.Ticket, policy.Outcome{Class: policy.ClassSuccess})
		if c.Next(now).Verb != machine.Return || c.End().Reason != policy.None {
			b.Fatal("not a success")
		}
	}
}
