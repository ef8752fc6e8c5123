package policy

import (
	"testing"
	"time"

	"github.com/gabion-go/gabion/clock"
)

// The bound is against first attempts that were sent: a call that a layer refused is
// no load, and pays for nobody's re-send.
func TestRefusedCallsPayNothingIntoTheBudget(t *testing.T) {
	full := Bulkhead{Limit: 1, Queue: Off}
	for name, c := range map[string]struct {
		p    Policy
		want int64
	}{
		"sent":                {Policy{Bulkhead: Bulkhead{Off: true}}, 101},
		"refused by bulkhead": {Policy{Bulkhead: full}, 1},
		"refused by rate":     {Policy{Bulkhead: Bulkhead{Off: true}, RateLimit: RateLimit{Rate: 1, MaxWait: Off}}, 1},
		"refused per call":    {Policy{Bulkhead: Bulkhead{Limit: 1, Queue: Off, Per: PerCall}}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			c.p.Retry.Budget.Shape = BudgetWindow
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
			if calls, _ := s.window().Counts(now, r.budget); calls != c.want {
				t.Errorf("%d calls paid in, want %d", calls, c.want)
			}
		})
	}
}
