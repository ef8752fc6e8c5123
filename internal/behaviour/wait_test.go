package behaviour

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/classify"
	"github.com/gabion-go/gabion/internal/terms"
	"github.com/gabion-go/gabion/policy"
)

// waiting are the verbs, and Begin, which does not repeat but waits to be admitted.
var waiting = func() map[string]func(context.Context, *gabion.Dependency, func(context.Context) error, ...gabion.CallOption) error {
	all := maps.Clone(verbs)
	all["Begin"] = func(ctx context.Context, d *gabion.Dependency, work func(context.Context) error, opts ...gabion.CallOption) error {
		a, err := gabion.Begin(ctx, d, opts...)
		if err != nil {
			return err
		}
		defer a.Close(nil)
		return a.Settle(work(a.Context()))
	}
	return all
}()

// A call that is about to wait must hear that its caller left, also if that happened
// just before the wait began: here, while an observer was told of the wait.
func TestACancelJustBeforeAWaitEndsTheCall(t *testing.T) {
	const long = 5 * time.Second
	waits := map[string]struct {
		p       policy.Policy
		work    func(context.Context) error
		prepare func(*testing.T, *gabion.Dependency)
	}{
		terms.ForBackoff: {
			p:    policy.Policy{Retry: policy.Retry{Backoff: every(long), Budget: free}},
			work: fails(errDown),
		},
		terms.ForSlot: {
			p: policy.Policy{Bulkhead: policy.Bulkhead{Limit: 1, QueueTimeout: long}},
			prepare: func(t *testing.T, d *gabion.Dependency) {
				a, err := gabion.Begin(t.Context(), d)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { a.Close(nil) })
			},
		},
		terms.ForPace: {
			prepare: func(t *testing.T, d *gabion.Dependency) {
				d.Run(t.Context(), fails(classify.Throttled(errDown, long)), gabion.WithoutRetry())
			},
		},
		terms.ForRate: {
			p:       policy.Policy{RateLimit: policy.RateLimit{Rate: 0.2}},
			prepare: func(t *testing.T, d *gabion.Dependency) { d.Run(t.Context(), works) },
		},
	}
	for wait, c := range waits {
		for verb, call := range waiting {
			for hedges := range 2 {
				if wait == terms.ForBackoff && verb == "Begin" {
					continue // it never retries
				}
				t.Run(fmt.Sprintf("%s/%s/hedges=%d", wait, verb, hedges), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						ctx, cancel := context.WithCancel(t.Context())
						defer cancel()
						leave := gabion.ObserverFunc(func(_ context.Context, e gabion.Event) {
							if e.Kind == policy.KindWaiting && e.Wait == wait {
								cancel()
							}
						})
						if c.p.Hedge = (policy.Hedge{}); hedges > 0 {
							c.p.Hedge = policy.Hedge{Max: hedges, Delay: policy.Off}
						}
						d := gabion.New("db", c.p, gabion.WithObserver(leave))
						work := c.work
						if work == nil {
							work = works
						}
						if c.prepare != nil {
							c.prepare(t, d)
						}
						began := time.Now()
						err := call(ctx, d, work, gabion.WithIdempotent())
						wantReason(t, err, policy.Canceled)
						wantElapsed(t, began, 0)
					})
				})
			}
		}
	}
}

// The context's timer and the call's are two: whichever rings first, the caller reads
// why its deadline was set.
func TestTheCauseOfTheCallersDeadlineIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := gabion.New("db", policy.Policy{Bulkhead: policy.Bulkhead{Limit: 1, QueueTimeout: time.Minute}})
		a, err := gabion.Begin(t.Context(), d)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Close(nil)
		for i := range 100 {
			why := fmt.Errorf("order %d must be placed by noon", i)
			ctx, cancel := context.WithTimeoutCause(t.Context(), 10*time.Millisecond, why)
			err := d.Run(ctx, works)
			cancel()
			wantReason(t, err, policy.CallTimeout)
			if !errors.Is(err, why) {
				t.Fatalf("call %d: %v does not say why", i, err)
			}
		}
	})
}

// A context that names a deadline and never ends must not hold up the answer.
func TestADeadlineThatNeverEndsItsContextHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := gabion.New("db", policy.Policy{Bulkhead: policy.Bulkhead{Limit: 1, QueueTimeout: time.Minute}})
		a, err := gabion.Begin(t.Context(), d)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Close(nil)
		began := time.Now()
		wantReason(t, d.Run(deadlineOnly{t.Context(), began.Add(time.Second)}, works), policy.CallTimeout)
		if took := time.Since(began); took > time.Second+20*time.Millisecond {
			t.Errorf("it took %v", took)
		}
	})
}

type deadlineOnly struct {
	context.Context
	at time.Time
}

func (c deadlineOnly) Deadline() (time.Time, bool) { return c.at, true }
