package behaviour

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/gabiontest"
	"github.com/gabion-go/gabion/policy"
)

// counted is what an observer and the work itself count of all calls.
type counted struct {
	mu    sync.Mutex
	want  policy.Totals
	tries int64 // attempts whose work began
}

func (c *counted) Observe(_ context.Context, e gabion.Event) {
	if e.Kind != policy.KindReturned {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	w := &c.want
	w.Calls++
	w.Attempts += int64(e.Attempt)
	w.Hedges += int64(e.Hedges)
	if e.Attempt == 0 {
		w.Unsent++
	} else {
		w.Retries += int64(e.Attempt - 1 - e.Hedges)
	}
	if e.Hedge {
		w.HedgesWon++
	}
	if e.Reason == policy.None {
		w.Succeeded++
	} else {
		w.Failures[e.Reason]++
	}
}

func (c *counted) work(f func(context.Context) error) func(context.Context) (int, error) {
	return func(ctx context.Context) (int, error) {
		c.mu.Lock()
		c.tries++
		c.mu.Unlock()
		return 0, f(ctx)
	}
}

func (c *counted) check(t *testing.T, d *gabion.Dependency) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	got := d.Stats().Totals
	if got != c.want {
		t.Errorf("totals:\n got %+v\nwant %+v", got, c.want)
	}
	if got.Attempts != c.tries {
		t.Errorf("%d attempts, but the work began %d times", got.Attempts, c.tries)
	}
}

func TestTotalsAreWhatHappened(t *testing.T) {
	free := gabiontest.FreeRetries(policy.Policy{Safe: true, Retry: policy.Retry{Attempts: 3, Backoff: every(time.Millisecond)}})
	hedged := free
	hedged.Hedge = policy.Hedge{Max: 2, Delay: 10 * time.Millisecond}
	tokens := free
	tokens.Retry.Budget = policy.Budget{Shape: policy.BudgetTokens, Capacity: 2, Ratio: 0.1}
	once := func(first error) func(context.Context) error {
		failed := false
		return func(context.Context) error {
			if !failed {
				failed = true
				return first
			}
			return nil
		}
	}
	slowly := func(d ...time.Duration) func(context.Context) error {
		var n atomic.Int64
		return func(ctx context.Context) error {
			select {
			case <-time.After(d[min(int(n.Add(1)), len(d))-1]):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	do := func(t *testing.T, c *counted, d *gabion.Dependency, f func(context.Context) error, opts ...gabion.CallOption) {
		gabion.Do(t.Context(), d, c.work(f), opts...)
	}
	for _, c := range []struct {
		fact   string
		policy policy.Policy
		play   func(t *testing.T, c *counted, d *gabion.Dependency)
		want   policy.Totals
	}{
		{"a success", free, func(t *testing.T, c *counted, d *gabion.Dependency) { do(t, c, d, works) },
			policy.Totals{Calls: 1, Succeeded: 1, Attempts: 1}},
		{"successes that earn re-sends", policy.Policy{}, func(t *testing.T, c *counted, d *gabion.Dependency) {
			for range 3 {
				do(t, c, d, works)
			}
		}, policy.Totals{Calls: 3, Succeeded: 3, Attempts: 3}},
		{"a success under a budget that no success earns", tokens, func(t *testing.T, c *counted, d *gabion.Dependency) { do(t, c, d, works) },
			policy.Totals{Calls: 1, Succeeded: 1, Attempts: 1}},
		{"a success without an attempt's permit, slot or budget",
			policy.Policy{Breaker: policy.Breaker{Off: true}, Bulkhead: policy.Bulkhead{Off: true}, Retry: policy.Retry{Budget: policy.Budget{Off: true}}},
			func(t *testing.T, c *counted, d *gabion.Dependency) { do(t, c, d, works) },
			policy.Totals{Calls: 1, Succeeded: 1, Attempts: 1}},
		{"a retry that succeeds", free, func(t *testing.T, c *counted, d *gabion.Dependency) { do(t, c, d, once(errDown)) },
			policy.Totals{Calls: 1, Succeeded: 1, Attempts: 2, Retries: 1}},
		{"all attempts fail", free, func(t *testing.T, c *counted, d *gabion.Dependency) { do(t, c, d, fails(errDown)) },
			policy.Totals{Calls: 1, Attempts: 3, Retries: 2, Failures: because(policy.AttemptsExhausted)}},
		{"a hedge that wins", hedged, func(t *testing.T, c *counted, d *gabion.Dependency) { do(t, c, d, slowly(time.Hour, time.Millisecond)) },
			policy.Totals{Calls: 1, Succeeded: 1, Attempts: 2, Hedges: 1, HedgesWon: 1}},
		{"a hedge that loses", hedged, func(t *testing.T, c *counted, d *gabion.Dependency) {
			do(t, c, d, slowly(15*time.Millisecond, time.Hour))
		},
			policy.Totals{Calls: 1, Succeeded: 1, Attempts: 2, Hedges: 1}},
		{"two hedges, and the deadline", hedged, func(t *testing.T, c *counted, d *gabion.Dependency) {
			do(t, c, d, slowly(time.Hour), gabion.WithTimeout(time.Second))
		}, policy.Totals{Calls: 1, Attempts: 3, Hedges: 2, Failures: because(policy.CallTimeout)}},
		{"a call that the breaker refuses", free, func(t *testing.T, c *counted, d *gabion.Dependency) {
			handOn(t, d, "").ForceOpen(0)
			do(t, c, d, works)
		}, policy.Totals{Calls: 1, Unsent: 1, Failures: because(policy.BreakerOpen)}},
		{"a call with an empty key is turned away", free, func(t *testing.T, c *counted, d *gabion.Dependency) {
			do(t, c, d, works, gabion.WithKey(""))
		}, policy.Totals{Calls: 1, Unsent: 1, Failures: because(policy.Invalid)}},
		{"a context that has ended is a mistake, and no call", free, func(t *testing.T, c *counted, d *gabion.Dependency) {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			gabion.Do(ctx, d, c.work(works))
		}, policy.Totals{}},
		{"a result that outlives its call", free, func(t *testing.T, c *counted, d *gabion.Dependency) {
			_, a, err := gabion.Open(t.Context(), d, c.work(works))
			if err != nil {
				t.Fatal(err)
			}
			a.Close(errDown) // it breaks after the call has ended well
		}, policy.Totals{Calls: 1, Succeeded: 1, Attempts: 1}},
		{"an attempt in the caller's hand", free, func(t *testing.T, c *counted, d *gabion.Dependency) {
			a, err := gabion.Begin(t.Context(), d)
			if err != nil {
				t.Fatal(err)
			}
			c.tries++
			a.Settle(errDown)
			a.Close(nil)
		}, policy.Totals{Calls: 1, Attempts: 1, Failures: because(policy.AttemptsExhausted)}},
		{"a success that was never sent, as one from a cache", policy.Policy{}, func(t *testing.T, c *counted, d *gabion.Dependency) {
			a, err := gabion.Begin(t.Context(), d)
			if err != nil {
				t.Fatal(err)
			}
			c.tries++
			a.SettleOutcome(policy.Unsent(policy.ClassSuccess), nil)
			a.Close(nil)
		}, policy.Totals{Calls: 1, Succeeded: 1, Attempts: 1}},
		{"work that panics", free, func(t *testing.T, c *counted, d *gabion.Dependency) {
			defer func() { _ = recover() }()
			do(t, c, d, func(context.Context) error { panic("work") })
		}, policy.Totals{Calls: 1, Attempts: 1, Failures: because(policy.WorkCrashed)}},
		{"a reload to another budget loses no success", free, func(t *testing.T, c *counted, d *gabion.Dependency) {
			for _, p := range []policy.Policy{{}, tokens, {}} {
				do(t, c, d, works)
				reload(t, d, p)
			}
			do(t, c, d, works)
		}, policy.Totals{Calls: 4, Succeeded: 4, Attempts: 4}},
	} {
		t.Run(c.fact, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				count := new(counted)
				d := gabion.New("db", c.policy, gabion.WithObserver(count))
				c.play(t, count, d)
				time.Sleep(2 * time.Hour) // losers come home
				count.check(t, d)
				if got := d.Stats().Totals; got != c.want {
					t.Errorf("totals:\n got %+v\nwant %+v", got, c.want)
				}
			})
		})
	}
}

func because(r gabion.Reason) (f policy.Failures) {
	f[r] = 1
	return f
}

// Many goroutines call in every way while others look.
func TestTotalsAreConsistentWhileCallsRun(t *testing.T) {
	t.Parallel()
	p := gabiontest.FreeRetries(policy.Policy{
		Safe: true, Hedge: policy.Hedge{Max: 1, Delay: 50 * time.Microsecond},
		Retry:    policy.Retry{Attempts: 3, Backoff: every(10 * time.Microsecond)},
		Breaker:  policy.Breaker{Consecutive: 20, Open: 5 * time.Millisecond},
		Bulkhead: policy.Bulkhead{Limit: 4, Queue: 2, QueueTimeout: time.Millisecond},
	})
	count := new(counted)
	d := gabion.New("db", p, gabion.WithObserver(count))
	var callers, viewers sync.WaitGroup
	done := make(chan struct{})
	for range 2 {
		viewers.Go(func() {
			var before policy.Totals
			for over := false; !over; {
				select {
				case <-done:
					over = true
				default:
				}
				now := d.Stats().Totals
				if why := inconsistent(before, now); why != "" {
					t.Errorf("%s:\n%+v\n%+v", why, before, now)
					return
				}
				before = now
			}
		})
	}
	for i := range 8 {
		callers.Go(func() {
			for k := range 300 {
				work := count.work(func(context.Context) error {
					switch (i + k) % 7 {
					case 0:
						return errDown
					case 1:
						return errors.New("a failure that is not classified")
					}
					return nil
				})
				callSomehow(t.Context(), d, (i+k)%5, work, count)
			}
		})
	}
	callers.Wait()
	close(done)
	viewers.Wait()
	for d.Stats().Bulkhead.InUse > 0 { // hedges that lost are on their way
		runtime.Gosched()
	}
	count.check(t, d)
}

func callSomehow(ctx context.Context, d *gabion.Dependency, how int, work func(context.Context) (int, error), count *counted) {
	switch how {
	case 0:
		if _, a, err := gabion.Open(ctx, d, work); err == nil {
			a.Close(nil)
		}
	case 1:
		if a, err := gabion.Begin(ctx, d); err == nil {
			_, err = work(ctx)
			a.Settle(err)
			a.Close(nil)
		}
	case 2:
		gabion.Do(ctx, d, work, gabion.WithKey(""))
	case 3:
		d.Run(ctx, func(ctx context.Context) error { _, err := work(ctx); return err })
	default:
		gabion.Do(ctx, d, work)
	}
}

// inconsistent says what two snapshots, one after the other, must not show.
func inconsistent(before, now policy.Totals) string {
	failed := int64(0)
	for r, n := range now.Failures {
		if failed += n; n < before.Failures[r] {
			return "failures went back"
		}
	}
	switch {
	case now.Calls != now.Succeeded+failed:
		return "calls that neither succeeded nor failed"
	case now.Attempts != now.Calls-now.Unsent+now.Retries+now.Hedges:
		return "attempts are not first ones, retries and hedges"
	case now.HedgesWon > now.Hedges || now.Unsent > failed:
		return "a part is more than the whole"
	case now.Calls < before.Calls || now.Succeeded < before.Succeeded || now.Attempts < before.Attempts ||
		now.Retries < before.Retries || now.Hedges < before.Hedges || now.HedgesWon < before.HedgesWon || now.Unsent < before.Unsent:
		return "a total went back"
	}
	return ""
}
