package dashboard

import (
	"strings"
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/terms"
	"github.com/gabion-go/gabion/policy"
)

func TestAPageSaysWhatTheAttemptTimeoutRestsOn(t *testing.T) {
	var took evidence
	took.took.Add(20*time.Millisecond, 11_880)
	took.took.Add(234*time.Millisecond, 120)
	long := policy.Policy{Timeout: policy.Timeout{Attempt: 14 * time.Second}}
	at := func(b string) policy.TimeoutStats {
		return policy.TimeoutStats{Attempt: 250 * time.Millisecond, Percentile: 0.999, Basis: b, Samples: 900, Cut: 2, Needed: 1000}
	}
	for fact, c := range map[string]struct {
		v    vitals
		want string
	}{
		"fixed, and it fits": {vitals{}, ""},
		"fixed, and far above": {vitals{policy: long},
			"p99.9 of 12000 attempts is between 100ms and 250ms (95 %), and timeout.attempt is 14s: write 7.5s"},
		"fixed, and far above, but calls fail": {vitals{policy: long, stats: policy.Stats{Totals: policy.Totals{Calls: 100, Succeeded: 95}}}, ""},
		"too few":                              {vitals{timeout: at(terms.TimeoutTooFew)}, "attempt timeout: 250 ms now, the upper bound: 900 of the 1000 latencies that p99.9 needs are known"},
		"measured":                             {vitals{timeout: at(terms.TimeoutMeasured)}, "attempt timeout: 250 ms now, measured: p99.9 of 902 attempts, 2 were cut off before"},
		"too many cut":                         {vitals{timeout: at(terms.TimeoutTooManyCut)}, "attempt timeout: 250 ms now, longer than measured: 2 were cut off, so p99.9 is not known"},
		"in series":                            {vitals{timeout: policy.TimeoutStats{Attempt: 3 * time.Second, Basis: terms.TimeoutStretched}}, "attempt timeout: 3 s now, since attempts were cut off in series, and those that may go on are answered"},
		"in vain":                              {vitals{timeout: at(terms.TimeoutHopeless)}, "attempt timeout: 250 ms now, since hardly any attempt succeeds that takes longer; one in 16 has the upper bound"},
	} {
		c.v.known = true
		if got := c.v.timeoutLevel(&took); got != c.want {
			t.Errorf("%s:\nsays  %s\nwants %s", fact, got, c.want)
		}
		if got := strings.Join(c.v.levels(&took), "\n"); !strings.Contains(got, c.want) {
			t.Errorf("%s: the page says %s", fact, got)
		}
	}
}
