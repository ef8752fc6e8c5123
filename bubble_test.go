package gabion_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/gabiontest"
	"github.com/gabion-go/gabion/internal/breaker"
	"github.com/gabion-go/gabion/policy"
)

// watched makes a dependency whose events are kept. Make it inside the bubble.
//
// A policy that says nothing of its budget has one that allows a few retries from the
// start, which is what most tests are about.
func watched(p policy.Policy, opts ...gabion.Option) (*gabion.Dependency, *gabiontest.Recorder) {
	r := new(gabiontest.Recorder)
	if p.Retry.Budget == (policy.Budget{}) {
		p.Retry.Budget.Shape = policy.BudgetWindow
	}
	return gabion.New("db", p, append([]gabion.Option{gabion.WithSeed(1), gabion.WithObserver(r)}, opts...)...), r
}

// every waits exactly this long before each retry.
func every(d time.Duration) backoff.Backoff {
	return backoff.Backoff{Kind: backoff.Constant, Base: d, Cap: d}
}

// eager is a breaker that opens at the first failure and lets one probe decide.
func eager(open time.Duration) policy.Breaker {
	return policy.Breaker{MinCalls: 1, Open: open, OpenJitter: policy.Off, Probes: 1, SlowCall: policy.Off, ProbeTimeout: time.Second}
}

// free is a budget that is never the reason.
var free = policy.Budget{Off: true}

// fails is work that fails with err.
func fails(err error) func(context.Context) error { return func(context.Context) error { return err } }

// works is work that succeeds at once.
func works(context.Context) error { return nil }

// lasts is work that listens to its context.
func lasts(d time.Duration, err error) func(context.Context) error {
	return gabiontest.NewScript(gabiontest.Step{Takes: d, Err: err}).Run
}

// hangs is work that ends only with its context.
func hangs(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

func wantReason(t *testing.T, err error, want gabion.Reason) {
	t.Helper()
	gabiontest.WantReason(t, err, want)
}

func wantState(t *testing.T, d *gabion.Dependency, want breaker.State) {
	t.Helper()
	if got := d.Stats().Main.Breaker.State; got != want {
		t.Errorf("the breaker is %s, want %s", got, want)
	}
}

func wantElapsed(t *testing.T, since time.Time, want time.Duration) {
	t.Helper()
	if got := time.Since(since); got != want {
		t.Errorf("it took %s, want %s", got, want)
	}
}

// nothingHeld also waits for goroutines of the bubble to rest.
func nothingHeld(t *testing.T, d *gabion.Dependency) {
	t.Helper()
	synctest.Wait()
	gabiontest.NothingHeld(t, d)
}

// count counts the events that match.
func count(r *gabiontest.Recorder, match func(gabion.Event) bool) (n int) {
	for _, e := range r.Events() {
		if match(e) {
			n++
		}
	}
	return n
}

func kind(k policy.Kind) func(gabion.Event) bool {
	return func(e gabion.Event) bool { return e.Kind == k }
}

// asError is err as the one type that calls end with.
func asError(t *testing.T, err error) *gabion.Error {
	t.Helper()
	e, ok := errors.AsType[*gabion.Error](err)
	if !ok {
		t.Fatalf("%v is no *gabion.Error", err)
	}
	return e
}

// panicOf runs f and returns what it panicked with.
func panicOf(f func()) (value any) {
	defer func() { value = recover() }()
	f()
	return nil
}
