package gabion_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/gabiontest"
	"github.com/gabion-go/gabion/policy"
)

// An observer that calls t.FailNow leaves the goroutine of the call that told it. At
// whichever event it does, nothing of the call stays behind.
func TestAnObserverMayLeaveByGoexitAtAnyEvent(t *testing.T) {
	plain := policy.Policy{Safe: true, Bulkhead: policy.Bulkhead{Limit: 1}}
	hedged, whole := plain, plain
	hedged.Bulkhead.Limit = 2
	hedged.Hedge = policy.Hedge{Max: 1, Delay: time.Second}
	whole.Breaker.Per, whole.Bulkhead.Per = policy.PerCall, policy.PerCall
	twice := func(ctx context.Context) (string, error) {
		time.Sleep(10 * time.Millisecond)
		if gabion.AttemptNumber(ctx) == 1 {
			return "", fmt.Errorf("first: %w", errDown)
		}
		return "done", nil
	}
	slow := func(ctx context.Context) (string, error) {
		time.Sleep(3 * time.Second / time.Duration(gabion.AttemptNumber(ctx)))
		return "done", nil
	}
	cases := []struct {
		name string
		p    policy.Policy
		call func(context.Context, *gabion.Dependency)
	}{
		{"Do", plain, func(ctx context.Context, d *gabion.Dependency) { gabion.Do(ctx, d, twice) }},
		{"Do, wrapped", whole, func(ctx context.Context, d *gabion.Dependency) { gabion.Do(ctx, d, twice) }},
		{"Do, hedged", hedged, func(ctx context.Context, d *gabion.Dependency) { gabion.Do(ctx, d, slow) }},
		{"Do, hedged and failing", hedged, func(ctx context.Context, d *gabion.Dependency) { gabion.Do(ctx, d, twice) }},
		{"Open", plain, func(ctx context.Context, d *gabion.Dependency) {
			_, a, _ := gabion.Open(ctx, d, twice)
			a.Close(errDown)
		}},
		{"Open, hedged", hedged, func(ctx context.Context, d *gabion.Dependency) {
			_, a, _ := gabion.Open(ctx, d, slow)
			a.Close(errDown)
		}},
		{"Run", plain, func(ctx context.Context, d *gabion.Dependency) {
			d.Run(ctx, func(ctx context.Context) error { _, err := twice(ctx); return err })
		}},
		{"Begin", plain, func(ctx context.Context, d *gabion.Dependency) {
			a, err := gabion.Begin(ctx, d)
			if err != nil {
				panic(err)
			}
			defer a.Close(errors.New("broke"))
			a.Settle(nil)
		}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			for at, told := 0, 0; at <= told; at++ {
				synctest.Test(t, func(t *testing.T) {
					var n atomic.Int32
					var kind policy.Kind
					d := gabion.New("db", c.p, gabion.WithObserver(gabion.ObserverFunc(func(_ context.Context, e gabion.Event) {
						if int(n.Add(1)) == at {
							kind = e.Kind
							runtime.Goexit()
						}
					})))
					go c.call(t.Context(), d)
					time.Sleep(time.Minute)
					synctest.Wait()
					told = max(told, int(n.Load()))
					if gabiontest.NothingHeld(t, d); t.Failed() {
						t.Errorf("the observer left at event %d, %v", at, kind)
					}
				})
			}
		})
	}
}

// What nobody gets is discarded, also if an observer leaves when it is told of it.
func TestALoserIsDiscardedThoughAnObserverLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var brought, discarded, ended atomic.Int32
		d := gabion.New("db", policy.Policy{Safe: true, Hedge: policy.Hedge{Max: 1, Delay: time.Second}},
			gabion.WithDiscard(func(any) { discarded.Add(1) }),
			gabion.WithObserver(gabion.ObserverFunc(func(_ context.Context, e gabion.Event) {
				if e.Kind == policy.KindLoserSettled {
					runtime.Goexit()
				}
			})))
		go gabion.Do(t.Context(), d, func(ctx context.Context) (int, error) {
			context.AfterFunc(ctx, func() { ended.Add(1) })
			n := time.Duration(gabion.AttemptNumber(ctx))
			time.Sleep(3 * time.Second / n / n)
			brought.Add(1)
			return 1, nil
		})
		time.Sleep(time.Minute)
		if brought.Load() != 2 || discarded.Load() != 2 || ended.Load() != 2 { // the caller left, too, when it was told
			t.Errorf("%d results, %d discarded, %d contexts ended", brought.Load(), discarded.Load(), ended.Load())
		}
		gabiontest.NothingHeld(t, d)
	})
}

// faulty is a context of a caller's whose methods panic from some time on.
type faulty struct {
	context.Context
	err, deadline atomic.Bool
}

func (f *faulty) Err() error {
	if f.err.Load() {
		panic("Err")
	}
	return f.Context.Err()
}

func (f *faulty) Deadline() (time.Time, bool) {
	if f.deadline.Load() {
		panic("Deadline")
	}
	return f.Context.Deadline()
}

func TestAContextThatPanicsLeavesNothingHeld(t *testing.T) {
	for name, hedge := range map[string]policy.Hedge{"serial": {}, "hedged": {Max: 1, Delay: time.Second}} {
		for way, work := range map[string]func(*faulty) error{
			"Err, when work failed":   func(f *faulty) error { f.err.Store(true); return errDown },
			"Err, when work panicked": func(f *faulty) error { f.err.Store(true); panic("work") },
			"Err, while it waits":     func(f *faulty) error { time.AfterFunc(time.Millisecond, func() { f.err.Store(true) }); return errDown },
			"Deadline, at once":       nil,
		} {
			t.Run(name+", "+way, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					d := gabion.New("db", policy.Policy{Safe: true, Retry: policy.Retry{Budget: free}, Hedge: hedge, Bulkhead: policy.Bulkhead{Limit: 2}})
					gabion.Do(t.Context(), d, func(context.Context) (int, error) { return 1, nil }) // its timer stays set
					f := &faulty{Context: t.Context()}
					f.deadline.Store(work == nil)
					if panicOf(func() {
						gabion.Do(f, d, func(context.Context) (int, error) { return 0, work(f) })
					}) == nil {
						t.Error("it did not panic")
					}
					time.Sleep(time.Minute) // no goroutine of a timer is stuck, or the bubble would not end
					gabiontest.NothingHeld(t, d)
				})
			})
		}
	}
}

// What an observer keeps from being done is not reported as done.
func TestWorkThatNeverBeganDidNotCrash(t *testing.T) {
	for name, hedge := range map[string]policy.Hedge{"serial": {}, "hedged": {Max: 1, Delay: time.Second}} {
		var events []gabion.Event
		d := gabion.New("db", policy.Policy{Safe: true, Hedge: hedge}, gabion.WithObserver(gabion.ObserverFunc(func(_ context.Context, e gabion.Event) {
			if events = append(events, e); e.Kind == policy.KindAttemptSent {
				runtime.Goexit()
			}
		})))
		inItsOwnGoroutine(func() {
			gabion.Do(t.Context(), d, func(context.Context) (int, error) { t.Error("it ran"); return 0, nil })
		})
		for _, e := range events {
			if e.Class == policy.ClassCrashed || e.Effect != policy.NoEffect {
				t.Errorf("%s: %+v", name, e)
			}
		}
		if len(events) < 2 {
			t.Errorf("%s: the end was not told", name)
		}
	}
}
