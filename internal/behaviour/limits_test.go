package behaviour

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/policy"
)

// A throttle that was idle for longer than its window remembers nothing.
func TestIdleThrottleForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, rec := watched(policy.Policy{Throttle: policy.Throttle{K: 1.5, Window: time.Minute}, Breaker: policy.Breaker{Off: true}})
		for range 1000 {
			d.Run(t.Context(), fails(errDown))
		}
		if rec.Load().Refused[policy.ThrottledLocally] < 500 {
			t.Fatalf("the throttle did not close: %+v", rec.Load())
		}
		time.Sleep(5 * time.Minute)
		for i := range 1000 {
			if err := d.Run(t.Context(), works); err != nil {
				t.Fatalf("call %d after the pause: %v", i, err)
			}
		}
	})
}

func TestNobodySleepsForPaceIntoAnOpenBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := gabion.New("db", policy.Policy{Breaker: policy.Breaker{Consecutive: 1, Open: 15 * time.Second, OpenJitter: policy.Off}},
			says(policy.Outcome{Class: policy.ClassServer, HasAfter: true, After: 5 * time.Second}))
		d.Run(t.Context(), works)
		start := time.Now()
		err := d.Run(t.Context(), works)
		wantReason(t, err, policy.BreakerOpen)
		wantElapsed(t, start, 0)
		if got := asError(t, err).RetryAfter; got != 15*time.Second {
			t.Errorf("RetryAfter is %s", got)
		}
	})
}

func TestCallsThatPacingHoldsSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := gabion.New("db", policy.Policy{}, gabion.WithSeed(1))
		const hold = 4 * time.Second
		d.Run(t.Context(), works, gabion.WithClassify(func(any, error) policy.Outcome {
			return policy.Outcome{Class: policy.ClassThrottled}.ComeBack(hold)
		}))
		start := time.Now()
		var mu sync.Mutex
		var at []time.Duration
		together(t, d, 50, policy.None, func(context.Context) error {
			mu.Lock()
			defer mu.Unlock()
			at = append(at, time.Since(start))
			return nil
		})
		slices.Sort(at)
		if len(at) != 50 || at[0] < hold || at[49] >= 6250*time.Millisecond || at[49]-at[0] < time.Second {
			t.Errorf("they went at %v", at)
		}
		if n := len(slices.Compact(at)); n < 45 {
			t.Errorf("50 calls went at %d moments", n)
		}
	})
}

func TestOneAnswerClosesADependencyNoLongerThanMaxAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := gabion.New("db", policy.Policy{
			Retry:   policy.Retry{MaxAfter: 10 * time.Second},
			Pace:    policy.Pace{Off: true},
			Breaker: policy.Breaker{Consecutive: 1, Open: time.Second, OpenMax: time.Hour, OpenJitter: policy.Off},
		})
		d.Run(t.Context(), works, gabion.WithClassify(func(any, error) policy.Outcome {
			return policy.Outcome{Class: policy.ClassServer, HasAfter: true, After: math.MaxInt64}
		}))
		time.Sleep(10*time.Second - 1)
		wantReason(t, d.Run(t.Context(), works), policy.BreakerOpen)
		time.Sleep(1)
		wantReason(t, d.Run(t.Context(), works), policy.None)
	})
}

func TestFasterRateLimitForgetsTheTurnsOfTheSlower(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := gabion.New("db", policy.Policy{RateLimit: policy.RateLimit{Rate: 1.0 / 60}})
		d.Run(t.Context(), works)
		wantReason(t, d.Run(t.Context(), works), policy.RateLimited)
		reload(t, d, policy.Policy{RateLimit: policy.RateLimit{Rate: 100}})
		start := time.Now()
		wantReason(t, d.Run(t.Context(), works), policy.None)
		wantElapsed(t, start, 0)
	})
}

func TestThrottledAnswerIsNoAccept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, rec := watched(policy.Policy{Pace: policy.Pace{Off: true}, Throttle: policy.Throttle{K: 2}}, says(policy.Outcome{Class: policy.ClassThrottled}))
		for range 200 {
			d.Run(t.Context(), works)
		}
		if n := rec.Load().Refused[policy.ThrottledLocally]; n < 100 {
			t.Errorf("of 200 calls that the dependency throttles %d were rejected here", n)
		}
	})
}

// G1: who matters more waits less.
func TestHighPriorityGoesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, _ := watched(policy.Policy{Bulkhead: policy.Bulkhead{Limit: 1, Queue: 10, QueueTimeout: policy.Off}})
		var mu sync.Mutex
		var order []string
		var wg sync.WaitGroup
		for i, p := range []policy.Priority{policy.PriorityNormal, policy.PriorityLow, policy.PriorityNormal, policy.PriorityHigh, policy.PriorityLow, policy.PriorityHigh} {
			wg.Go(func() {
				err := d.Run(t.Context(), func(ctx context.Context) error {
					mu.Lock()
					order = append(order, fmt.Sprint(i))
					mu.Unlock()
					return lasts(10*time.Millisecond, nil)(ctx)
				}, gabion.WithPriority(p))
				if err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		wg.Wait()
		if got := strings.Join(order, " "); got != "0 3 5 2 1 4" {
			t.Errorf("they went %s", got)
		}
	})
}

// G1: a tenant that floods the queue leaves the others their share.
func TestFairBulkheadSharesAmongTenants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, _ := watched(policy.Policy{Bulkhead: policy.Bulkhead{Limit: 2, Queue: 200, QueueTimeout: policy.Off, Fair: true}})
		var mu sync.Mutex
		done := map[string]time.Duration{}
		start := time.Now()
		var wg sync.WaitGroup
		call := func(tenant string) {
			wg.Go(func() {
				if err := d.Run(t.Context(), lasts(10*time.Millisecond, nil), gabion.WithTenant(tenant)); err != nil {
					t.Errorf("%s: %v", tenant, err)
				}
				mu.Lock()
				defer mu.Unlock()
				done[tenant] = time.Since(start)
			})
			synctest.Wait()
		}
		for range 100 {
			call("loud")
		}
		for range 5 {
			call("quiet")
		}
		wg.Wait()
		if done["quiet"] > 100*time.Millisecond {
			t.Errorf("the quiet tenant was done after %s, the loud one after %s", done["quiet"], done["loud"])
		}
	})
}
