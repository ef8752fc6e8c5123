package behaviour

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/classify"
	"github.com/gabion-go/gabion/gabiontest"
	"github.com/gabion-go/gabion/policy"
)

// No goroutine per call, whatever contexts meet.
func TestNoGoroutinePerCall(t *testing.T) {
	gabiontest.NoLeaks(t)
	d := gabion.New("db", policy.Policy{Safe: true})
	hedged := gabion.New("db", policy.Policy{Safe: true, Hedge: policy.Hedge{Max: 1, Delay: time.Minute, Percentile: 0}, Timeout: policy.Timeout{Call: 10 * time.Minute, Attempt: 5 * time.Minute}, Breaker: policy.Breaker{Off: true}})
	ctx, cancel := context.WithCancel(t.Context()) // a caller that lives on
	defer cancel()
	const calls = 400
	before, more := runtime.NumGoroutine(), 0
	for range calls / 2 {
		for _, d := range []*gabion.Dependency{d, hedged} {
			gabion.Do(ctx, d, func(ctx context.Context) (int, error) {
				ctx.Done()
				child, stop := context.WithTimeout(context.WithValue(ctx, struct{}{}, 1), time.Minute)
				defer stop()
				child.Done()
				if runtime.NumGoroutine() > before {
					more++
				}
				return 1, nil
			})
		}
	}
	if more > calls/4 { // now and then there is one of the runtime's, or of the test before
		t.Errorf("in %d of %d calls there was a goroutine more", more, calls)
	}
}

// Everything at once, for the race detector.
func TestEverythingAtOnce(t *testing.T) {
	gabiontest.NoLeaks(t)
	d, _ := watched(policy.Policy{
		Safe:     true,
		Timeout:  policy.Timeout{Call: 100 * time.Millisecond, Attempt: 5 * time.Millisecond},
		Retry:    policy.Retry{Backoff: backoff.Full(10*time.Microsecond, 100*time.Microsecond)},
		Hedge:    policy.Hedge{Max: 2, Delay: 50 * time.Microsecond},
		Breaker:  policy.Breaker{MinCalls: 10, Open: time.Millisecond, OpenMax: time.Millisecond, ProbeTimeout: 5 * time.Millisecond, Window: 20 * time.Millisecond},
		Bulkhead: policy.Bulkhead{Limit: 4, Queue: 4, Fair: true}, Throttle: policy.Throttle{K: 2},
		RateLimit: policy.RateLimit{Rate: 1e6, Burst: 100},
	})
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 300 {
				switch i % 6 {
				case 0:
					d.Stats()
				case 1:
					d.Reload(d.Policy())
				case 2:
					if d.Retries().Stop(0); i%4 == 0 {
						d.Retries().Resume()
					}
				case 3:
					if v, a, _ := gabion.Open(t.Context(), d, func(context.Context) (int, error) { return g, nil }); a != nil {
						a.Close(nil)
						_ = v
					}
				case 4:
					if a, err := gabion.Begin(t.Context(), d, gabion.WithPartition("p")); err == nil {
						a.Settle(errDown)
						a.Close(errDown)
					}
				default:
					gabion.Do(t.Context(), d, func(ctx context.Context) (int, error) {
						if (g+i)%3 == 0 {
							return 0, errDown
						}
						return 1, lasts(100*time.Microsecond, nil)(ctx)
					}, gabion.WithTenant(string(rune('a'+g))))
				}
			}
		})
	}
	wg.Wait()
	settled(t, d)
	gabiontest.NothingHeld(t, d)
}

// Policies are values. Nothing that a dependency does, and no change of the
// literal afterwards, is seen by anybody else.
func TestPoliciesAreValues(t *testing.T) {
	p := policy.Policy{Retry: policy.Retry{Attempts: 2}, HTTP: policy.HTTP{Transient: []int{599}}}
	a, b := gabion.New("a", p), gabion.New("b", p)
	p.Retry.Attempts = 7
	if err := a.Reload(p); err != nil {
		t.Fatal(err)
	}
	if x, y := a.Policy().Retry.Attempts, b.Policy().Retry.Attempts; x != 7 || y != 2 {
		t.Errorf("a has %d attempts and b %d, want 7 and 2", x, y)
	}
	changed := a.Policy()
	changed.Breaker.MinCalls = 99
	if a.Policy().Breaker.MinCalls == 99 {
		t.Error("changing what Policy returned changed the dependency")
	}
}

var errDown = classify.Transient(errors.New("down"))

func TestASuccessIsReturned(t *testing.T) {
	d := gabion.New("db", policy.Policy{})
	got, err := gabion.Do(t.Context(), d, func(context.Context) (int, error) { return 7, nil })
	if got != 7 || err != nil {
		t.Fatalf("got %d, %v", got, err)
	}
}

func TestTransientSafeWorkIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, _ := watched(policy.Policy{})
		n := 0
		_, err := gabion.Do(t.Context(), d, func(context.Context) (int, error) { n++; return 0, errDown }, gabion.WithIdempotent())
		var e *gabion.Error
		if !errors.As(err, &e) || n != 3 || e.Reason != policy.AttemptsExhausted || e.Attempts != 3 || !errors.Is(err, errDown) {
			t.Fatalf("%d attempts, %v", n, err)
		}
	})
}

func TestUnsafeWorkIsTriedOnce(t *testing.T) {
	d := gabion.New("db", policy.Policy{})
	n := 0
	err := d.Run(t.Context(), func(context.Context) error { n++; return errDown })
	if n != 1 || !errors.Is(err, policy.NotSafe) {
		t.Fatalf("%d attempts, %v", n, err)
	}
}

func TestAHedgeWinsWhenTheFirstHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := gabion.New("db", policy.Policy{Safe: true, Hedge: policy.Hedge{Max: 1, Delay: 10 * time.Millisecond}})
		start := time.Now()
		got, err := gabion.Do(t.Context(), d, func(ctx context.Context) (int, error) {
			n := gabion.AttemptNumber(ctx)
			if n == 1 {
				<-ctx.Done()
				return 1, ctx.Err()
			}
			time.Sleep(5 * time.Millisecond)
			return n, nil
		})
		if got != 2 || err != nil || time.Since(start) != 15*time.Millisecond {
			t.Fatalf("got %d, %v after %s", got, err, time.Since(start))
		}
		synctest.Wait()
	})
}

func BenchmarkDoSuccess(b *testing.B) {
	d := gabion.New("db", policy.Policy{})
	ctx := b.Context()
	work := func(context.Context) (int, error) { return 7, nil }
	b.ReportAllocs()
	for b.Loop() {
		if v, err := gabion.Do(ctx, d, work); v != 7 || err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDoHedgeArmed(b *testing.B) {
	d := gabion.New("db", policy.Policy{Safe: true, Hedge: policy.Hedge{Max: 1, Delay: time.Second}})
	work := func(context.Context) (int, error) { return 7, nil }
	b.ReportAllocs()
	for b.Loop() {
		if v, err := gabion.Do(b.Context(), d, work); v != 7 || err != nil {
			b.Fatal(err)
		}
	}
}
