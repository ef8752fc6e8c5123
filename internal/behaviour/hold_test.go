package behaviour

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/classify"
	"github.com/gabion-go/gabion/policy"
)

// Calls that meet one blip, as when the connection breaks that they share, must not wait for
// each other until their time is nearly over.
func TestCallsThatMetOneBlipDoNotWaitForEachOther(t *testing.T) {
	for _, callers := range []int{2, 4, 16} {
		synctest.Test(t, func(t *testing.T) {
			d := gabion.New("ledger", policy.Policy{Safe: true, Retry: policy.Retry{Budget: policy.Budget{Off: true}}})
			for range 10 { // it works
				if err := d.Run(t.Context(), func(context.Context) error { return nil }); err != nil {
					t.Fatal(err)
				}
			}
			cut := make(chan struct{})
			var all sync.WaitGroup
			var mu sync.Mutex
			longest := time.Duration(0)
			for range callers {
				all.Go(func() {
					first, began := true, time.Now()
					err := d.Run(t.Context(), func(context.Context) error {
						if first {
							first = false
							<-cut
							return classify.Transient(errors.New("the connection broke"))
						}
						return nil
					})
					mu.Lock()
					defer mu.Unlock()
					longest = max(longest, time.Since(began))
					if err != nil {
						t.Error(err)
					}
				})
			}
			synctest.Wait()
			close(cut)
			all.Wait()
			if longest > 3*time.Second { // a backoff of up to 1 s, and one of up to 2 s
				t.Errorf("%d callers: the longest call took %s", callers, longest)
			}
		})
	}
}
