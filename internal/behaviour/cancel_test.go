package behaviour

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/internal/breaker"
	"github.com/gabion-go/gabion/policy"
)

// The caller's cancel is neither failure nor success, not a
// timeout, and nothing to retry.
func TestCancelIsNeverTheDependencysFault(t *testing.T) {
	run := func(ctx context.Context, d *gabion.Dependency, work func(context.Context) error) error {
		return d.Run(ctx, work)
	}
	do := func(ctx context.Context, d *gabion.Dependency, work func(context.Context) error) error {
		_, err := gabion.Do(ctx, d, withResult(work))
		return err
	}
	begin := func(ctx context.Context, d *gabion.Dependency, work func(context.Context) error) error {
		a, err := gabion.Begin(ctx, d)
		if err != nil {
			return err
		}
		defer a.Close(nil)
		return a.Settle(work(a.Context()))
	}
	for name, said := range map[string]error{
		"context error": context.Canceled, "deadline error": context.DeadlineExceeded, "reset": errDown, "unclassified": errUnsaid,
	} {
		for driver, c := range map[string]struct {
			hedge policy.Hedge
			call  func(context.Context, *gabion.Dependency, func(context.Context) error) error
		}{"Run": {policy.Hedge{}, run}, "Do": {policy.Hedge{Off: true}, do}, "Do, hedged": {policy.Hedge{Max: 1, Delay: 10 * time.Second}, do}, "Begin": {policy.Hedge{}, begin}} {
			t.Run(name+"/"+driver, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					d, rec := watched(policy.Policy{Safe: true, Breaker: eager(time.Second), Hedge: c.hedge})
					for range 50 {
						ctx, cancel := context.WithCancel(t.Context())
						err := c.call(ctx, d, func(context.Context) error { cancel(); return said })
						wantReason(t, err, policy.Canceled)
						if !errors.Is(err, context.Canceled) || errors.Is(err, policy.CallTimeout) || !errors.Is(err, said) {
							t.Fatalf("the error is %v", err)
						}
					}
					wantState(t, d, breaker.Closed)
					rec.WantAttempts(t, 50)
					if c := d.Stats().Main.Breaker.Counts; c.Failures != 0 || c.Calls != 0 {
						t.Errorf("cancels were counted: %+v", c)
					}
				})
			})
		}
	}
}

// Work that gave up by itself says nothing about the dependency either.
func TestWorkThatGivesUpIsNeutral(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, rec := watched(policy.Policy{Safe: true, Breaker: eager(time.Second)})
		wantReason(t, d.Run(t.Context(), fails(context.Canceled)), policy.Canceled)
		rec.WantAttempts(t, 1)
		if calls, _ := counts(d); calls != 0 {
			t.Errorf("it was counted: %d", calls)
		}
	})
}

// A cancelled probe frees its place and decides nothing.
func TestCanceledProbeIsNeutral(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, _ := watched(policy.Policy{Breaker: eager(time.Second)})
		d.Run(t.Context(), fails(errDown))
		time.Sleep(time.Second)
		for range 5 {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Millisecond, cancel)
			wantReason(t, d.Run(ctx, hangs), policy.Canceled)
			wantState(t, d, breaker.HalfOpen)
		}
		if err := d.Run(t.Context(), works); err != nil {
			t.Error(err)
		}
		wantState(t, d, breaker.Closed)
	})
}
