package behaviour

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/gabiontest"
	"github.com/gabion-go/gabion/policy"
)

// Reservations of the budget come back too.
func TestBudgetComesBackAfterPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, _ := watched(policy.Policy{Safe: true, Retry: policy.Retry{Backoff: every(time.Millisecond)}, Breaker: policy.Breaker{Off: true}})
		for range 50 { // each sends once, fails, reserves, and is canceled while it waits
			ctx, cancel := context.WithCancel(t.Context())
			d.Run(ctx, func(context.Context) error { time.AfterFunc(time.Microsecond, cancel); return errDown })
			cancel()
		}
		if s := d.Stats().Budget; s.Sent != 0 {
			t.Errorf("%d re-sends are charged, none was made", s.Sent)
		}
		if panicOf(func() { d.Run(t.Context(), func(context.Context) error { panic("boom") }) }) != "boom" {
			t.Error("the panic was lost")
		}
		n := 0
		err := d.Run(t.Context(), func(context.Context) error {
			if n++; n == 1 {
				return errDown
			}
			return nil
		})
		if err != nil || n != 2 {
			t.Errorf("after it all a call is retried: %d attempts, %v", n, err)
		}
	})
}

// 200 callers, failures after 1 ms, 50 ms of backoff. A budget
// that compares with what is in flight let 4.0 attempts per call through.
func TestBudgetBoundsLoadOfQuickFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, rec := watched(policy.Policy{
			Safe:     true,
			Retry:    policy.Retry{Attempts: 8, Backoff: every(50 * time.Millisecond)},
			Breaker:  policy.Breaker{Off: true},
			Bulkhead: policy.Bulkhead{Off: true},
		})
		start := time.Now()
		var wg sync.WaitGroup
		for range 200 {
			wg.Go(func() {
				for time.Since(start) < 5*time.Second {
					d.Run(t.Context(), lasts(time.Millisecond, errDown))
					time.Sleep(9 * time.Millisecond)
				}
			})
		}
		wg.Wait()
		rec.WantLoad(t, 1.1, 15) // 5 s at 1/s, and what the window grants at the start
		if l := rec.Load(); l.Amplification() < 1.05 {
			t.Errorf("amplification %.3f: nothing was retried, so this shows nothing", l.Amplification())
		}
	})
}

// In an outage the number of attempts that a policy allows makes no difference.
func TestThreeAndEightAttemptsSendTheSameLoad(t *testing.T) {
	load := func(attempts int) (sent float64) {
		synctest.Test(t, func(t *testing.T) {
			d, rec := watched(policy.Policy{
				Safe:     true,
				Retry:    policy.Retry{Attempts: attempts, Backoff: backoff.Full(20*time.Millisecond, time.Second)},
				Breaker:  policy.Breaker{Off: true},
				Bulkhead: policy.Bulkhead{Off: true},
			})
			// Calls come at a rate, whatever becomes of those before.
			var wg sync.WaitGroup
			for range 6000 {
				wg.Go(func() { d.Run(t.Context(), lasts(time.Millisecond, errDown)) })
				time.Sleep(5 * time.Millisecond)
			}
			wg.Wait()
			rec.WantLoad(t, 1.1, 40)
			sent = float64(rec.Load().Attempts)
		})
		return sent
	}
	three, eight := load(3), load(8)
	if r := eight / three; r < 0.98 || r > 1.02 {
		t.Errorf("3 attempts sent %.0f, 8 sent %.0f", three, eight)
	}
	if three < 6000*1.08 {
		t.Errorf("%.0f attempts for 6000 calls: the budget was not used, so this shows nothing", three)
	}
}

// After a fault the retries that it left behind are over within the longest wait
// and one attempt. (Without strict, a trial that hangs ends up to eight attempts' time later.)
func TestRetriesEndSoonAfterAFault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		longest, attempt := 500*time.Millisecond, 200*time.Millisecond
		d, rec := watched(policy.Policy{
			Safe:     true,
			Timeout:  policy.Timeout{Attempt: attempt, Strict: true},
			Retry:    policy.Retry{Attempts: 8, Backoff: backoff.Full(50*time.Millisecond, longest), Budget: free},
			Breaker:  policy.Breaker{Off: true},
			Bulkhead: policy.Bulkhead{Off: true},
		})
		var down atomic.Bool
		down.Store(true)
		work := func(ctx context.Context) error {
			if down.Load() {
				return hangs(ctx)
			}
			return nil
		}
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() { d.Run(t.Context(), work) })
			time.Sleep(10 * time.Millisecond)
		}
		down.Store(false)
		healed := time.Since(origin(rec))
		wg.Wait()
		for _, e := range rec.Events() {
			if late := time.Duration(e.At) - healed; e.Kind == policy.KindAttemptSent && late > longest+attempt {
				t.Errorf("attempt #%d was sent %s after the fault", e.Attempt, late)
			}
		}
	})
}

// origin is when the dependency was made: at the start of a bubble.
func origin(*gabiontest.Recorder) time.Time {
	return time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
}
