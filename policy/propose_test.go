package policy

import (
	"testing"
	"time"
)

func TestATimeoutThatIsOffIsSaidToBe(t *testing.T) {
	const s, ms = time.Second, time.Millisecond
	busy := LatencyStats{P50: 20 * ms, P95: 60 * ms, P99: 100 * ms, P999: 234 * ms, Samples: 12_000}
	for fact, c := range map[string]struct {
		t       Timeout
		l       LatencyStats
		attempt time.Duration
		want    string
	}{
		"far above": {Timeout{}, busy, 470 * ms,
			"p99.9 of the last 12000 attempts that were measured is 240ms, and timeout.attempt is 4s (the default): write attempt: p99.9, or 470ms"},
		"far above, and 999 are too few to shorten it": {Timeout{Attempt: 10 * s, Call: 20 * s}, LatencyStats{P50: 20 * ms, P99: 100 * ms, Samples: 999}, 0, ""},
		"off, and 999 are too few to write one":        {Timeout{Attempt: Off}, LatencyStats{P50: 20 * ms, P99: 100 * ms, Samples: 999}, 0, ""},
		"close, and 200 are enough to lengthen it": {Timeout{Attempt: 110 * ms}, LatencyStats{P50: 20 * ms, P99: 100 * ms, Samples: 200}, 220 * ms,
			"p99 of the last 200 attempts that were measured is 100ms, close to timeout.attempt, 110ms, which cuts off what takes longer: write 220ms"},
		"off": {Timeout{Attempt: Off}, busy, 470 * ms,
			"p99.9 of the last 12000 attempts that were measured is 240ms, and timeout.attempt is off: write 470ms"},
		"close": {Timeout{Attempt: 250 * ms}, busy, 500 * ms,
			"p99.9 of the last 12000 attempts that were measured is 240ms, close to timeout.attempt, 250ms, which cuts off what takes longer: write 500ms"},
		"fast":              {Timeout{Attempt: s}, LatencyStats{P50: ms, P99: 2 * ms, P999: 3 * ms, Samples: 5000}, 50 * ms, "p99.9 of the last 5000 attempts that were measured is 3ms, and timeout.attempt is 1s: write attempt: p99.9, or 50ms"},
		"it fits":           {Timeout{Attempt: s}, busy, 0, ""},
		"too few are known": {Timeout{}, LatencyStats{P50: ms, P99: ms, Samples: 99}, 0, ""},
		"nothing is known":  {Timeout{}, LatencyStats{}, 0, ""},
		"it is measured":    {Timeout{Percentile: 0.99}, busy, 0, ""},
	} {
		got, off := (Policy{Timeout: c.t}).ProposeAttempt(c.l)
		if off != (c.want != "") || got.Reason != c.want || got.Attempt != c.attempt {
			t.Errorf("%s: proposes %v: %s\nwant %v: %s", fact, got.Attempt, got.Reason, c.attempt, c.want)
		}
	}
}

// What is proposed can be written, and is not proposed again.
func TestWhatIsProposedFits(t *testing.T) {
	for _, l := range []LatencyStats{
		{P50: time.Millisecond, P99: 2 * time.Millisecond, P999: 5 * time.Millisecond, Samples: 1000},
		{P50: 300 * time.Millisecond, P99: 301 * time.Millisecond, P999: 302 * time.Millisecond, Samples: 1000},
		{P50: time.Second, P99: 3 * time.Second, P999: 3900 * time.Millisecond, Samples: 1000},
		{P50: 10 * time.Millisecond, P99: 350 * time.Millisecond, Samples: 100},
	} {
		for _, attempt := range []time.Duration{0, 300 * time.Millisecond, 2 * time.Second, 7 * time.Second} {
			p := Policy{Timeout: Timeout{Attempt: attempt, Call: time.Minute}, Breaker: Breaker{Off: true}}
			for range 10 {
				got, off := p.ProposeAttempt(l)
				if !off {
					break
				}
				p.Timeout.Attempt = got.Attempt
				if err := p.Validate(); err != nil {
					t.Fatalf("%+v: %v", l, err)
				}
			}
			if got, off := p.ProposeAttempt(l); off {
				t.Errorf("%+v with %v: proposes without end: %s", l, attempt, got.Reason)
			}
		}
	}
}

func TestTheLongestTimeoutOfPartitionsIsTheDependencys(t *testing.T) {
	one := func(d time.Duration, n int64) PartitionStats {
		return PartitionStats{Timeout: TimeoutStats{Attempt: d, Samples: n}}
	}
	for _, c := range []struct {
		s    Stats
		want time.Duration
	}{
		{Stats{Main: one(4, 0)}, 4},
		{Stats{Main: one(4, 0), Partitions: []PartitionStats{one(1, 9), one(2, 9)}}, 2},
		{Stats{Main: one(4, 9), Partitions: []PartitionStats{one(1, 9)}}, 4},
	} {
		if got := c.s.AttemptTimeout(); got.Attempt != c.want {
			t.Errorf("%v, want %v", got.Attempt, c.want)
		}
	}
}
