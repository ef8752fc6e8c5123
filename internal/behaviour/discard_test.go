package behaviour

import (
	"context"
	"fmt"
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

// Results that no caller gets are discarded once, whichever way they lose.
func TestLosersAreDiscardedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		gone := map[int]int{}
		d, rec := watched(policy.Policy{Safe: true, Hedge: policy.Hedge{Max: 2, Delay: 10 * time.Millisecond}, Retry: policy.Retry{Budget: free}},
			gabion.WithDiscard(func(v any) {
				mu.Lock()
				defer mu.Unlock()
				gone[v.(int)]++
			}))
		got, err := gabion.Do(t.Context(), d, func(ctx context.Context) (int, error) {
			n := gabion.AttemptNumber(ctx)
			time.Sleep([]time.Duration{0, 100, 30, 60}[n] * time.Millisecond) // deaf: every one brings a result
			return n, nil
		})
		synctest.Wait()
		time.Sleep(time.Second)
		if got != 2 || err != nil || len(gone) != 2 || gone[1] != 1 || gone[3] != 1 {
			t.Errorf("got %d, %v, discarded %v", got, err, gone)
		}
		if c := d.Stats().Main.Breaker.Counts; c.Calls != 1 || c.Failures != 0 {
			t.Errorf("losers are neutral, but the breaker counted %+v", c)
		}
		if n := count(rec, kind(policy.KindLoserSettled)); n != 2 {
			t.Errorf("%d losers reported", n)
		}
		nothingHeld(t, d)
	})
}

// Discard gets each result that no caller sees exactly once; a call's own goes before
// the dependency's.
func TestResultsOfRetriedAttemptsAreDiscardedOnce(t *testing.T) {
	bad := gabion.WithClassify(func(v any, _ error) policy.Outcome {
		if v.(int) < 3 {
			return policy.Outcome{Class: policy.ClassServer}
		}
		return policy.Outcome{}
	})
	for _, own := range []bool{false, true} {
		for _, hedges := range []int{0, 1} {
			synctest.Test(t, func(t *testing.T) {
				var theDependencys, theCalls []any
				d, _ := watched(policy.Policy{Safe: true, Hedge: policy.Hedge{Max: hedges, Delay: policy.Off}}, bad,
					gabion.WithDiscard(func(v any) { theDependencys = append(theDependencys, v) }))
				opts := []gabion.CallOption{}
				got, other := &theDependencys, &theCalls
				if own {
					opts = append(opts, gabion.WithDiscard(func(v any) { theCalls = append(theCalls, v) }))
					got, other = other, got
				}
				v, err := gabion.Do(t.Context(), d, func(ctx context.Context) (int, error) { return gabion.AttemptNumber(ctx), nil }, opts...)
				if v != 3 || err != nil || fmt.Sprint(*got) != "[1 2]" || len(*other) != 0 {
					t.Errorf("own=%v: got %d, %v, discarded %v and %v", own, v, err, *got, *other)
				}
			})
		}
	}
}

// Discard is the user's code too: a panic in it goes to the caller, and nothing
// that the call held is lost.
func TestAPanickingDiscardLosesNothing(t *testing.T) {
	unsent := gabion.WithClassify(func(any, error) policy.Outcome {
		return policy.Unsent(policy.ClassNetwork)
	})
	for _, immediate := range []bool{false, true} {
		for _, hedges := range []int{0, 1} {
			for verb, call := range verbs {
				t.Run(fmt.Sprintf("%s/hedge=%d/immediate=%v", verb, hedges, immediate), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						d, rec := watched(policy.Policy{
							Safe: true, Retry: policy.Retry{Immediate: immediate}, Breaker: eager(time.Second),
							Hedge: policy.Hedge{Max: hedges, Delay: policy.Off}, Bulkhead: policy.Bulkhead{Limit: 1, Queue: policy.Off},
						}, unsent, gabion.WithDiscard(func(any) { panic("boom") }))
						b, _ := d.Breaker("")
						b.ObserveOnly(0)
						got := panicOf(func() { call(t.Context(), d, works) })
						if (got == "boom") == (verb == "Run") { // Run has no results
							t.Errorf("it panicked with %v", got)
						}
						nothingHeld(t, d)
						if n := count(rec, kind(policy.KindReturned)); n != 1 {
							t.Errorf("the end of the call was reported %d times", n)
						}
						if s := d.Stats().Budget; verb != "Run" && !immediate && hedges == 0 && s.Sent != 0 {
							t.Errorf("budget %+v: a retry that was not made is charged", s)
						}
					})
				})
			}
		}
	}
}

func TestAPanickingDiscardOfALoserDoesNotEndTheProcess(t *testing.T) {
	for _, hedgeLoses := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			d, _ := watched(policy.Policy{Safe: true, Hedge: policy.Hedge{Max: 1, Delay: 10 * time.Millisecond}},
				gabion.WithDiscard(func(any) { panic("boom") }))
			panicOf(func() {
				gabion.Do(t.Context(), d, func(ctx context.Context) (int, error) {
					n := gabion.AttemptNumber(ctx)
					if (n == 2) == hedgeLoses {
						time.Sleep(time.Second)
					} else {
						time.Sleep(100 * time.Millisecond)
					}
					return n, nil
				})
			})
			time.Sleep(10 * time.Second)
			nothingHeld(t, d)
		})
	}
}

// What is discarded can still be drained, which needs its attempt's context;
// after that the context ends.
func TestDiscardComesBeforeTheEndOfTheContext(t *testing.T) {
	for _, hedges := range []int{0, 1} {
		synctest.Test(t, func(t *testing.T) {
			discarded := 0
			d, _ := watched(policy.Policy{Safe: true, Hedge: policy.Hedge{Max: hedges, Delay: policy.Off}},
				gabion.WithClassify(func(v any, _ error) policy.Outcome { return policy.Outcome{Class: policy.ClassServer} }),
				gabion.WithDiscard(func(v any) {
					discarded++
					if err := v.(context.Context).Err(); err != nil {
						t.Errorf("hedges=%d: discarded when its context says %v", hedges, err)
					}
				}))
			var all []context.Context
			_, a, _ := gabion.Open(t.Context(), d, func(ctx context.Context) (context.Context, error) {
				all = append(all, ctx)
				return ctx, nil
			})
			for i, ctx := range all[:len(all)-1] {
				if ctx.Err() != context.Canceled {
					t.Errorf("hedges=%d: attempt %d of %d lives on", hedges, i+1, len(all))
				}
			}
			if discarded != len(all)-1 || discarded < 2 {
				t.Errorf("%d discarded of %d", discarded, len(all))
			}
			a.Close(nil)
			nothingHeld(t, d)
		})
	}
}

// A lost result is discarded, also if an observer ends the goroutine on its event.
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

// A result whose classifier panics reaches no caller, and is discarded once, on every goroutine.
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

// A hedge brings a result that is wanted, and what it replaces is discarded by a function that
// panics, on the hedge's goroutine: the caller panics, and so does not close what the hedge
// brought.
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
				_, a, _ := gabion.Open(t.Context(), d, work, gabion.WithClassify(classify), gabion.WithDiscard(drop))
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
