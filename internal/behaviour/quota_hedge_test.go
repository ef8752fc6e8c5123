package behaviour

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/policy"
)

// A hedge that finds room in a quota, and then is not made, gives it back.
func TestAHedgeThatIsNotMadeUsesNothingOfAQuota(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, _ := watched(policy.Policy{
			Safe: true, Hedge: policy.Hedge{Max: 3, Delay: 10 * time.Millisecond}, Retry: policy.Retry{Budget: free},
			RateLimit: policy.RateLimit{Rate: 0.01, Burst: 1, Quotas: []policy.Quota{{Unit: "tokens", Amount: 100, Span: time.Hour, Estimate: 1, Window: true}}},
		})
		got, err := gabion.Do(t.Context(), d, func(ctx context.Context) (int, error) {
			return gabion.AttemptNumber(ctx), lasts(100*time.Millisecond, nil)(ctx)
		})
		if left := d.Stats().Main.Quotas[0].Left; got != 1 || err != nil || left != 99 {
			t.Errorf("%d, %v: %v are left of 100", got, err, left)
		}
		nothingHeld(t, d)
	})
}
