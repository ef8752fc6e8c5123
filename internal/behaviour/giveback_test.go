package behaviour

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/gabiontest"
	"github.com/gabion-go/gabion/internal/breaker"
	"github.com/gabion-go/gabion/policy"
)

// One slot and one probe. Work that leaves without a result
// gives both back, or the second call of each case could not run.
func TestPermitsComeBackAfterPanicAndGoexit(t *testing.T) {
	hedged := policy.Hedge{Max: 1, Delay: time.Second}
	leave := map[string]func(context.Context) (int, error){
		"panic":  func(context.Context) (int, error) { panic("boom") },
		"goexit": func(context.Context) (int, error) { runtime.Goexit(); return 0, nil },
	}
	calls := map[string]func(*gabion.Dependency, func(context.Context) (int, error)){
		"do": func(d *gabion.Dependency, work func(context.Context) (int, error)) {
			gabion.Do(context.Background(), d, work, gabion.WithIdempotent())
		},
		"run": func(d *gabion.Dependency, work func(context.Context) (int, error)) {
			d.Run(context.Background(), func(ctx context.Context) error { _, err := work(ctx); return err })
		},
		"open": func(d *gabion.Dependency, work func(context.Context) (int, error)) {
			gabion.Open(context.Background(), d, work, gabion.WithIdempotent())
		},
		"begin": func(d *gabion.Dependency, work func(context.Context) (int, error)) {
			a, err := gabion.Begin(context.Background(), d)
			if err != nil {
				panic(err)
			}
			defer a.Close(nil)
			work(a.Context())
		},
	}
	for how, work := range leave {
		for verb, call := range calls {
			for _, hedge := range []policy.Hedge{{}, hedged} {
				t.Run(fmt.Sprintf("%s/%s/hedge=%d", how, verb, hedge.Max), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						d, rec := watched(policy.Policy{Hedge: hedge, Breaker: eager(time.Second), Bulkhead: policy.Bulkhead{Limit: 1, Queue: policy.Off}})
						d.Run(t.Context(), fails(errDown))
						wantState(t, d, breaker.Open)
						time.Sleep(time.Second) // the next call is the only probe
						inItsOwnGoroutine(func() {
							defer func() { recover() }()
							call(d, work)
						})
						nothingHeld(t, d)
						if s := d.Stats().Main.Breaker; s.State != breaker.HalfOpen || s.Counts.Calls != 0 {
							t.Errorf("a probe that left without a result says nothing, but the breaker is %s with %d counted", s.State, s.Counts.Calls)
						}
						if err := d.Run(t.Context(), works); err != nil {
							t.Errorf("the next call: %v", err)
						}
						if n := count(rec, func(e gabion.Event) bool {
							return e.Kind == policy.KindAttemptSettled && e.Class == policy.ClassCrashed
						}); n != 1 && verb != "begin" {
							t.Errorf("%d attempts were reported as crashed, want 1", n)
						}
					})
				})
			}
		}
	}
}

// A classifier is the user's code too: when it panics, nothing is lost.
func TestAPanickingClassifierLosesNothing(t *testing.T) {
	for _, hedges := range []int{0, 1} {
		synctest.Test(t, func(t *testing.T) {
			d, _ := watched(policy.Policy{Hedge: policy.Hedge{Off: hedges == 0, Max: hedges, Delay: time.Second}, Bulkhead: policy.Bulkhead{Limit: 1}},
				gabion.WithClassify(func(any, error) policy.Outcome { panic("boom") }))
			if got := panicOf(func() { gabion.Do(t.Context(), d, withResult(works), gabion.WithIdempotent()) }); got != "boom" {
				t.Errorf("it panicked with %v", got)
			}
			nothingHeld(t, d)
		})
	}
}

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
	late := func(ctx context.Context) (string, error) { // where the hedge has won
		time.Sleep(2 * time.Second)
		if gabion.AttemptNumber(ctx) == 1 {
			time.Sleep(2 * time.Second)
			panic("late")
		}
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
		{"Open, hedged, and the first panics late", hedged, func(ctx context.Context, d *gabion.Dependency) {
			defer func() { _ = recover() }() // where the hedge did not win
			if _, a, _ := gabion.Open(ctx, d, late); a != nil {
				a.Close(nil)
			}
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
					})), gabion.WithLogger(slog.New(slog.DiscardHandler)))
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

// faulty is a context of a caller's whose methods panic from some time on.
type faulty struct {
	context.Context
	err, deadline atomic.Bool
	done          atomic.Int32 // how many more times Done panics
}

func (f *faulty) Done() <-chan struct{} {
	if f.done.Add(-1) >= 0 {
		panic("Done")
	}
	return f.Context.Done()
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

// Ending an attempt's context asks the caller's context for Done, which is the caller's
// code: no lock is held then.
func TestACallersDoneMayPanicWhenAnAttemptEnds(t *testing.T) {
	listens := func(ctx context.Context) { ctx.Done() }
	both := func(n int, f *faulty) func(context.Context) (int, error) {
		return func(ctx context.Context) (int, error) {
			listens(ctx)
			if gabion.AttemptNumber(ctx) == 1 {
				<-ctx.Done() // until the hedge has won
				return 0, ctx.Err()
			}
			time.Sleep(time.Millisecond)
			f.done.Store(int32(n))
			return 7, nil
		}
	}
	ways := map[string]func(*faulty) func(context.Context) (int, error){
		"its own attempt's": func(f *faulty) func(context.Context) (int, error) {
			return func(ctx context.Context) (int, error) { listens(ctx); f.done.Store(1); return 7, nil }
		},
		"its own attempt's, twice": func(f *faulty) func(context.Context) (int, error) {
			return func(ctx context.Context) (int, error) { listens(ctx); f.done.Store(2); return 7, nil }
		},
		"the hedge's":           func(f *faulty) func(context.Context) (int, error) { return both(1, f) },
		"the hedge's and other": func(f *faulty) func(context.Context) (int, error) { return both(2, f) },
	}
	for name, hedge := range map[string]policy.Hedge{"serial": {}, "hedged": {Max: 1, Delay: time.Second}} {
		for way, work := range ways {
			if name == "serial" && strings.Contains(way, "hedge") {
				continue
			}
			for _, open := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, %s, open %v", name, way, open), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						d := gabion.New("db", policy.Policy{Safe: true, Hedge: hedge, Bulkhead: policy.Bulkhead{Limit: 2}})
						f := &faulty{Context: t.Context()}
						left := panicOf(func() {
							if !open {
								gabion.Do(f, d, work(f))
								return
							}
							_, a, err := gabion.Open(f, d, work(f))
							if err == nil {
								a.Close(nil)
							}
						})
						if left != "Done" {
							t.Errorf("the caller left with %v", left)
						}
						f.done.Store(0)
						time.Sleep(time.Minute)
						gabiontest.NothingHeld(t, d)
					})
				})
			}
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
		"Open, closed": {policy.Hedge{}, func(ctx context.Context, d *gabion.Dependency) {
			_, a, _ := gabion.Open(ctx, d, withResult(works))
			a.Close(nil)
			panic("work")
		}},
		"serial, answered": {policy.Hedge{}, func(ctx context.Context, d *gabion.Dependency) {
			gabion.Do(ctx, d, withResult(works))
			panic("work")
		}},
		"hedged, answered": {policy.Hedge{Max: 1, Delay: time.Second}, func(ctx context.Context, d *gabion.Dependency) {
			gabion.Do(ctx, d, withResult(works))
			panic("work")
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

// A loser that panics while the observer gets the winner's event takes nothing from the winner.
func TestAPanicOfALoserIsDropped(t *testing.T) {
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

// An event of the dependency reaches observers at once, whatever driver the call has.
func TestEveryDriverTellsWhatHappensToTheDependency(t *testing.T) {
	down := func(context.Context) (int, error) { return 0, errDown }
	for name, call := range map[string]func(*gabion.Dependency){
		"do":   func(d *gabion.Dependency) { gabion.Do(t.Context(), d, down) },
		"open": func(d *gabion.Dependency) { gabion.Open(t.Context(), d, down) },
		"begin and settle": func(d *gabion.Dependency) {
			a, err := gabion.Begin(t.Context(), d)
			if err == nil {
				a.Settle(errDown)
				a.Close(nil)
			}
		},
		"a result that breaks": func(d *gabion.Dependency) {
			_, a, err := gabion.Open(t.Context(), d, func(context.Context) (int, error) { return 1, nil })
			if err == nil {
				a.Close(errDown)
			}
		},
	} {
		for _, hedges := range []int{0, 1} {
			t.Run(fmt.Sprintf("%s, %d hedges", name, hedges), func(t *testing.T) {
				p := policy.Policy{Safe: true, Retry: policy.Retry{Attempts: 1}, Breaker: policy.Breaker{Consecutive: 1}}
				if hedges > 0 {
					p.Hedge = policy.Hedge{Max: hedges, Delay: time.Second}
				}
				moved := 0
				d := gabion.New("db", p, gabion.WithObserver(gabion.ObserverFunc(func(_ context.Context, e gabion.Event) {
					if e.Kind == policy.KindBreakerMoved {
						moved++
					}
				})))
				call(d)
				if moved != 1 {
					t.Errorf("the observer was told of %d moves of the breaker, want 1", moved)
				}
			})
		}
	}
}

func TestAResultIsClosedWhenTheCallersContextPanics(t *testing.T) {
	for name, hedge := range map[string]policy.Hedge{"serial": {}, "hedged": {Max: 1, Delay: time.Second}} {
		t.Run(name, func(t *testing.T) {
			d := gabion.New("db", policy.Policy{Safe: true, Hedge: hedge, Bulkhead: policy.Bulkhead{Limit: 2}})
			f := &faulty{Context: t.Context()}
			_, a, err := gabion.Open(f, d, func(context.Context) (int, error) { return 1, nil })
			if err != nil {
				t.Fatal(err)
			}
			f.err.Store(true)
			a.Close(errDown)
			gabiontest.NothingHeld(t, d)
		})
	}
}

// When one attempt of a hedged call leaves by a panic, the context of the other ends, so that
// its work does not go on in vain.
func TestAPanicEndsTheOtherAttemptsContext(t *testing.T) {
	for fact, panics := range map[string]int{"the caller's attempt": 1, "a hedge": 2} {
		t.Run(fact, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, _ := watched(policy.Policy{Safe: true, Hedge: policy.Hedge{Max: 1, Delay: time.Second}, Timeout: policy.Timeout{Attempt: policy.Off}})
				start, ended := time.Now(), make(chan error, 1)
				v := panicOf(func() {
					gabion.Do(t.Context(), d, func(ctx context.Context) (int, error) {
						if gabion.AttemptNumber(ctx) != panics {
							<-ctx.Done()
							ended <- ctx.Err()
							return 0, ctx.Err()
						}
						time.Sleep(2*time.Second - time.Since(start))
						panic("work")
					})
				})
				if err := <-ended; err != context.Canceled {
					t.Errorf("its context ended with %v", err)
				}
				wantElapsed(t, start, 2*time.Second)
				if v != "work" {
					t.Errorf("the caller's panic is %v", v)
				}
				nothingHeld(t, d)
			})
		})
	}
}

// A hedge whose call ended while observers were told of the hedge finds its context ended.
func TestAHedgeThatComesTooLateFindsItsContextEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := gabion.New("db", policy.Policy{Safe: true, Hedge: policy.Hedge{Max: 1, Delay: time.Second}},
			gabion.WithObserver(gabion.ObserverFunc(func(_ context.Context, e gabion.Event) {
				if e.Kind == policy.KindAttemptSent && e.Hedge {
					time.Sleep(2 * time.Second)
				}
			})))
		hedge := make(chan error, 1)
		gabion.Do(t.Context(), d, func(ctx context.Context) (int, error) {
			if gabion.AttemptNumber(ctx) == 2 {
				hedge <- ctx.Err()
				return 0, ctx.Err()
			}
			time.Sleep(1500 * time.Millisecond)
			return 1, nil
		})
		if err := <-hedge; err != context.Canceled {
			t.Errorf("its context ended with %v", err)
		}
	})
}

// The context of work that left ends, so that what the work began ends with it.
func TestTheContextOfWorkThatLeftEnds(t *testing.T) {
	for name, call := range map[string]func(*gabion.Dependency, func(context.Context) (int, error)){
		"Do": func(d *gabion.Dependency, work func(context.Context) (int, error)) {
			gabion.Do(context.Background(), d, work)
		},
		"Open": func(d *gabion.Dependency, work func(context.Context) (int, error)) {
			gabion.Open(context.Background(), d, work)
		},
		"Do, idempotent": func(d *gabion.Dependency, work func(context.Context) (int, error)) {
			gabion.Do(context.Background(), d, work, gabion.WithIdempotent())
		},
	} {
		for hedges, hedge := range []policy.Hedge{{Off: true}, {Max: 1, Delay: 10 * time.Second}} {
			t.Run(fmt.Sprintf("%s/hedge=%d", name, hedges), func(t *testing.T) {
				d := gabion.New("db", policy.Policy{Hedge: hedge})
				var seen context.Context
				if panicOf(func() { call(d, func(ctx context.Context) (int, error) { seen = ctx; panic("work") }) }) != "work" {
					t.Fatal("it did not panic")
				}
				if seen.Err() == nil {
					t.Error("its context goes on")
				}
			})
		}
	}
}

// A call that ends ends the contexts of the attempts that are out, also where a Tracer made
// them of another context than the caller's.
func TestACallThatEndsEndsTheContextsThatTracersMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := gabion.New("db", hedged(1, 10*time.Millisecond))
		defer d.Observe(&tracer{call: passes, attempt: func(ctx context.Context, _ gabion.Event) context.Context { return context.WithoutCancel(ctx) }})()
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		hold, seen := make(chan struct{}), make(chan context.Context, 1)
		_, err := gabion.Do(ctx, d, func(ctx context.Context) (int, error) {
			if gabion.AttemptNumber(ctx) == 2 {
				seen <- ctx
				<-hold
				return 0, errDown
			}
			time.Sleep(20 * time.Millisecond)
			return 0, errDown
		}, gabion.WithIdempotent())
		wantReason(t, err, policy.Canceled)
		if hedge := <-seen; hedge.Err() == nil {
			t.Error("the context of the hedge goes on")
		}
		close(hold)
		synctest.Wait()
		nothingHeld(t, d)
	})
}

// What keeps the time of a result serves one at a time, also after calls that an observer
// left when their attempt had ended.
func TestAWatchServesOneResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leave := true
		p := policy.Policy{Safe: true, Hedge: policy.Hedge{Off: true}, Breaker: policy.Breaker{Off: true}, Timeout: policy.Timeout{Body: time.Minute}}
		d := gabion.New("db", p, gabion.WithObserver(gabion.ObserverFunc(func(_ context.Context, e gabion.Event) {
			if leave && e.Kind == policy.KindAttemptSettled {
				runtime.Goexit()
			}
		})))
		for range 8 {
			inItsOwnGoroutine(func() { gabion.Open(t.Context(), d, withResult(fails(errDown))) })
		}
		leave = false
		var all []*gabion.Attempt
		for range 16 {
			all = append(all, live(t, t.Context(), d))
		}
		time.Sleep(2 * time.Minute)
		for n, a := range all {
			if cause := context.Cause(a.Context()); cause != error(policy.BodyTimeout) {
				t.Errorf("after two minutes of one, result %d: %v", n, cause)
			}
			a.Close(nil)
		}
		nothingHeld(t, d)
	})
}
