package behaviour

import (
	"context"
	"errors"
	"math"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/policy"
)

// metered has 100 tokens that come back in 100 s. One call was answered.
func metered(t *testing.T, change func(*policy.Policy)) *gabion.Dependency {
	t.Helper()
	p := policy.Policy{Timeout: policy.Timeout{Call: time.Hour, Attempt: time.Minute}, RateLimit: policy.RateLimit{Quotas: []policy.Quota{{Unit: "tokens", Amount: 100, Span: 100 * time.Second, Estimate: 10}}}}
	if change != nil {
		change(&p)
	}
	d, err := gabion.Make("llm", p)
	if err != nil {
		t.Fatal(err)
	}
	if err := spend(d, 0); err != nil {
		t.Fatal(err)
	}
	return d
}

func spend(d *gabion.Dependency, tokens float64, more ...gabion.CallOption) error {
	return d.Run(context.Background(), func(context.Context) error { return nil }, append(more, gabion.WithCost("tokens", tokens))...)
}

func left(d *gabion.Dependency) float64 { return d.Stats().Main.Quotas[0].Left }

func TestACallWaitsForRoomInItsQuotas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := metered(t, nil)
		if err := spend(d, 98); err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		if err := spend(d, 20); err != nil || time.Since(begun) < 20*time.Second || time.Since(begun) > 21*time.Second {
			t.Errorf("after %v: %v", time.Since(begun), err)
		}
	})
}

func TestACallIsRefusedWithWhenThereIsRoom(t *testing.T) {
	tests := []struct {
		name   string
		change func(*policy.Policy)
		tokens float64
		option gabion.CallOption
		after  time.Duration
	}{
		{"its deadline is too near", nil, 20, gabion.WithTimeout(5 * time.Second), 20 * time.Second},
		{"max_wait is too short", func(p *policy.Policy) { p.RateLimit.MaxWait = time.Second }, 20, gabion.WithIdempotent(), 20 * time.Second},
		{"it needs more than there is in all", nil, 101, gabion.WithIdempotent(), 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := metered(t, tt.change)
				if err := spend(d, 98); err != nil {
					t.Fatal(err)
				}
				begun := time.Now()
				var e *gabion.Error
				err := spend(d, tt.tokens, tt.option)
				if !errors.As(err, &e) || e.Reason != policy.RateLimited || e.RetryAfter < tt.after || e.RetryAfter > tt.after+time.Second || time.Since(begun) != 0 {
					t.Errorf("after %v: %v", time.Since(begun), err)
				}
			})
		})
	}
}

func TestWhatAnAttemptReallyUsedIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := metered(t, nil)
		var kept context.Context
		err := d.Run(context.Background(), func(ctx context.Context) error {
			gabion.Spent(ctx, "tokens", 30)
			kept = ctx
			return nil
		}, gabion.WithCost("tokens", 10))
		if err != nil || left(d) != 70 {
			t.Errorf("%v are left: %v", left(d), err)
		}
		gabion.Spent(kept, "tokens", 50) // as of a stream that is read to its end
		gabion.Spent(context.Background(), "tokens", 50)
		if left(d) != 50 {
			t.Errorf("%v are left after its end", left(d))
		}
	})
}

// A call of another dependency inside an attempt takes nothing from its quotas.
func TestSpentIsOfTheDependencyThatIsCalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := metered(t, nil)
		other, err := gabion.Make("other", policy.Policy{})
		if err != nil {
			t.Fatal(err)
		}
		_ = d.Run(context.Background(), func(ctx context.Context) error {
			return other.Run(ctx, func(ctx context.Context) error {
				gabion.Spent(ctx, "tokens", 90)
				return nil
			})
		}, gabion.WithCost("tokens", 10))
		if left(d) != 90 {
			t.Errorf("%v are left", left(d))
		}
	})
}

// However a call ends that waits, its place in line is given back.
func TestACallThatWaitsForRoomLeavesTheLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := metered(t, nil)
		if err := spend(d, 98); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		go func() {
			_ = d.Run(ctx, func(context.Context) error { return nil }, gabion.WithCost("tokens", 90))
		}()
		synctest.Wait()
		if n := d.Stats().Main.Quotas[0].Waiting; n != 1 {
			t.Errorf("%d wait", n)
		}
		cancel()
		synctest.Wait()
		if n := d.Stats().Main.Quotas[0].Waiting; n != 0 {
			t.Errorf("%d wait after the cancel", n)
		}
		begun := time.Now()
		if err := spend(d, 5); err != nil || time.Since(begun) > 6*time.Second {
			t.Errorf("the next goes after %v: %v", time.Since(begun), err)
		}
	})
}

func TestWorkThatLeavesItsGoroutineHasSpent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := metered(t, nil)
		for _, leave := range []func(){runtime.Goexit, func() { panic("left") }} {
			go func() {
				defer func() { _ = recover() }()
				_ = d.Run(context.Background(), func(context.Context) error { leave(); return nil }, gabion.WithCost("tokens", 10))
			}()
			synctest.Wait()
		}
		if left(d) != 80 {
			t.Errorf("%v are left", left(d))
		}
		time.Sleep(30 * time.Second)
		if left(d) != 100 {
			t.Errorf("%v are left later", left(d))
		}
	})
}

// A 429 of one quota stops no call that does not use it.
func TestA429OfAQuotaStopsOnlyThoseThatUseIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := metered(t, func(p *policy.Policy) { p.Retry.Attempts = 1 })
		for range 20 {
			go func() {
				_ = d.Run(context.Background(), func(ctx context.Context) error {
					time.Sleep(time.Second)
					gabion.TellLeft(ctx, policy.Remaining{Unit: "tokens", Left: 0, Reset: 30 * time.Second})
					return errors.New("429")
				}, gabion.WithCost("tokens", 1), gabion.WithClassify(func(_ struct{}, err error) policy.Outcome {
					return policy.Outcome{Class: policy.ClassThrottled, Effect: policy.NoEffect, HasAfter: true, After: 30 * time.Second}
				}))
			}()
		}
		time.Sleep(2 * time.Second)
		begun := time.Now()
		if paced := d.Stats().Main.Paced; paced != 0 {
			t.Errorf("all calls are held back for %v", paced)
		}
		if err := spend(d, 0); err != nil || time.Since(begun) != 0 {
			t.Errorf("one that uses no tokens goes after %v: %v", time.Since(begun), err)
		}
		if err := spend(d, 1); err != nil || time.Since(begun) < 27*time.Second {
			t.Errorf("one that does goes after %v: %v", time.Since(begun), err)
		}
	})
}

func TestAReloadOfQuotasKeepsWhatIsUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := metered(t, nil)
		if err := spend(d, 60); err != nil {
			t.Fatal(err)
		}
		p := d.Policy()
		p.RateLimit.Quotas[0].Amount = 200
		if err := d.Reload(p); err != nil || left(d) != 140 {
			t.Errorf("%v are left: %v", left(d), err)
		}
	})
}

func TestACostThatCannotBeMeantIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := metered(t, nil)
		for _, o := range []gabion.CallOption{
			gabion.WithCost("tokens", -1), gabion.WithCost("", 1), gabion.WithCost("tokens", math.NaN()), gabion.WithCost("tokens", math.Inf(1)),
		} {
			var e *gabion.Error
			sent := false
			if err := d.Run(context.Background(), func(context.Context) error { sent = true; return nil }, o); !errors.As(err, &e) || e.Reason != policy.Invalid || sent {
				t.Errorf("%v; it was sent: %t", err, sent)
			}
		}
	})
}
