package machine

import (
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/policy"
)

// The bound is against first attempts that were sent: a call that a layer refused is
// no load, and pays for nobody's re-send.
func TestRefusedCallsPayNothingIntoTheBudget(t *testing.T) {
	full := policy.Bulkhead{Limit: 1, Queue: policy.Off}
	for name, c := range map[string]struct {
		p    policy.Policy
		want int64
	}{
		"sent":                {policy.Policy{Bulkhead: policy.Bulkhead{Off: true}}, 101},
		"refused by bulkhead": {policy.Policy{Bulkhead: full}, 1},
		"refused by rate":     {policy.Policy{Bulkhead: policy.Bulkhead{Off: true}, RateLimit: policy.RateLimit{Rate: 1, MaxWait: policy.Off}}, 1},
		"refused per call":    {policy.Policy{Bulkhead: policy.Bulkhead{Limit: 1, Queue: policy.Off, Per: policy.PerCall}}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			c.p.Retry.Budget.Shape = policy.BudgetWindow
			r, err := Compile(c.p)
			if err != nil {
				t.Fatal(err)
			}
			s := NewState(0, r, Setup{})
			now := clock.Instant(time.Second)
			for range 101 {
				var call Call
				call.Begin(s, now, &Params{})
				for range 3 { // a refusal by the rate limit is asked for twice
					if step := call.Next(now); step.Verb != Wait {
						break
					}
					now++
				}
			}
			if calls, _ := s.window().Counts(now); calls != c.want {
				t.Errorf("%d calls paid in, want %d", calls, c.want)
			}
		})
	}
}
