package dashboard

import (
	"strings"
	"testing"
	"time"

	"github.com/gabion-go/gabion/policy"
)

func TestAPageSaysWhatTheAttemptTimeoutRestsOn(t *testing.T) {
	busy := policy.LatencyStats{P50: 20 * time.Millisecond, P99: 100 * time.Millisecond, P999: 234 * time.Millisecond, Samples: 12_000}
	at := func(b policy.TimeoutBasis) policy.TimeoutStats {
		return policy.TimeoutStats{Attempt: 250 * time.Millisecond, Percentile: 0.999, Basis: b, Samples: 900, Cut: 2, Needed: 1000}
	}
	for fact, c := range map[string]struct {
		v    vitals
		want string
	}{
		"fixed, and it fits": {vitals{policy: policy.Policy{Timeout: policy.Timeout{Attempt: time.Second}}, stats: policy.Stats{Latency: busy}}, ""},
		"fixed, and far above": {vitals{stats: policy.Stats{Latency: busy}},
			"p99.9 of the last 12000 attempts that were measured is 240ms, and timeout.attempt is 4s (the default): write attempt: p99.9, or 470ms"},
		"fixed, and far above, but calls fail": {vitals{stats: policy.Stats{Latency: busy, Totals: policy.Totals{Calls: 100, Succeeded: 95}}}, ""},
		"too few":                              {vitals{timeout: at(policy.TimeoutTooFew)}, "attempt timeout: 250 ms now, the upper bound: 900 of the 1000 latencies that p99.9 needs are known"},
		"measured":                             {vitals{timeout: at(policy.TimeoutMeasured)}, "attempt timeout: 250 ms now, measured: p99.9 of 902 attempts, 2 were cut off before"},
		"too many cut":                         {vitals{timeout: at(policy.TimeoutTooManyCut)}, "attempt timeout: 250 ms now, longer than measured: 2 were cut off, so p99.9 is not known"},
		"in series":                            {vitals{timeout: policy.TimeoutStats{Attempt: 3 * time.Second, Basis: policy.TimeoutStretched}}, "attempt timeout: 3 s now, since attempts were cut off in series, and those that may go on are answered"},
		"in vain":                              {vitals{timeout: at(policy.TimeoutHopeless)}, "attempt timeout: 250 ms now, since hardly any attempt succeeds that takes longer; one in 16 has the upper bound"},
	} {
		c.v.known = true
		if got := c.v.timeoutLevel(); got != c.want {
			t.Errorf("%s:\nsays  %s\nwants %s", fact, got, c.want)
		}
		if got := strings.Join(c.v.levels(), "\n"); !strings.Contains(got, c.want) {
			t.Errorf("%s: the page says %s", fact, got)
		}
	}
}
