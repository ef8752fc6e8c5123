package gabion_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion/internal/breaker"
	"github.com/gabion-go/gabion/policy"
)

// The caller's cancel is neither failure nor success, not a
// timeout, and nothing to retry.
func TestCancelIsNeverTheDependencysFault(t *testing.T) {
	for name, said := range map[string]error{
		"context error": context.Canceled, "deadline error": context.DeadlineExceeded, "reset": errDown, "unclassified": errUnsaid,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, rec := watched(policy.Policy{Safe: true, Breaker: eager(time.Second)})
				for range 50 {
					ctx, cancel := context.WithCancel(t.Context())
					err := d.Run(ctx, func(context.Context) error { cancel(); return said })
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
