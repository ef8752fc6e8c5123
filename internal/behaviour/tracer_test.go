package behaviour

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/gabiontest"
	"github.com/gabion-go/gabion/policy"
)

// tracer is a Tracer that is given what it does.
type tracer struct {
	call, attempt func(context.Context, gabion.Event) context.Context
	observe       func(context.Context, gabion.Event)
	leaves        bool // it follows no call
}

func (t *tracer) TraceCall(ctx context.Context, e gabion.Event) (context.Context, bool) {
	return t.call(ctx, e), !t.leaves
}

func (t *tracer) TraceAttempt(ctx context.Context, e gabion.Event) context.Context {
	return t.attempt(ctx, e)
}

func (t *tracer) Observe(ctx context.Context, e gabion.Event) {
	if t.observe != nil {
		t.observe(ctx, e)
	}
}

func passes(ctx context.Context, _ gabion.Event) context.Context { return ctx }

type mark struct{ of string }

// marks is a Tracer that leaves a mark in each context, and counts.
func marks(name string, calls, attempts *atomic.Int64) *tracer {
	return &tracer{
		call: func(ctx context.Context, e gabion.Event) context.Context {
			calls.Add(1)
			return context.WithValue(ctx, mark{name + " call"}, e.Call)
		},
		attempt: func(ctx context.Context, e gabion.Event) context.Context {
			attempts.Add(1)
			return context.WithValue(ctx, mark{name + " attempt"}, e.Attempt)
		},
	}
}

// tracedPolicies are those of the two drivers.
var tracedPolicies = map[string]policy.Policy{
	"serial": {Safe: true, Retry: policy.Retry{Backoff: every(time.Millisecond), Budget: free, Hold: policy.Off}},
	"hedged": {
		Safe: true, Retry: policy.Retry{Backoff: every(time.Millisecond), Budget: free, Hold: policy.Off},
		Hedge: policy.Hedge{Max: 1, Delay: 10 * time.Millisecond, Percentile: policy.Off},
	},
}

func TestAnAttemptSeesWhatTheTracersPutIntoItsContext(t *testing.T) {
	for driver, p := range tracedPolicies {
		for verb, call := range waiting {
			t.Run(driver+"/"+verb, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var calls, attempts atomic.Int64
					d := gabion.New("db", p, gabion.WithObserver(marks("one", &calls, &attempts)), gabion.WithObserver(marks("two", &calls, &attempts)),
						gabion.WithObserver(gabion.ObserverFunc(func(ctx context.Context, e gabion.Event) {
							if e.Call != 0 && (ctx.Value(mark{"one call"}) != e.Call || ctx.Value(mark{"two call"}) != e.Call) {
								t.Errorf("an event comes without the call's context: %s", e)
							}
						})))
					var seen atomic.Int64
					call(t.Context(), d, func(ctx context.Context) error {
						seen.Add(1)
						n := uint8(gabion.AttemptNumber(ctx))
						if ctx.Value(mark{"one attempt"}) != n || ctx.Value(mark{"two attempt"}) != n {
							t.Errorf("attempt %d has the contexts of %v and %v", n, ctx.Value(mark{"one attempt"}), ctx.Value(mark{"two attempt"}))
						}
						if n == 1 {
							time.Sleep(20 * time.Millisecond) // the hedge begins in this time
							return errDown
						}
						return nil
					})
					synctest.Wait()
					time.Sleep(time.Second)
					if calls.Load() != 2 || attempts.Load() != 2*seen.Load() {
						t.Errorf("%d calls and %d attempts were traced, of %d attempts", calls.Load(), attempts.Load(), seen.Load())
					}
				})
			})
		}
	}
}

// What a bad Tracer may do.
var rude = map[string]func(context.Context, gabion.Event) context.Context{
	"panics":      func(context.Context, gabion.Event) context.Context { panic("tracer") },
	"returns nil": func(context.Context, gabion.Event) context.Context { return nil },
	"takes long": func(ctx context.Context, _ gabion.Event) context.Context {
		time.Sleep(5 * time.Second)
		return ctx
	},
}

func TestATracerTakesNothingFromCalls(t *testing.T) {
	for driver, p := range tracedPolicies {
		p.Timeout = policy.Timeout{Call: time.Minute, Attempt: time.Second}
		for how, put := range rude {
			for _, where := range []string{"call", "attempt"} {
				for verb, call := range waiting {
					t.Run(fmt.Sprintf("%s/%s/%s/%s", driver, how, where, verb), func(t *testing.T) {
						synctest.Test(t, func(t *testing.T) {
							bad := &tracer{call: passes, attempt: passes}
							if where == "call" {
								bad.call = put
							} else {
								bad.attempt = put
							}
							var calls, attempts atomic.Int64
							d := gabion.New("db", p, gabion.WithObserver(bad), gabion.WithObserver(marks("good", &calls, &attempts)), gabion.WithLogger(slog.New(slog.DiscardHandler)))
							for range 3 {
								err := call(t.Context(), d, func(ctx context.Context) error {
									if ctx.Value(mark{"good call"}) == nil || ctx.Value(mark{"good attempt"}) == nil {
										t.Error("what the other tracer put is missing")
									}
									time.Sleep(time.Millisecond)
									return ctx.Err()
								})
								if err != nil {
									t.Error(err)
								}
							}
							if calls.Load() != 3 || attempts.Load() != 3 {
								t.Errorf("%d calls and %d attempts", calls.Load(), attempts.Load())
							}
							nothingHeld(t, d)
						})
					})
				}
			}
		}
	}
}

// A Tracer that leaves the goroutine ends its call, and nothing of it stays behind.
func TestATracerThatLeavesLeavesNothingBehind(t *testing.T) {
	leaves := func(context.Context, gabion.Event) context.Context { runtime.Goexit(); return nil }
	for driver, p := range tracedPolicies {
		for verb, call := range waiting {
			for _, where := range []string{"call", "attempt", "second attempt"} {
				t.Run(driver+"/"+verb+"/"+where, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						bad := &tracer{call: passes, attempt: passes}
						switch where {
						case "call":
							bad.call = leaves
						case "attempt":
							bad.attempt = leaves
						default:
							bad.attempt = func(ctx context.Context, e gabion.Event) context.Context {
								if e.Attempt == 2 {
									runtime.Goexit()
								}
								return ctx
							}
						}
						d := gabion.New("db", p)
						stop := d.Observe(bad)
						seen := new(gabiontest.Recorder)
						d.Observe(seen)
						inItsOwnGoroutine(func() {
							call(t.Context(), d, func(ctx context.Context) error {
								time.Sleep(20 * time.Millisecond)
								if gabion.AttemptNumber(ctx) == 1 {
									return errDown
								}
								return nil
							})
						})
						time.Sleep(time.Second)
						nothingHeld(t, d)
						sent, ended := count(seen, kind(policy.KindAttemptSent)), count(seen, kind(policy.KindAttemptSettled))+count(seen, kind(policy.KindLoserSettled))
						if sent != ended {
							t.Errorf("%d attempts were sent, and %d ended", sent, ended)
						}
						stop()
						if err := call(t.Context(), d, works); err != nil {
							t.Errorf("the next call: %v", err)
						}
						nothingHeld(t, d)
					})
				})
			}
		}
	}
}

// A call keeps the context that it began with when a Tracer comes or goes during it.
func TestTracersComeAndGoDuringACall(t *testing.T) {
	for driver, p := range tracedPolicies {
		for verb, call := range waiting {
			t.Run(driver+"/"+verb, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var calls, attempts atomic.Int64
					d, other := gabion.New("db", p), new(gabiontest.Recorder)
					d.Observe(other) // so that the call is numbered
					early := d.Observe(marks("early", &calls, &attempts))
					var stop func()
					call(t.Context(), d, func(ctx context.Context) error {
						if gabion.AttemptNumber(ctx) == 1 {
							early()
							stop = d.Observe(marks("late", &calls, &attempts))
							return errDown
						}
						if ctx.Value(mark{"early call"}) == nil || ctx.Value(mark{"early attempt"}) != nil || ctx.Value(mark{"late call"}) != nil || ctx.Value(mark{"late attempt"}) == nil {
							t.Error("the second attempt has another context")
						}
						return nil
					})
					stop()
					nothingHeld(t, d)
				})
			})
		}
	}
}

// A call that a Tracer does not follow is not for it, and is for all others.
func TestATracerNeedNotFollowACall(t *testing.T) {
	for name, p := range tracedPolicies {
		t.Run(name, func(t *testing.T) {
			var calls, attempts, told atomic.Int64
			one, other, all := marks("one", &calls, &attempts), marks("other", new(atomic.Int64), new(atomic.Int64)), new(gabiontest.Recorder)
			one.leaves = true
			one.observe = func(_ context.Context, e gabion.Event) {
				if e.Call != 0 {
					told.Add(1)
				}
			}
			d := gabion.New("db", p, gabion.WithObserver(one), gabion.WithObserver(other), gabion.WithObserver(all))
			var seen context.Context
			_, err := gabion.Do(t.Context(), d, func(ctx context.Context) (int, error) { seen = ctx; return 1, nil })
			if err != nil || calls.Load() != 1 || attempts.Load() != 0 || told.Load() != 0 || len(all.Events()) < 3 {
				t.Errorf("%v: it was asked for %d calls and %d attempts, and told %d events; another one %q", err, calls.Load(), attempts.Load(), told.Load(), all.Decisions())
			}
			if seen.Value(mark{"one call"}) == nil || seen.Value(mark{"one attempt"}) != nil || seen.Value(mark{"other attempt"}) == nil {
				t.Error("the work does not see what the call's context has, or what the other one put into the attempt's")
			}
			handOn(t, d, "").Reset()
			stop := d.Observe(gabion.ObserverFunc(func(context.Context, gabion.Event) {}))
			stop()
			one.leaves = false
			d.Run(t.Context(), works)
			if attempts.Load() != 1 || told.Load() < 3 {
				t.Errorf("of a call that it follows: %d attempts, %d events", attempts.Load(), told.Load())
			}
		})
	}
}

// Others come and go during a call. A Tracer that does not follow it stays out of it.
func TestWhoDoesNotFollowACallStaysOutWhenOthersComeAndGo(t *testing.T) {
	var calls, attempts, told atomic.Int64
	out := marks("out", &calls, &attempts)
	out.leaves = true
	out.observe = func(context.Context, gabion.Event) { told.Add(1) }
	d := gabion.New("db", policy.Policy{Safe: true, Retry: policy.Retry{Backoff: every(time.Millisecond), Budget: free, Hold: policy.Off}})
	first := d.Observe(new(gabiontest.Recorder))
	defer d.Observe(out)()
	all := new(gabiontest.Recorder)
	stop := func() {}
	err := d.Run(t.Context(), func(ctx context.Context) error {
		if gabion.AttemptNumber(ctx) == 1 {
			first()
			stop = d.Observe(all)
			return errDown
		}
		return nil
	})
	defer stop()
	if err != nil || attempts.Load() != 0 || told.Load() != 0 || len(all.Events()) < 2 {
		t.Errorf("%v: it was asked for %d attempts and told %d events, and who came %q", err, attempts.Load(), told.Load(), all.Decisions())
	}
}

func TestAnObserverThatHasGoneIsNotKeptByAnAttemptThatIsOpen(t *testing.T) {
	var freed atomic.Bool
	d := gabion.New("db", policy.Policy{})
	attached := func() (stop func()) {
		gone := new(gabiontest.Recorder)
		runtime.AddCleanup(gone, func(f *atomic.Bool) { f.Store(true) }, &freed)
		return d.Observe(gone)
	}
	a := func() *gabion.Attempt {
		defer attached()()
		a, err := gabion.Begin(t.Context(), d)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}()
	defer a.Close(nil)
	for range 1000 {
		if runtime.GC(); freed.Load() {
			return
		}
	}
	t.Error("it is kept")
}
