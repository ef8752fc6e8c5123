package gabion_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/gabiontest"
	"github.com/gabion-go/gabion/policy"
)

// An observer that calls t.FailNow leaves the goroutine of the call that told it. At
// whichever event it does, nothing of the call stays behind.
func TestAnObserverMayLeaveByGoexitAtAnyEvent(t *testing.T) {
	plain := policy.Policy{Safe: true, Bulkhead: policy.Bulkhead{Limit: 1}}
	hedged, whole := plain, plain
	hedged.Bulkhead.Limit = 2
	hedged.Hedge = policy.Hedge{Max: 1, Delay: time.Second}
	whole.Breaker.Per, whole.Bulkhead.Per = policy.PerCall, policy.PerCall
	twice := func(ctx context.Context) (string, error) {
		time.Sleep(10 * time.Millisecond)
		if gabion.AttemptNumber(ctx) == 1 {
			return "", fmt.Errorf("first: %w", errDown)
		}
		return "done", nil
	}
	slow := func(ctx context.Context) (string, error) {
		time.Sleep(3 * time.Second / time.Duration(gabion.AttemptNumber(ctx)))
		return "done", nil
	}
	cases := []struct {
		name string
		p    policy.Policy
		call func(context.Context, *gabion.Dependency)
	}{
		{"Do", plain, func(ctx context.Context, d *gabion.Dependency) { gabion.Do(ctx, d, twice) }},
		{"Do, wrapped", whole, func(ctx context.Context, d *gabion.Dependency) { gabion.Do(ctx, d, twice) }},
		{"Do, hedged", hedged, func(ctx context.Context, d *gabion.Dependency) { gabion.Do(ctx, d, slow) }},
		{"Do, hedged and failing", hedged, func(ctx context.Context, d *gabion.Dependency) { gabion.Do(ctx, d, twice) }},
		{"Open", plain, func(ctx context.Context, d *gabion.Dependency) {
			_, a, _ := gabion.Open(ctx, d, twice)
			a.Close(errDown)
		}},
		{"Open, hedged", hedged, func(ctx context.Context, d *gabion.Dependency) {
			_, a, _ := gabion.Open(ctx, d, slow)
			a.Close(errDown)
		}},
		{"Run", plain, func(ctx context.Context, d *gabion.Dependency) {
			d.Run(ctx, func(ctx context.Context) error { _, err := twice(ctx); return err })
		}},
		{"Begin", plain, func(ctx context.Context, d *gabion.Dependency) {
			a, err := gabion.Begin(ctx, d)
			if err != nil {
				panic(err)
			}
			defer a.Close(errors.New("broke"))
			a.Settle(nil)
		}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			for at, told := 0, 0; at <= told; at++ {
				synctest.Test(t, func(t *testing.T) {
					var n atomic.Int32
					var kind policy.Kind
					d := gabion.New("db", c.p, gabion.WithObserver(gabion.ObserverFunc(func(_ context.Context, e gabion.Event) {
						if int(n.Add(1)) == at {
							kind = e.Kind
							runtime.Goexit()
						}
					})))
					go c.call(t.Context(), d)
					time.Sleep(time.Minute)
					synctest.Wait()
					told = max(told, int(n.Load()))
					if gabiontest.NothingHeld(t, d); t.Failed() {
						t.Errorf("the observer left at event %d, %v", at, kind)
					}
				})
			}
		})
	}
}
