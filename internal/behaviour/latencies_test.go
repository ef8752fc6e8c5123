package behaviour

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/policy"
)

func TestStatsKnowHowLongAttemptsTake(t *testing.T) {
	ms := time.Millisecond
	lasting := func(d time.Duration) func(context.Context) error {
		return func(context.Context) error { time.Sleep(d); return nil }
	}
	usual := func(t *testing.T, d *gabion.Dependency, i int) {
		took := 10 * ms
		switch {
		case i%100 >= 98:
			took = 900 * ms
		case i%20 >= 18:
			took = 200 * ms
		}
		d.Run(t.Context(), lasting(took))
	}
	want := [3]time.Duration{10 * ms, 200 * ms, 900 * ms}
	for _, c := range []struct {
		fact    string
		policy  policy.Policy
		calls   int
		play    func(t *testing.T, d *gabion.Dependency, i int)
		least   int64 // samples
		percent [3]time.Duration
	}{
		{"nothing is known before the first", policy.Policy{}, 0, nil, 0, [3]time.Duration{}},
		{"one tells all", policy.Policy{}, 1, usual, 1, [3]time.Duration{10 * ms, 10 * ms, 10 * ms}},
		{"the percentiles of the default policy", policy.Policy{}, 400, usual, 400, want},
		{"where the policy measures, all are in", policy.Policy{Timeout: policy.Timeout{Fit: 0.5}}, 400, usual, 400, want},
		{"those of all partitions", policy.Policy{Timeout: policy.Timeout{Fit: 0.5}}, 10, func(t *testing.T, d *gabion.Dependency, i int) {
			d.Run(t.Context(), lasting(10*ms), gabion.WithPartition(string(rune('a'+i))))
		}, 10, [3]time.Duration{10 * ms, 10 * ms, 10 * ms}},
		{"failures are not in", policy.Policy{}, 10, func(t *testing.T, d *gabion.Dependency, i int) {
			d.Run(t.Context(), func(context.Context) error { time.Sleep(time.Second); return errDown })
		}, 0, [3]time.Duration{}},
		{"a hedge is not in, and the first counts until it is given up", policy.Policy{Safe: true, Hedge: policy.Hedge{Max: 1, Delay: 100 * ms}}, 1,
			func(t *testing.T, d *gabion.Dependency, i int) {
				var n atomic.Int64
				gabion.Do(t.Context(), d, func(ctx context.Context) (int, error) {
					if n.Add(1) > 1 {
						time.Sleep(10 * ms)
						return 0, nil
					}
					<-ctx.Done()
					return 0, ctx.Err()
				})
				time.Sleep(time.Second)
			}, 1, [3]time.Duration{110 * ms, 110 * ms, 110 * ms}},
	} {
		t.Run(c.fact, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := gabion.New("db", c.policy)
				for i := range c.calls {
					c.play(t, d, i)
				}
				l := d.Stats().Latency
				if l.Samples != c.least {
					t.Errorf("%d samples, want %d", l.Samples, c.least)
				}
				for i, got := range [3]time.Duration{l.P50, l.P95, l.P99} {
					if diff := (got - c.percent[i]).Abs(); diff > c.percent[i]/50 {
						t.Errorf("percentile %d: %s, want %s", i, got, c.percent[i])
					}
				}
				time.Sleep(2 * time.Minute)
				if l := d.Stats().Latency; l.Samples != 0 || l.P99 != 0 {
					t.Errorf("two minutes later: %+v", l)
				}
			})
		})
	}
}

// Where calls are many, one in eight is timed, and the percentiles stay what they are.
func TestManyAttemptsAreSampled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := gabion.New("db", policy.Policy{})
		const calls = 20_000
		for i := range calls {
			took := 100 * time.Microsecond
			if i%10 == 9 {
				took = time.Millisecond
			}
			d.Run(t.Context(), func(context.Context) error { time.Sleep(took); return nil })
		}
		l := d.Stats().Latency
		if l.Samples < calls/8 || l.Samples > calls/2 {
			t.Errorf("%d of %d are sampled", l.Samples, calls)
		}
		if l.P50.Round(10*time.Microsecond) != 100*time.Microsecond || l.P95.Round(100*time.Microsecond) != time.Millisecond {
			t.Errorf("%+v", l)
		}
	})
}

func TestStatsShowThrottleAndRateLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		both := policy.Policy{
			Throttle:  policy.Throttle{K: 2, Window: time.Minute},
			RateLimit: policy.RateLimit{Rate: 10, Burst: 2, MaxWait: time.Second},
			Retry:     policy.Retry{Attempts: 1}, Breaker: policy.Breaker{Off: true},
		}
		d := gabion.New("db", both)
		s := d.Stats()
		if want := (policy.RateLimitStats{On: true, Rate: 10, Burst: 2}); s.RateLimit != want {
			t.Errorf("before the first call: %+v", s.RateLimit)
		}
		if s.Throttle != (policy.ThrottleStats{On: true}) {
			t.Errorf("before the first call: %+v", s.Throttle)
		}
		for range 5 { // two at once, the others wait 100 ms each
			go d.Run(t.Context(), works)
			synctest.Wait() // else the throttle may see several requests before the first success
		}
		if r := d.Stats().RateLimit; r.Ahead != 3 || r.Next != 400*time.Millisecond {
			t.Errorf("three wait: %+v", r)
		}
		time.Sleep(10 * time.Second)
		if s = d.Stats(); s.Throttle.Requests != 5 || s.Throttle.Accepts != 5 || s.Throttle.Refuses != 0 {
			t.Errorf("five succeeded: %+v", s.Throttle)
		}
		for range 10 {
			d.Run(t.Context(), fails(errDown))
		}
		if s := d.Stats().Throttle; s.Requests != 15 || s.Accepts != 5 || s.Refuses != policy.Ratio(5.0/16) {
			t.Errorf("then ten failed: %+v", s)
		}
		time.Sleep(time.Second)
		if s = d.Stats(); s.RateLimit.Ahead != 0 || s.RateLimit.Next != 0 {
			t.Errorf("at rest: %+v", s.RateLimit)
		}
		reload(t, d, policy.Policy{})
		if s = d.Stats(); s.Throttle != (policy.ThrottleStats{}) || s.RateLimit != (policy.RateLimitStats{}) {
			t.Errorf("without both: %+v %+v", s.Throttle, s.RateLimit)
		}
	})
}
