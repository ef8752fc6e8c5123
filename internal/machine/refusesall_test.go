package machine

import (
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/chance"
	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/policy"
)

// twenty is a load of 20 calls a second.
func twenty(lasts time.Duration, seed uint64, fails func(clock.Instant, float64) policy.Class) load {
	return load{every: 50 * time.Millisecond, lasts: lasts, fails: fails, seed: seed}
}

// refusing is a dependency that answers all attempts of that time as if too many had come.
func refusing(from, to clock.Instant) func(clock.Instant, float64) policy.Class {
	return func(at clock.Instant, _ float64) policy.Class {
		if at >= from && at < to {
			return policy.ClassThrottled
		}
		return policy.ClassSuccess
	}
}

// quotaOf is a dependency that takes so many calls a second, and refuses the others.
func quotaOf(rate float64) func(clock.Instant, float64) policy.Class {
	tokens, filled := 1.0, clock.Instant(0)
	return func(at clock.Instant, _ float64) policy.Class {
		tokens, filled = min(tokens+rate*at.Sub(filled).Seconds(), rate/4), at
		if tokens < 1 {
			return policy.ClassThrottled
		}
		tokens--
		return policy.ClassSuccess
	}
}

func TestWhoRefusesAllIsOutOfOrder(t *testing.T) {
	t.Run("an outage of three seconds loses no call", func(t *testing.T) {
		for seed := range uint64(5) {
			tr := newTrial(t, policy.Policy{})
			tr.state.draws.Store(chance.Bits(seed, 0, 0, 0) | 1)
			if r := twenty(8*time.Second, seed, refusing(2*sec, 5*sec)).play(tr); r.lost > 3 || r.waited == 0 {
				t.Errorf("seed %d: %+v", seed, r)
			}
		}
	})
	t.Run("calls are served as soon as it is back", func(t *testing.T) {
		once := policy.Policy{Retry: policy.Retry{Attempts: 1}}
		if r := twenty(8*time.Second, 1, refusing(2*sec, 5*sec)).play(newTrial(t, once)); r.lost > 62 { // there are 60 in these three seconds
			t.Errorf("%+v", r)
		}
	})
	t.Run("the breaker opens in a long one", func(t *testing.T) {
		once := policy.Policy{Retry: policy.Retry{Attempts: 1}}
		if r := twenty(time.Minute, 1, refusing(10*sec, 60*sec)).play(newTrial(t, once)); r.sent > 600 {
			t.Errorf("%+v: 200 calls came before, and 1,000 in it", r)
		}
	})
	t.Run("before one that never worked calls are spaced", func(t *testing.T) {
		once := policy.Policy{Retry: policy.Retry{Attempts: 1}}
		if r := twenty(4*time.Second, 1, refusing(0, 5*sec)).play(newTrial(t, once)); r.lost > 70 { // calls wait, and some until it is back
			t.Errorf("%+v", r)
		}
	})
	t.Run("one that names a time is left alone", func(t *testing.T) {
		tr := newTrial(t, policy.Policy{Retry: policy.Retry{Attempts: 1}})
		tr.call(0, ms, policy.ClassSuccess)
		var calls [5]*Call
		var tickets [5]Ticket
		for i := range calls {
			calls[i], tickets[i] = tr.begin(2 * ms)
		}
		for i, c := range calls {
			c.Settle(3*ms, tickets[i], policy.Outcome{Class: policy.ClassThrottled, HasAfter: true, After: time.Second})
		}
		if p := tr.state.main.pacer.Load(); !p.active.Load() || p.allRefused() {
			t.Error("calls are not spaced")
		}
	})
}

func TestAQuotaIsNoOutage(t *testing.T) {
	for _, c := range []struct {
		rate       float64
		lost, sent int // of 400 calls
	}{{5, 320, 200}, {10, 200, 380}, {15, 100, 460}} {
		if r := twenty(20*time.Second, 1, quotaOf(c.rate)).play(newTrial(t, policy.Policy{})); r.lost > c.lost || r.sent > c.sent {
			t.Errorf("%v a second: %+v", c.rate, r)
		}
	}
}
