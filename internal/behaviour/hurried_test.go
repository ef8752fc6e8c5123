package behaviour

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/policy"
)

// A healthy service takes a second, which some callers do not have: their own deadline ends after 200 ms. The learned limit takes that for their haste, and
// refuses none of the patient ones.
func TestCallersInAHurryDoNotLowerALearnedLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := gabion.New("api", policy.Policy{Bulkhead: policy.Bulkhead{Limit: policy.Learned}})
		var all sync.WaitGroup
		var answered atomic.Int64
		call := func(limit time.Duration) {
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			_, err := gabion.Do(ctx, d, func(ctx context.Context) (int, error) {
				select {
				case <-time.After(time.Second):
					return 1, nil
				case <-ctx.Done():
					return 0, ctx.Err()
				}
			})
			if err == nil {
				answered.Add(1)
			}
		}
		const patient = 20 * 30 // in half a minute
		for i := range patient {
			all.Go(func() { call(14 * time.Second) })
			if i%3 == 0 {
				all.Go(func() { call(200 * time.Millisecond) })
			}
			time.Sleep(50 * time.Millisecond)
		}
		all.Wait()
		if n := answered.Load(); n != patient {
			t.Errorf("%d of %d patient calls were answered; the limit is %d", n, patient, d.Stats().Bulkhead.Limit)
		}
	})
}
