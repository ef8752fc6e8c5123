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

// A result whose classifier panics is nobody's, and is discarded once, whoever ran the
// work.
func TestAResultIsDiscardedWhenItsClassifierPanics(t *testing.T) {
	hedged := policy.Hedge{Max: 1, Delay: time.Second}
	do := func(ctx context.Context, d *gabion.Dependency, work func(context.Context) (int, error)) {
		gabion.Do(ctx, d, work)
	}
	open := func(ctx context.Context, d *gabion.Dependency, work func(context.Context) (int, error)) {
		_, a, _ := gabion.Open(ctx, d, work)
		a.Close(nil)
	}
	cases := []struct {
		name  string
		hedge policy.Hedge
		bad   int // the attempt whose classifier panics
		call  func(context.Context, *gabion.Dependency, func(context.Context) (int, error))
	}{
		{"Do", policy.Hedge{}, 1, do},
		{"Open", policy.Hedge{}, 1, open},
		{"Do, first of two", hedged, 1, do},
		{"Open, first of two", hedged, 1, open},
		{"Do, a hedge", hedged, 2, do},
		{"Open, a hedge", hedged, 2, open},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var brought, discarded, alive atomic.Int32
				d := gabion.New("db", policy.Policy{Safe: true, Hedge: c.hedge},
					gabion.WithClassify(func(v any, _ error) policy.Outcome {
						if v == c.bad {
							panic("classifier")
						}
						return policy.Outcome{}
					}),
					gabion.WithDiscard(func(any) { discarded.Add(1) }))
				v := panicOf(func() {
					c.call(t.Context(), d, func(ctx context.Context) (int, error) {
						alive.Add(1)
						context.AfterFunc(ctx, func() { alive.Add(-1) })
						n := gabion.AttemptNumber(ctx)
						if n == c.bad {
							time.Sleep(1500 * time.Millisecond)
						} else {
							time.Sleep(5 * time.Second)
						}
						brought.Add(1)
						return n, nil
					})
				})
				if v != "classifier" {
					t.Errorf("the caller's panic is %v", v)
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				if brought.Load() == 0 || brought.Load() != discarded.Load() || alive.Load() != 0 {
					t.Errorf("%d results, %d discarded, %d contexts live on", brought.Load(), discarded.Load(), alive.Load())
				}
				gabiontest.NothingHeld(t, d)
			})
		})
	}
}

// Instances that a user's code left in the middle of a call are idle like others, and
// are forgotten when there is no room.
func TestAnInstanceThatWasLeftIsIdle(t *testing.T) {
	calls := map[string]struct {
		hedge policy.Hedge
		call  func(context.Context, *gabion.Dependency)
	}{
		"serial": {policy.Hedge{}, func(ctx context.Context, d *gabion.Dependency) {
			gabion.Do(ctx, d, func(context.Context) (int, error) { panic("work") })
		}},
		"hedged": {policy.Hedge{Max: 1, Delay: time.Second}, func(ctx context.Context, d *gabion.Dependency) {
			gabion.Do(ctx, d, func(context.Context) (int, error) { panic("work") })
		}},
		"Open": {policy.Hedge{}, func(ctx context.Context, d *gabion.Dependency) {
			gabion.Open(ctx, d, func(context.Context) (int, error) { panic("work") })
		}},
	}
	for name, c := range calls {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, err := gabion.NewRegistry(map[string]policy.Policy{"db": {Safe: true, Hedge: c.hedge}})
				if err != nil {
					t.Fatal(err)
				}
				for i := range 1000 {
					d, _ := r.Instance("db", fmt.Sprint(i))
					if panicOf(func() { c.call(t.Context(), d) }) != "work" {
						t.Fatal("it did not panic")
					}
				}
				time.Sleep(11 * time.Minute)
				if r.Instance("db", "another"); r.Spilled() != 0 {
					t.Error("none of a thousand is idle")
				}
			})
		})
	}
}

// Who gives up and then panics gave up: the call is canceled, and the attempt is a loser.
func TestAPanicAfterACancelIsACancel(t *testing.T) {
	for name, hedge := range map[string]policy.Hedge{"serial": {}, "hedged": {Max: 1, Delay: time.Second}} {
		synctest.Test(t, func(t *testing.T) {
			d, rec := watched(policy.Policy{Safe: true, Hedge: hedge})
			ctx, cancel := context.WithCancel(t.Context())
			panicOf(func() {
				gabion.Do(ctx, d, func(context.Context) (int, error) { cancel(); panic("work") })
			})
			if n := count(rec, func(e gabion.Event) bool { return e.Kind == policy.KindReturned && e.Reason == policy.Canceled }); n != 1 {
				t.Errorf("%s: %v", name, rec.Decisions())
			}
		})
	}
}

// A caller that waits for its retry learns of a hedge's panic at once.
func TestAPanicOfAHedgeWakesItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, _ := watched(policy.Policy{Safe: true, Hedge: policy.Hedge{Max: 1, Delay: time.Second}})
		start := time.Now()
		v := panicOf(func() {
			gabion.Do(t.Context(), d, func(ctx context.Context) (int, error) {
				time.Sleep(1500 * time.Millisecond)
				if gabion.AttemptNumber(ctx) == 2 {
					panic("hedge")
				}
				return 0, errDown
			})
		})
		wantElapsed(t, start, 2500*time.Millisecond)
		if v != "hedge" {
			t.Errorf("the caller's panic is %v", v)
		}
		nothingHeld(t, d)
	})
}

// A loser that panics while the observer is told of the winner takes nothing from it.
func TestAPanicOfALoserIsNobodys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := gabion.ObserverFunc(func(_ context.Context, e gabion.Event) {
			if e.Kind == policy.KindReturned {
				time.Sleep(time.Second)
			}
		})
		d := gabion.New("db", policy.Policy{Safe: true, Hedge: policy.Hedge{Max: 1, Delay: time.Second}}, gabion.WithObserver(slow))
		v, err := gabion.Do(t.Context(), d, func(ctx context.Context) (int, error) {
			if gabion.AttemptNumber(ctx) == 2 {
				time.Sleep(1500 * time.Millisecond)
				panic("loser")
			}
			time.Sleep(2 * time.Second)
			return 1, nil
		})
		if v != 1 || err != nil {
			t.Errorf("%d, %v", v, err)
		}
		nothingHeld(t, d)
	})
}

// A result that a hedge replaced was discarded, and is not discarded again when the
// caller's context panics after that.
func TestAReplacedResultIsDiscardedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &faulty{Context: t.Context()}
		var discarded []any
		bad := func(any, error) policy.Outcome { return policy.Outcome{Class: policy.ClassServer} }
		d := gabion.New("db", policy.Policy{Safe: true, Retry: policy.Retry{Budget: free}, Hedge: policy.Hedge{Max: 1, Delay: time.Second}},
			gabion.WithClassify(bad),
			gabion.WithDiscard(func(v any) { discarded = append(discarded, v); f.err.Store(true) }))
		if panicOf(func() {
			gabion.Do(f, d, func(ctx context.Context) (int, error) {
				time.Sleep(1500 * time.Millisecond)
				return gabion.AttemptNumber(ctx), nil
			})
		}) != "Err" {
			t.Error("it did not panic")
		}
		time.Sleep(time.Minute)
		if fmt.Sprint(discarded) != "[1 2]" {
			t.Errorf("discarded: %v", discarded)
		}
		nothingHeld(t, d)
	})
}

// On a hedge's goroutine a second panic, of Discard, does not end the process either.
func TestASecondPanicOfAHedgeIsNobodys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := gabion.New("db", policy.Policy{Safe: true, Hedge: policy.Hedge{Max: 1, Delay: time.Second}},
			gabion.WithClassify(func(any, error) policy.Outcome { panic("classifier") }),
			gabion.WithDiscard(func(any) { panic("discard") }))
		v := panicOf(func() {
			gabion.Do(t.Context(), d, func(ctx context.Context) (int, error) {
				time.Sleep(3 * time.Second / time.Duration(gabion.AttemptNumber(ctx)))
				return 1, nil
			})
		})
		if v == nil {
			t.Error("no panic reached the caller")
		}
		time.Sleep(time.Minute)
		nothingHeld(t, d)
	})
}

// A hedge brings a result that is wanted, and what it replaces is discarded by a
// function that panics, on the hedge's goroutine: the caller panics, and so nobody
// closes what the hedge brought.
func TestAPanicOfDiscardWhileAHedgeWinsLeavesNothingHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := gabion.New("db", policy.Policy{Safe: true, Hedge: policy.Hedge{Max: 1, Delay: time.Second}})
		work := func(ctx context.Context) (string, error) {
			if gabion.AttemptNumber(ctx) == 1 {
				time.Sleep(2 * time.Second)
				return "failed", nil
			}
			time.Sleep(1500 * time.Millisecond) // the first has settled by then
			return "good", nil
		}
		classify := func(v any, _ error) policy.Outcome {
			if v == "failed" {
				return policy.Outcome{Class: policy.ClassServer}
			}
			return policy.Outcome{}
		}
		drop := func(v any) {
			if v == "failed" {
				panic(v)
			}
		}
		panics := 0
		for range 100 { // the caller may be quicker than the panic
			if v := panicOf(func() {
				_, a, _ := gabion.Open(t.Context(), d, work, gabion.ClassifyWith(classify), gabion.DiscardWith(drop))
				a.Close(nil)
			}); v != nil {
				panics++
			}
		}
		if panics == 0 {
			t.Error("no panic reached its caller: nothing was tested")
		}
		gabiontest.NothingHeld(t, d)
	})
}
