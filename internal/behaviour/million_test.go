package behaviour

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/classify"
	"github.com/gabion-go/gabion/gabiontest"
	"github.com/gabion-go/gabion/internal/testrace"
	"github.com/gabion-go/gabion/policy"
)

// A million calls with every kind of end, on several goroutines, through a policy
// with all but throttling on (callers that don't pause when rejected would soon be
// rejected for ever, by its very formula), leave nothing behind: no goroutine, slot, probe or
// reservation.
func TestAMillionCallsLeaveNothingBehind(t *testing.T) {
	gabiontest.NoLeaks(t)
	quick := backoff.Full(20*time.Microsecond, 200*time.Microsecond)
	p := policy.Policy{
		Timeout: policy.Timeout{Call: 50 * time.Millisecond, Attempt: 2 * time.Millisecond, Margin: policy.Off},
		Retry:   policy.Retry{Attempts: 4, Backoff: quick, Budget: policy.Budget{Ratio: 0.1, Window: time.Second}},
		Hedge:   policy.Hedge{Max: 1, Delay: 300 * time.Microsecond},
		Breaker: policy.Breaker{
			Window: time.Second, FailureRate: 0.5, Open: time.Millisecond, OpenMax: time.Millisecond,
			ProbeTimeout: 2 * time.Millisecond,
		},
		Bulkhead:  policy.Bulkhead{Limit: 6, Queue: 2, QueueTimeout: time.Millisecond},
		RateLimit: policy.RateLimit{Rate: 1e6, Burst: 1000},
	}
	d := gabion.New("chaos", p)
	const callers = 8
	calls := 1_000_000 / callers
	switch {
	case testing.Short():
		calls /= 20
	case testrace.Enabled && os.Getenv("GABION_SOAK") == "":
		calls /= 5 // as long as all of them without the race detector
	}
	var seen ends
	var wg sync.WaitGroup
	for g := range callers {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(g), 1))
			for i := range calls {
				outage := i%5000 < 300 // every now and then most of it fails
				oneChaoticCall(d, r, &seen, outage)
			}
		})
	}
	wg.Wait()
	settled(t, d)
	gabiontest.NothingHeld(t, d)
	seen.check(t)
}

// ends counts how calls ended, by reason, so that the test can't pass because
// nothing got through.
type ends [256]atomic.Int64

func (e *ends) check(t *testing.T) {
	for why := range e {
		if n := e[why].Load(); n > 0 {
			t.Logf("%8d %s", n, policy.Reason(why))
		}
	}
	for _, why := range []policy.Reason{
		policy.None, policy.NotRetryable, policy.UnclassifiedError, policy.NotSafe, policy.AttemptsExhausted,
		policy.Canceled, policy.CallTimeout, policy.BreakerOpen, policy.BudgetExhausted,
	} {
		if e[why].Load() == 0 {
			t.Errorf("no call ended with %s", why)
		}
	}
}

// settled waits until hedges that were left behind are home.
func settled(t *testing.T, d *gabion.Dependency) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for range 2000 {
		if s := d.Stats(); s.Bulkhead.InUse == 0 && s.Main.Breaker.Probes == 0 {
			return
		}
		<-tick.C
	}
}

var (
	errTransient = classify.Transient(errors.New("blip"))
	errPermanent = classify.Permanent(errors.New("no"))
	errUnsaid    = errors.New("what")
)

// oneChaoticCall makes a call that ends in one of many ways.
func oneChaoticCall(d *gabion.Dependency, r *rand.Rand, seen *ends, outage bool) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	kind, first := r.IntN(1000), r.IntN(4)
	if kind == 0 {
		inItsOwnGoroutine(func() { d.Run(ctx, func(context.Context) error { runtime.Goexit(); return nil }) })
		return
	}
	defer func() {
		if v := recover(); v != nil && v != "boom" {
			panic(v)
		}
	}()
	_, err := gabion.Do(ctx, d, func(ctx context.Context) (int, error) {
		switch {
		case kind < 20:
			panic("boom")
		case kind < 40:
			cancel()
			<-ctx.Done()
			return 0, ctx.Err()
		case kind < 50:
			<-ctx.Done()
			return 0, ctx.Err()
		case outage && kind < 900, kind < 150 && gabion.AttemptNumber(ctx) <= first:
			return 0, errTransient
		case kind < 200:
			return 0, errPermanent
		case kind < 220:
			return 0, errUnsaid
		}
		return 1, nil
	}, options[r.IntN(len(options))]...)
	seen[gabion.ReasonOf(err)].Add(1)
}

var options = [][]gabion.CallOption{
	nil,
	{gabion.WithIdempotent()},
	{gabion.WithIdempotent(), gabion.WithPriority(policy.PriorityHigh)},
	{gabion.WithKey("k"), gabion.WithTimeout(time.Millisecond)},
	{gabion.WithoutRetry()},
}

func inItsOwnGoroutine(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	<-done
}
