package behaviour

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/gabiontest"
	"github.com/gabion-go/gabion/policy"
)

func TestSettleAfterCloseKeepsTheError(t *testing.T) {
	d := gabion.New("db", policy.Policy{Bulkhead: policy.Bulkhead{Limit: 1}})
	a := begin(t, d)
	a.Close(nil)
	err := a.Settle(errDown)
	if asError(t, err); !errors.Is(err, errDown) {
		t.Errorf("it says %v", err)
	}
	if err := a.Settle(nil); err != nil {
		t.Errorf("of a success it says %v", err)
	}
	_, a, err = gabion.Open(t.Context(), d, withResult(works))
	if err != nil {
		t.Fatal(err)
	}
	a.Close(nil)
	if err := a.Settle(errDown); !errors.Is(err, errDown) {
		t.Errorf("of an open result it says %v", err)
	}
	gabiontest.NothingHeld(t, d)
}

func begin(t *testing.T, d *gabion.Dependency, opts ...gabion.CallOption) *gabion.Attempt {
	t.Helper()
	a, err := gabion.Begin(t.Context(), d, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func counts(d *gabion.Dependency) (calls, failures int64) {
	c := d.Stats().Main.Breaker.Counts
	return c.Calls, c.Failures
}

// Only the first word about an attempt counts, in any order and number of verbs.
func TestAnAttemptByHandSettlesAndClosesOnce(t *testing.T) {
	cases := []struct {
		name            string
		do              func(*gabion.Attempt)
		calls, failures int64
	}{
		{"success", func(a *gabion.Attempt) { a.Settle(nil); a.Close(nil) }, 1, 0},
		{"failure", func(a *gabion.Attempt) { a.Settle(errDown); a.Close(nil) }, 1, 1},
		{"a declined card is an answer", func(a *gabion.Attempt) {
			a.SettleOutcome(policy.Outcome{Class: policy.ClassBusiness}, errPermanent)
			a.Close(nil)
		}, 1, 0},
		{"settled twice", func(a *gabion.Attempt) { a.Settle(nil); a.Settle(errDown); a.Close(nil) }, 1, 0},
		{"failed, and broke too", func(a *gabion.Attempt) { a.Settle(errDown); a.Close(errDown) }, 1, 1},
		{"closed twice", func(a *gabion.Attempt) { a.Settle(nil); a.Close(nil); a.Close(errDown) }, 1, 0},
		{"closed and never settled", func(a *gabion.Attempt) { a.Close(nil) }, 0, 0},
		{"closed with an error and never settled", func(a *gabion.Attempt) { a.Close(errDown) }, 0, 0},
		{"settled after the close", func(a *gabion.Attempt) { a.Close(nil); a.Settle(errDown); a.Close(errDown) }, 0, 0},
		{"broke after its verdict", func(a *gabion.Attempt) { a.Settle(nil); a.Close(errDown) }, 1, 1},
		{"broke, and closed twice", func(a *gabion.Attempt) { a.Settle(nil); a.Close(errDown); a.Close(errDown) }, 1, 1},
	}
	for _, c := range cases {
		for _, whole := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/slot of the whole call=%v", c.name, whole), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					p := policy.Policy{Bulkhead: policy.Bulkhead{Limit: 1, Queue: policy.Off}}
					if whole {
						p.Bulkhead.Per = policy.PerCall
					}
					d, _ := watched(p)
					a := begin(t, d)
					if d.Stats().Bulkhead.InUse != 1 {
						t.Error("it holds no slot")
					}
					c.do(a)
					if calls, failures := counts(d); calls != c.calls || failures != c.failures {
						t.Errorf("the breaker counted %d calls and %d failures, want %d and %d", calls, failures, c.calls, c.failures)
					}
					nothingHeld(t, d)
					if a.Context().Err() != context.Canceled {
						t.Errorf("its context says %v", a.Context().Err())
					}
					begin(t, d).Close(nil) // there is room again
				})
			})
		}
	}
}

// What Settle says is what Do would have said.
func TestSettleReturnsWhatDoWould(t *testing.T) {
	for _, err := range []error{nil, errDown, errPermanent, errUnsaid} {
		synctest.Test(t, func(t *testing.T) {
			d, _ := watched(policy.Policy{Safe: true, Retry: policy.Retry{Attempts: 1}})
			want := d.Run(t.Context(), fails(err), gabion.WithoutRetry())
			a := begin(t, d)
			got := a.Settle(err)
			if again := a.Settle(err); fmt.Sprint(again) != fmt.Sprint(got) {
				t.Errorf("a second Settle says %v, the first said %v", again, got)
			}
			a.Close(nil)
			if fmt.Sprint(got) != fmt.Sprint(want) || errors.Is(got, errDown) != (err == errDown) {
				t.Errorf("Settle says %v, Do says %v", got, want)
			}
		})
	}
}

func TestAnAttemptsCancelAndDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, _ := watched(policy.Policy{Timeout: policy.Timeout{Call: 2 * time.Second, Attempt: time.Second}})
		ctx, cancel := context.WithCancel(t.Context())
		a, err := gabion.Begin(ctx, d)
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		wantReason(t, a.Settle(a.Context().Err()), policy.Canceled)
		a.Close(errDown) // because the caller gave up
		if calls, failures := counts(d); calls != 0 || failures != 0 {
			t.Errorf("the caller's cancel was counted: %d, %d", calls, failures)
		}

		a = begin(t, d)
		<-a.Context().Done()
		err = a.Settle(a.Context().Err())
		if gabion.EffectOf(err) != policy.UnknownEffect || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("after its deadline it says %v", err)
		}
		a.Close(nil)
		if _, failures := counts(d); failures != 1 {
			t.Errorf("%d failures", failures)
		}
		nothingHeld(t, d)
	})
}

// Begin waits for its slot as Do does.
func TestBeginWaitsForItsSlotAndCanBeRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, _ := watched(policy.Policy{Bulkhead: policy.Bulkhead{Limit: 1, Queue: 1}})
		first := begin(t, d)
		var second *gabion.Attempt
		var wg sync.WaitGroup
		wg.Go(func() { second = begin(t, d) })
		synctest.Wait()
		_, err := gabion.Begin(t.Context(), d)
		wantReason(t, err, policy.BulkheadFull)
		first.Close(nil)
		wg.Wait()
		start := time.Now()
		_, err = gabion.Begin(t.Context(), d)
		wantReason(t, err, policy.QueueTimeout)
		wantElapsed(t, start, time.Second)
		second.Close(nil)
		nothingHeld(t, d)
		ctx, cancel := context.WithCancel(t.Context())
		first = begin(t, d)
		time.AfterFunc(time.Millisecond, cancel)
		_, err = gabion.Begin(ctx, d)
		wantReason(t, err, policy.Canceled)
		first.Close(nil)
		nothingHeld(t, d)
	})
}

func TestAnAttemptIsSafeForConcurrentUse(t *testing.T) {
	d, _ := watched(policy.Policy{Breaker: policy.Breaker{MinCalls: 1 << 20}})
	for range 200 {
		a := begin(t, d)
		var wg sync.WaitGroup
		for i := range 4 {
			wg.Go(func() {
				if i%2 == 0 {
					a.Settle(errDown)
				}
				a.Context().Err()
				a.Close(errDown)
			})
		}
		wg.Wait()
	}
	gabiontest.NothingHeld(t, d)
}

func TestOpenGivesNoAttemptWithoutAResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, hedges := range []int{0, 1} {
			d, _ := watched(policy.Policy{Safe: true, Hedge: policy.Hedge{Off: hedges == 0, Max: hedges, Delay: time.Second}})
			_, a, err := gabion.Open(t.Context(), d, withResult(fails(errDown)))
			if a != nil || err == nil {
				t.Errorf("%v, %v", a, err)
			}
			nothingHeld(t, d)
		}
	})
}

// A caller that leaves while it waits for the retry gets no attempt of a result that was
// discarded for that.
func TestOpenGivesNoAttemptOfADiscardedResult(t *testing.T) {
	for hedges, hedge := range []policy.Hedge{{Off: true}, {Max: 1, Delay: 10 * time.Second}} {
		t.Run(fmt.Sprintf("hedge=%d", hedges), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				gone := 0
				d, _ := watched(policy.Policy{Safe: true, Hedge: hedge, Retry: policy.Retry{Backoff: every(time.Second)}},
					says(policy.Outcome{Class: policy.ClassServer}), gabion.WithDiscard(func(any) { gone++ }))
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(500*time.Millisecond, cancel)
				runs := 0
				_, a, err := gabion.Open(ctx, d, func(context.Context) (int, error) { runs++; return 1, nil })
				wantReason(t, err, policy.Canceled)
				if a != nil || gone != runs {
					t.Errorf("it has an attempt: %v; %d of %d results were discarded", a != nil, gone, runs)
				}
				nothingHeld(t, d)
			})
		})
	}
}

// An open result holds the only slot. The retry must not wait for it.
func TestOpenRetriesWithOneSlot(t *testing.T) {
	for _, hedges := range []int{0, 1} {
		for _, wait := range []time.Duration{time.Millisecond, time.Second} {
			t.Run(fmt.Sprintf("hedge=%d/%s", hedges, wait), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var gone atomic.Int64
					d, _ := watched(policy.Policy{
						Safe: true, Retry: policy.Retry{Backoff: every(wait)},
						Bulkhead: policy.Bulkhead{Limit: 1, Queue: 1, QueueTimeout: policy.Off},
						Hedge:    policy.Hedge{Max: hedges, Delay: policy.Off},
					}, gabion.WithClassify(func(v any, err error) policy.Outcome {
						if v == 503 {
							return policy.Outcome{Class: policy.ClassServer}
						}
						return policy.Outcome{}
					}), gabion.WithDiscard(func(v any) { gone.Add(1) }))
					n := 0
					v, a, err := gabion.Open(t.Context(), d, func(context.Context) (int, error) {
						if n++; n < 3 {
							return 503, nil
						}
						return 200, nil
					})
					if v != 200 || err != nil || a == nil {
						t.Fatal(v, a, err)
					}
					if gone.Load() != 2 || d.Stats().Bulkhead.InUse != 1 {
						t.Errorf("%d results discarded, %d slots in use", gone.Load(), d.Stats().Bulkhead.InUse)
					}
					a.Close(nil)
					nothingHeld(t, d)

					v, a, err = gabion.Open(t.Context(), d, func(context.Context) (int, error) { return 503, nil })
					if v != 503 || err == nil || a == nil || a.Context().Err() != nil {
						t.Fatalf("the last result is the caller's also on failure: %v, %v, %v", v, a, err)
					}
					a.Close(nil)
					nothingHeld(t, d)
				})
			})
		}
	}
}

// A hedge that wins an Open stays open, and the loser's result is discarded.
func TestOpenWithAHedgeThatWins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var gone atomic.Int64
		d, _ := watched(policy.Policy{Safe: true, Hedge: policy.Hedge{Max: 1, Delay: 10 * time.Millisecond}},
			gabion.WithDiscard(func(v any) { gone.Add(int64(v.(int))) }))
		v, a, err := gabion.Open(t.Context(), d, func(ctx context.Context) (int, error) {
			n := gabion.AttemptNumber(ctx)
			if n == 1 {
				time.Sleep(time.Second) // deaf, and it brings a result after all
			}
			return n, nil
		})
		if v != 2 || err != nil || a.Context().Err() != nil || gone.Load() != 1 {
			t.Errorf("%d, %v, its context says %v, discarded %d", v, err, a.Context().Err(), gone.Load())
		}
		if d.Stats().Bulkhead.InUse != 1 {
			t.Errorf("%+v", d.Stats().Bulkhead)
		}
		a.Close(nil)
		nothingHeld(t, d)
	})
}

// A result that failed by what it says is open until a sibling does better.
func TestOpenGivesBackAFailureThatAHedgeReplaces(t *testing.T) {
	for _, hedgeFails := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var gone atomic.Int64
			d, _ := watched(policy.Policy{Safe: true, Hedge: policy.Hedge{Max: 1, Delay: 10 * time.Millisecond}},
				gabion.WithDiscard(func(v any) { gone.Add(int64(v.(int))) }),
				gabion.WithClassify(func(v any, _ error) policy.Outcome {
					if v == 503 {
						return policy.Outcome{Class: policy.ClassServer}
					}
					return policy.Outcome{}
				}))
			v, a, err := gabion.Open(t.Context(), d, func(ctx context.Context) (int, error) {
				if (gabion.AttemptNumber(ctx) == 2) == hedgeFails {
					time.Sleep(50 * time.Millisecond)
					return 503, nil
				}
				time.Sleep(100 * time.Millisecond)
				return 200, nil
			})
			synctest.Wait() // a hedge discards on its own goroutine, when the caller may have its answer
			if v != 200 || err != nil || gone.Load() != 503 {
				t.Errorf("%d, %v, discarded %d", v, err, gone.Load())
			}
			if s := d.Stats().Bulkhead; s.InUse != 1 {
				t.Errorf("%d slots in use for one open result", s.InUse)
			}
			a.Close(nil)
			nothingHeld(t, d)
		})
	}
}

// The memory of a call that ended well serves the next one.
func TestAClosedAttemptTouchesNothingOfTheNextCall(t *testing.T) {
	var events gabiontest.Recorder
	d := gabion.New("shop", policy.Policy{Bulkhead: policy.Bulkhead{Limit: 4}}, gabion.WithObserver(&events))
	open := func() *gabion.Attempt {
		t.Helper()
		_, a, err := gabion.Open(t.Context(), d, func(context.Context) (int, error) { return 1, nil })
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	var old []*gabion.Attempt
	for range 100 {
		a := open()
		a.Close(nil)
		old = append(old, a)
	}
	last := open()
	before := len(events.Events())
	for _, a := range old {
		a.Close(errors.New("the body broke"))
		if err := a.Settle(io.EOF); err != io.EOF {
			t.Errorf("settling what was closed gave %v", err)
		}
		if a.Context().Err() == nil {
			t.Error("the context of a closed attempt lives")
		}
	}
	if n := d.Stats().Bulkhead.InUse; n != 1 || last.Context().Err() != nil || len(events.Events()) != before {
		t.Errorf("%d slots in use, %v, %d events more", n, last.Context().Err(), len(events.Events())-before)
	}
	last.Close(nil)
	gabiontest.NothingHeld(t, d)
}

// What keeps the time of an attempt serves the next one once it is closed.
func TestSettlingAClosedAttemptTakesNoTimeOfTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := gabion.New("db", policy.Policy{Timeout: policy.Timeout{Attempt: time.Second}})
		old := begin(t, d)
		old.Close(nil)
		next := begin(t, d)
		ends := next.Context().Done()
		old.Settle(nil)
		time.Sleep(time.Second)
		synctest.Wait()
		select {
		case <-ends:
		default:
			t.Error("after its timeout the next attempt's context goes on")
		}
		next.Close(nil)
		gabiontest.NothingHeld(t, d)
	})
}

// A hedge's result has won, and waits for the first attempt, which is deaf, to return. It has
// no timeout any more.
func TestAResultThatWaitsForItsCallerOutlivesTheTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, _ := watched(policy.Policy{Safe: true, Timeout: policy.Timeout{Call: time.Minute, Attempt: time.Second}, Hedge: policy.Hedge{Max: 1, Delay: 10 * time.Millisecond}})
		v, a, err := gabion.Open(t.Context(), d, func(ctx context.Context) (int, error) {
			if gabion.AttemptNumber(ctx) == 1 {
				time.Sleep(5 * time.Second)
				return 0, errDown
			}
			return 2, nil
		})
		if v != 2 || err != nil {
			t.Fatal(v, err)
		}
		if err := a.Context().Err(); err != nil {
			t.Errorf("its context says %v", err)
		}
		a.Close(nil)
		nothingHeld(t, d)
	})
}

// meddling is a context of a user's making, which uses the attempt when it is asked.
type meddling struct {
	context.Context
	ask func()
}

func (m *meddling) Err() error {
	if ask := m.ask; ask != nil {
		m.ask = nil
		ask()
	}
	return m.Context.Err()
}

// Nothing that a user wrote runs under a lock, a context neither.
func TestTheCallersContextIsAskedUnderNoLock(t *testing.T) {
	verbs := map[string]func(*gabion.Attempt){
		"settle": func(a *gabion.Attempt) { a.Settle(errDown) },
		"close":  func(a *gabion.Attempt) { a.Settle(nil); a.Close(errDown) },
	}
	for name, verb := range verbs {
		t.Run(name, func(t *testing.T) {
			ctx := &meddling{Context: t.Context()}
			a, err := gabion.Begin(ctx, gabion.New("db", policy.Policy{}))
			if err != nil {
				t.Fatal(err)
			}
			defer a.Close(nil)
			ctx.ask = func() {
				done := make(chan struct{})
				go func() { defer close(done); a.Settle(nil) }()
				select {
				case <-done:
				case <-time.After(5 * time.Second):
					t.Error("the attempt is locked while the context is asked")
				}
			}
			verb(a)
			if ctx.ask != nil {
				t.Error("the context was not asked, so this shows nothing")
			}
		})
	}
}
