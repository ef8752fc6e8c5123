package gabionotel_test

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/gabiontest"
	"github.com/gabion-go/gabion/policy"
)

// once is a policy without retries, hedges and breaker.
var once = policy.Policy{
	Safe: true, Timeout: policy.Timeout{Call: 10 * time.Second, Attempt: 4 * time.Second},
	Retry: policy.Retry{Attempts: 1}, Breaker: policy.Breaker{Off: true},
}

// do makes a call, whatever becomes of it, in a goroutine of its own.
func do(ctx context.Context, d *gabion.Dependency, work func(context.Context) (int, error), opts ...gabion.CallOption) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { _ = recover() }()
		gabion.Do(ctx, d, work, opts...)
	}()
	<-done
}

// What the spans are is in testdata.
func TestEveryWayOutEndsTheSpans(t *testing.T) {
	full := once
	full.Bulkhead = policy.Bulkhead{Limit: 1, Queue: policy.Off}
	hedged := once
	hedged.Hedge = policy.Hedge{Max: 1, Delay: 50 * time.Millisecond, Percentile: policy.Off}
	cases := map[string]struct {
		p   policy.Policy
		run func(context.Context, *gabion.Dependency)
	}{
		"a success": {once, func(ctx context.Context, d *gabion.Dependency) { do(ctx, d, takes(time.Second)) }},
		"work that panics": {once, func(ctx context.Context, d *gabion.Dependency) {
			do(ctx, d, func(context.Context) (int, error) { panic("work") })
		}},
		"work that leaves": {once, func(ctx context.Context, d *gabion.Dependency) {
			do(ctx, d, func(context.Context) (int, error) { runtime.Goexit(); return 0, nil })
		}},
		"a caller that gives up": {once, func(ctx context.Context, d *gabion.Dependency) {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(time.Second, cancel)
			do(ctx, d, takes(time.Minute))
		}},
		"an attempt that takes too long": {once, func(ctx context.Context, d *gabion.Dependency) {
			do(ctx, d, takes(time.Minute), gabion.WithPartition("eu"))
		}},
		"a call that is refused": {full, func(ctx context.Context, d *gabion.Dependency) {
			a, _ := gabion.Begin(ctx, d)
			do(ctx, d, takes(0), gabion.WithOperation("second"))
			a.Settle(nil)
			a.Close(nil)
		}},
		"a call that is turned away before it begins": {once, func(ctx context.Context, d *gabion.Dependency) {
			do(ctx, d, takes(0), gabion.WithKey(""))
		}},
		"a hedge that wins": {hedged, func(ctx context.Context, d *gabion.Dependency) {
			do(ctx, d, scripted(takes(time.Second), takes(time.Millisecond)))
		}},
		"a hedge that loses": {hedged, func(ctx context.Context, d *gabion.Dependency) {
			do(ctx, d, scripted(takes(60*time.Millisecond), takes(time.Second)))
		}},
		"a loser that is deaf, and ends after the call": {hedged, func(ctx context.Context, d *gabion.Dependency) {
			do(ctx, d, scripted(takes(60*time.Millisecond), func(context.Context) (int, error) { time.Sleep(time.Second); return 0, errDown }))
			time.Sleep(2 * time.Second)
		}},
		"a hedge that panics": {hedged, func(ctx context.Context, d *gabion.Dependency) {
			do(ctx, d, scripted(takes(time.Second), func(context.Context) (int, error) { panic("hedge") }))
		}},
		"a result that breaks after its verdict": {once, func(ctx context.Context, d *gabion.Dependency) {
			_, a, _ := gabion.Open(ctx, d, takes(time.Second))
			time.Sleep(time.Second)
			a.Close(errDown)
		}},
		"a result that lasts": {once, func(ctx context.Context, d *gabion.Dependency) {
			_, a, _ := gabion.Open(ctx, d, takes(time.Second))
			time.Sleep(time.Minute)
			a.Close(nil)
		}},
		"an attempt in hand that is closed without a verdict": {once, func(ctx context.Context, d *gabion.Dependency) {
			a, _ := gabion.Begin(ctx, d)
			a.Close(nil)
		}},
		"an attempt in hand that fails": {once, func(ctx context.Context, d *gabion.Dependency) {
			a, _ := gabion.Begin(ctx, d)
			a.SettleOutcome(policy.Outcome{Class: policy.ClassServer, Code: "503", Effect: policy.UnknownEffect}, errDown)
			a.Close(nil)
		}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, x := traced(c.p)
				c.run(t.Context(), d)
				synctest.Wait()
				x.want(t, name)
				gabiontest.NothingHeld(t, d)
			})
		})
	}
}
