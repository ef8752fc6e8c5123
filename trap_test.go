package gabion_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/classify"
	"github.com/gabion-go/gabion/gabiontest"
	"github.com/gabion-go/gabion/internal/breaker"
	"github.com/gabion-go/gabion/policy"
)

// Each test here is a fault that a library in use today has, by the number it has
// in the comparison of peers, and shows that gabion does not have it.

// T2, T15 (C32, C101): one slot and one probe. Work that leaves without a result
// gives both back, or the second call of each case could not run.
func TestTrapT2_PermitsComeBackAfterPanicAndGoexit(t *testing.T) {
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
						if n := count(rec, func(e gabion.Event) bool { return e.Class == policy.ClassCrashed }); n != 1 && verb != "begin" {
							t.Errorf("%d attempts were reported as crashed, want 1", n)
						}
					})
				})
			}
		}
	}
}

// T2, second half: reservations of the budget come back too.
func TestTrapT2_BudgetComesBackAfterPanic(t *testing.T) {
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

// T3 (D1, D3, C83): 200 callers, failures after 1 ms, 50 ms of backoff. A budget
// that compares with what is in flight let 4.0 attempts per call through.
func TestTrapT3_BudgetBoundsLoadOfQuickFailures(t *testing.T) {
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

// D3: in an outage the number of attempts that a policy allows makes no difference.
func TestTrapT3_ThreeAndEightAttemptsSendTheSameLoad(t *testing.T) {
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
// and one attempt.
func TestTrapT3_RetriesEndSoonAfterAFault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		longest, attempt := 500*time.Millisecond, 200*time.Millisecond
		d, rec := watched(policy.Policy{
			Safe:     true,
			Timeout:  policy.Timeout{Attempt: attempt},
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

// T4 (E1): the work sees the deadline, its context ends with DeadlineExceeded, and
// the cause names whose it was.
func TestTrapT4_DeadlineAndItsOwnerAreVisible(t *testing.T) {
	ask := map[string]func(context.Context) (error, error){
		"err first":   func(ctx context.Context) (error, error) { return ctx.Err(), context.Cause(ctx) },
		"cause first": func(ctx context.Context) (error, error) { cause := context.Cause(ctx); return ctx.Err(), cause },
		"done first": func(ctx context.Context) (error, error) {
			<-ctx.Done()
			return ctx.Err(), context.Cause(ctx)
		},
		"child": func(ctx context.Context) (error, error) {
			child, cancel := context.WithCancel(ctx)
			defer cancel()
			return child.Err(), context.Cause(child)
		},
		"value": func(ctx context.Context) (error, error) {
			child := context.WithValue(ctx, struct{}{}, 1)
			cause := context.Cause(child)
			return child.Err(), cause
		},
	}
	layers := []struct {
		name  string
		limit policy.Timeout
		cause gabion.Reason
	}{
		{"attempt", policy.Timeout{Call: 10 * time.Second, Attempt: time.Second}, policy.AttemptTimeout},
		{"call", policy.Timeout{Call: time.Second, Attempt: time.Second}, policy.CallTimeout},
	}
	for _, layer := range layers {
		for name, how := range ask {
			t.Run(layer.name+"/"+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					d := gabion.New("db", policy.Policy{Timeout: layer.limit})
					start := time.Now()
					err := d.Run(t.Context(), func(ctx context.Context) error {
						if at, ok := ctx.Deadline(); !ok || !at.Equal(start.Add(time.Second)) {
							t.Errorf("the work sees deadline %v, %v", at, ok)
						}
						time.Sleep(time.Second) // it does not listen
						err, cause := how(ctx)
						if err != context.DeadlineExceeded || cause != error(layer.cause) {
							t.Errorf("Err is %v, Cause is %v, want %v", err, cause, layer.cause)
						}
						return err
					})
					if !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("%v is not DeadlineExceeded", err)
					}
				})
			})
		}
	}
}

// T5 (C31, C65, F5): the caller's cancel is neither failure nor success, not a
// timeout, and nothing to retry.
func TestTrapT5_CancelIsNeverTheDependencysFault(t *testing.T) {
	for name, said := range map[string]error{
		"context error": context.Canceled, "deadline error": context.DeadlineExceeded, "reset": errDown, "unclassified": errUnsaid,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, rec := watched(policy.Policy{Safe: true, Breaker: eager(time.Second)})
				for range 50 {
					ctx, cancel := context.WithCancel(t.Context())
					err := d.Run(ctx, func(context.Context) error { cancel(); return said })
					wantReason(t, err, policy.Canceled)
					if !errors.Is(err, context.Canceled) || errors.Is(err, policy.CallTimeout) || !errors.Is(err, said) {
						t.Fatalf("the error is %v", err)
					}
				}
				wantState(t, d, breaker.Closed)
				rec.WantAttempts(t, 50)
				if c := d.Stats().Main.Breaker.Counts; c.Failures != 0 || c.Calls != 0 {
					t.Errorf("cancels were counted: %+v", c)
				}
			})
		})
	}
}

// T5: work that gave up by itself says nothing about the dependency either.
func TestTrapT5_WorkThatGivesUpIsNeutral(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, rec := watched(policy.Policy{Safe: true, Breaker: eager(time.Second)})
		wantReason(t, d.Run(t.Context(), fails(context.Canceled)), policy.Canceled)
		rec.WantAttempts(t, 1)
		if calls, _ := counts(d); calls != 0 {
			t.Errorf("it was counted: %d", calls)
		}
	})
}

// T5 (C30, C31): a cancelled probe frees its place and decides nothing.
func TestTrapT5_CanceledProbeIsNeutral(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, _ := watched(policy.Policy{Breaker: eager(time.Second)})
		d.Run(t.Context(), fails(errDown))
		time.Sleep(time.Second)
		for range 5 {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Millisecond, cancel)
			wantReason(t, d.Run(ctx, hangs), policy.Canceled)
			wantState(t, d, breaker.HalfOpen)
		}
		if err := d.Run(t.Context(), works); err != nil {
			t.Error(err)
		}
		wantState(t, d, breaker.Closed)
	})
}

// T5, T15, T17 (C33): a probe that never comes home counts as failed, and the
// breaker goes on; its late result changes nothing (C22).
func TestTrapT5_HungProbeExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, _ := watched(policy.Policy{Breaker: eager(time.Second), Timeout: policy.Timeout{Attempt: time.Second}})
		d.Run(t.Context(), fails(errDown))
		time.Sleep(time.Second)
		release := make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() { d.Run(t.Context(), func(context.Context) error { <-release; return nil }) })
		synctest.Wait()
		wantReason(t, d.Run(t.Context(), works), policy.BreakerOpen) // the only place is taken
		time.Sleep(time.Second + time.Millisecond)
		wantState(t, d, breaker.Open)
		close(release)
		wg.Wait()
		wantState(t, d, breaker.Open) // a late success does not close it
		time.Sleep(3 * time.Second)
		if err := d.Run(t.Context(), works); err != nil {
			t.Error(err)
		}
		wantState(t, d, breaker.Closed)
	})
}

// T5, T16 (C36): successes that started before the outage don't close the breaker.
func TestTrapT5_StaleSuccessesDontClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := eager(time.Second)
		b.MinCalls, b.FailureRate, b.Probes = 3, 0.5, 3
		d, _ := watched(policy.Policy{Breaker: b})
		release := make(chan struct{})
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() { d.Run(t.Context(), func(context.Context) error { <-release; return nil }) })
		}
		synctest.Wait()
		for range 3 {
			d.Run(t.Context(), fails(errDown))
		}
		wantState(t, d, breaker.Open)
		time.Sleep(time.Second)
		wg.Go(func() { d.Run(t.Context(), lasts(10*time.Millisecond, nil)) }) // opens it half
		synctest.Wait()
		wantState(t, d, breaker.HalfOpen)
		close(release)
		synctest.Wait()
		wantState(t, d, breaker.HalfOpen)
		wg.Wait()
		wantState(t, d, breaker.HalfOpen) // one of three has spoken
	})
}

// T5: 99 of 200 is 49.5 %, and 49.5 % is less than 50 %.
func TestTrapT5_NinetyNineOfTwoHundredIsNotHalf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, _ := watched(policy.Policy{Breaker: policy.Breaker{MinCalls: 200, FailureRate: 0.5}})
		for i := range 200 {
			if i < 99 {
				d.Run(t.Context(), fails(errDown))
			} else {
				d.Run(t.Context(), works)
			}
		}
		wantState(t, d, breaker.Closed)
		d.Run(t.Context(), fails(errDown)) // 100 of 201
		d.Run(t.Context(), fails(errDown)) // 101 of 202
		wantState(t, d, breaker.Open)
	})
}

// A half-open breaker must not count down for a call that another generation let
// in: the leak of the textbook's counter.
func TestTrapT15_HalfOpenPlacesSurviveAStateChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, _ := watched(policy.Policy{Breaker: eager(time.Second)})
		for range 20 {
			d.Run(t.Context(), fails(errDown))
			d.Run(t.Context(), fails(errDown))
			time.Sleep(10 * time.Minute)
			release := make(chan struct{})
			var wg sync.WaitGroup
			wg.Go(func() { d.Run(t.Context(), func(context.Context) error { <-release; return errDown }) })
			synctest.Wait()
			b, _ := d.Breaker("")
			b.Reset() // the state changes while the probe is out
			close(release)
			wg.Wait()
			wantState(t, d, breaker.Closed)
			nothingHeld(t, d)
		}
		b, _ := d.Breaker("")
		b.Trip()
		time.Sleep(10 * time.Minute)
		if err := d.Run(t.Context(), works); err != nil {
			t.Errorf("a probe finds no place: %v", err)
		}
	})
}

// T6 (F6, C115): an open breaker means no call, no sleep, no budget.
func TestTrapT6_OpenBreakerIsNeitherRetriedNorSleptFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := eager(time.Minute)
		b.MinCalls = 2
		d, rec := watched(policy.Policy{Safe: true, Retry: policy.Retry{Attempts: 3, Backoff: every(time.Second), Budget: policy.Budget{Ratio: 1}}, Breaker: b})
		start := time.Now()
		err := d.Run(t.Context(), fails(errDown))
		wantElapsed(t, start, time.Second) // attempt 2 trips it; there is no wait for a third
		wantReason(t, err, policy.BreakerOpen)
		if !errors.Is(err, errDown) {
			t.Errorf("the real error is lost: %v", err)
		}
		sent := d.Stats().Budget.Sent
		for range 10 {
			err = d.Run(t.Context(), works)
			wantReason(t, err, policy.BreakerOpen)
		}
		wantElapsed(t, start, time.Second)
		if after := asError(t, err).RetryAfter; after != time.Minute {
			t.Errorf("come back after %s, want 1m", after)
		}
		if s := d.Stats(); s.Budget.Sent != sent || s.Main.Breaker.Refused != 10 {
			t.Errorf("budget spent %d, refused %d", s.Budget.Sent-sent, s.Main.Breaker.Refused)
		}
		rec.WantAttempts(t, 2)
	})
}

// T6 (C3, C71): never earlier than the dependency says; if that can't be, the call
// ends at once with the real error and the time to come back.
func TestTrapT6_RetryAfterIsObeyed(t *testing.T) {
	later := func(after time.Duration) error { return classify.Throttled(errors.New("busy"), after) }
	t.Run("waits at least that long", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			d, _ := watched(policy.Policy{Safe: true, Retry: policy.Retry{Backoff: every(100 * time.Millisecond)}})
			s := gabiontest.NewScript(gabiontest.Step{Err: later(2 * time.Second)}, gabiontest.Step{})
			if err := d.Run(t.Context(), s.Run); err != nil {
				t.Fatal(err)
			}
			if gap := s.Seen()[1].At.Sub(s.Seen()[0].At); gap < 2*time.Second || gap > 2400*time.Millisecond {
				t.Errorf("came back after %s", gap)
			}
		})
	})
	for name, after := range map[string]time.Duration{"past the deadline": 20 * time.Second, "past the policy": 1e6 * time.Second} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, _ := watched(policy.Policy{Safe: true})
				start := time.Now()
				busy := later(after)
				err := d.Run(t.Context(), fails(busy))
				wantElapsed(t, start, 0)
				wantReason(t, err, policy.RetryAfterTooLong)
				if e := asError(t, err); e.RetryAfter != after || !errors.Is(err, busy) || e.Attempts != 1 {
					t.Errorf("%+v", e)
				}
			})
		})
	}
}

// meddler is an observer that does all that one should not.
type meddler struct {
	d     *gabion.Dependency
	kind  policy.Kind
	calls atomic.Int64
	depth atomic.Int64
}

func (m *meddler) Observe(_ context.Context, e gabion.Event) {
	m.calls.Add(1)
	if m.depth.Add(1) > 100 {
		panic("the observer is called from within itself without end")
	}
	defer m.depth.Add(-1)
	m.d.Stats()
	if e.Kind == m.kind {
		m.d.SetRetries(true)
		m.d.Reload(m.d.Policy())
		if b, ok := m.d.Breaker(""); ok && e.Kind == policy.KindBreakerMoved && e.To == breaker.Open {
			b.Reset()
		}
	}
	panic("observer")
}

// T8, T15 (C45, F7): an observer that panics and uses the dependency neither
// deadlocks nor changes what happens, and is reported once.
func TestTrapT8_PanickingMeddlingObserverChangesNothing(t *testing.T) {
	for _, hedge := range []int{0, 1} {
		for _, k := range policy.Kinds() {
			t.Run(fmt.Sprintf("%s/hedge=%d", k, hedge), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var said strings.Builder
					m, good := &meddler{kind: k}, new(gabiontest.Recorder)
					d := gabion.New("db", policy.Policy{
						Safe: true, Hedge: policy.Hedge{Off: hedge == 0, Max: hedge, Delay: time.Millisecond},
						Retry:    policy.Retry{Backoff: every(time.Millisecond)},
						Breaker:  eager(10 * time.Millisecond),
						Bulkhead: policy.Bulkhead{Limit: 1, Queue: 1, QueueTimeout: time.Millisecond},
					}, gabion.WithObserver(m), gabion.WithObserver(good), gabion.WithLogger(slog.New(slog.NewTextHandler(&said, nil))))
					m.d = d
					var wg sync.WaitGroup
					for range 5 {
						wg.Go(func() {
							for range 5 {
								gabion.Do(t.Context(), d, func(ctx context.Context) (int, error) { return 1, lasts(3*time.Millisecond, errDown)(ctx) })
								time.Sleep(4 * time.Millisecond)
							}
						})
					}
					wg.Wait()
					time.Sleep(time.Second)
					if err := d.Run(t.Context(), works); err != nil {
						t.Error(err)
					}
					nothingHeld(t, d)
					if n := strings.Count(said.String(), "observer panicked"); n != 1 {
						t.Errorf("reported %d times\n%s", n, &said)
					}
					if got := d.Stats().ObserverPanics; got != m.calls.Load() {
						t.Errorf("%d panics are counted, there were %d", got, m.calls.Load())
					}
					if n := len(good.Events()); int64(n) != m.calls.Load() {
						t.Errorf("the other observer was told %d of %d events", n, m.calls.Load())
					}
				})
			})
		}
	}
}

// T9: no goroutine per call, whatever contexts meet.
func TestTrapT9_NoGoroutinePerCall(t *testing.T) {
	gabiontest.NoLeaks(t)
	d := gabion.New("db", policy.Policy{Safe: true})
	hedged := gabion.New("db", policy.Policy{Safe: true, Hedge: policy.Hedge{Max: 1, Delay: time.Minute, Percentile: 0}, Timeout: policy.Timeout{Call: 10 * time.Minute, Attempt: 5 * time.Minute}, Breaker: policy.Breaker{Off: true}})
	ctx, cancel := context.WithCancel(t.Context()) // a caller that lives on
	defer cancel()
	const calls = 400
	before, more := runtime.NumGoroutine(), 0
	for range calls / 2 {
		for _, d := range []*gabion.Dependency{d, hedged} {
			gabion.Do(ctx, d, func(ctx context.Context) (int, error) {
				ctx.Done()
				child, stop := context.WithTimeout(context.WithValue(ctx, struct{}{}, 1), time.Minute)
				defer stop()
				child.Done()
				if runtime.NumGoroutine() > before {
					more++
				}
				return 1, nil
			})
		}
	}
	if more > calls/4 { // now and then there is one of the runtime's, or of the test before
		t.Errorf("in %d of %d calls there was a goroutine more", more, calls)
	}
}

// T10: everything at once, for the race detector.
func TestTrapT10_EverythingAtOnce(t *testing.T) {
	gabiontest.NoLeaks(t)
	d, _ := watched(policy.Policy{
		Safe:     true,
		Timeout:  policy.Timeout{Call: 100 * time.Millisecond, Attempt: 5 * time.Millisecond},
		Retry:    policy.Retry{Backoff: backoff.Full(10*time.Microsecond, 100*time.Microsecond)},
		Hedge:    policy.Hedge{Max: 2, Delay: 50 * time.Microsecond},
		Breaker:  policy.Breaker{MinCalls: 10, Open: time.Millisecond, OpenMax: time.Millisecond, ProbeTimeout: 5 * time.Millisecond, Window: 20 * time.Millisecond},
		Bulkhead: policy.Bulkhead{Limit: 4, Queue: 4, Fair: true}, Throttle: policy.Throttle{K: 2},
		RateLimit: policy.RateLimit{Rate: 1e6, Burst: 100},
	})
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 300 {
				switch i % 6 {
				case 0:
					d.Stats()
				case 1:
					d.Reload(d.Policy())
				case 2:
					d.SetRetries(i%4 == 0)
				case 3:
					if v, a, _ := gabion.Open(t.Context(), d, func(context.Context) (int, error) { return g, nil }); a != nil {
						a.Close(nil)
						_ = v
					}
				case 4:
					if a, err := gabion.Begin(t.Context(), d, gabion.WithPartition("p")); err == nil {
						a.Settle(errDown)
						a.Close(errDown)
					}
				default:
					gabion.Do(t.Context(), d, func(ctx context.Context) (int, error) {
						if (g+i)%3 == 0 {
							return 0, errDown
						}
						return 1, lasts(100*time.Microsecond, nil)(ctx)
					}, gabion.WithTenant(string(rune('a'+g))))
				}
			}
		})
	}
	wg.Wait()
	settled(t, d)
	gabiontest.NothingHeld(t, d)
}

// T11: a throttle that was idle for longer than its window remembers nothing.
func TestTrapT11_IdleThrottleForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, rec := watched(policy.Policy{Throttle: policy.Throttle{K: 1.5, Window: time.Minute}, Breaker: policy.Breaker{Off: true}})
		for range 1000 {
			d.Run(t.Context(), fails(errDown))
		}
		if rec.Load().Refused[policy.ThrottledLocally] < 500 {
			t.Fatalf("the throttle did not close: %+v", rec.Load())
		}
		time.Sleep(5 * time.Minute)
		for i := range 1000 {
			if err := d.Run(t.Context(), works); err != nil {
				t.Fatalf("call %d after the pause: %v", i, err)
			}
		}
	})
}

// T12 (C105): a failure that is quick does not beat a success that is under way.
func TestTrapT12_QuickFailureDoesNotBeatPendingSuccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, _ := watched(policy.Policy{Safe: true, Hedge: policy.Hedge{Max: 1, Delay: 10 * time.Millisecond}})
		got, err := gabion.Do(t.Context(), d, func(ctx context.Context) (int, error) {
			n := gabion.AttemptNumber(ctx)
			if n == 2 {
				return n, errDown
			}
			return n, lasts(50*time.Millisecond, nil)(ctx)
		})
		if got != 1 || err != nil {
			t.Errorf("got %d, %v", got, err)
		}
		nothingHeld(t, d)
	})
}

// T12: a panic or Goexit on a hedge's goroutine happens to the caller.
func TestTrapT12_PanicInAHedgeIsTheCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, _ := watched(policy.Policy{Safe: true, Hedge: policy.Hedge{Max: 1, Delay: 10 * time.Millisecond}})
		value := errors.New("with this very value")
		raised := panicOf(func() {
			gabion.Do(t.Context(), d, func(ctx context.Context) (int, error) {
				if gabion.AttemptNumber(ctx) == 2 {
					panic(value)
				}
				return 1, hangs(ctx)
			})
		})
		if raised != any(value) {
			t.Errorf("the caller got %v", raised)
		}
		nothingHeld(t, d)
	})
}

func TestTrapT12_GoexitInAHedgeIsTheCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, _ := watched(policy.Policy{Safe: true, Hedge: policy.Hedge{Max: 1, Delay: 10 * time.Millisecond}})
		returned := false
		inItsOwnGoroutine(func() {
			gabion.Do(t.Context(), d, func(ctx context.Context) (int, error) {
				if gabion.AttemptNumber(ctx) == 2 {
					runtime.Goexit()
				}
				return 1, hangs(ctx)
			})
			returned = true
		})
		if returned {
			t.Error("Do returned; the hedge's Goexit was to end the caller's goroutine")
		}
		nothingHeld(t, d)
	})
}

// T12 (C106): results that nobody gets are discarded once, whichever way they lose.
func TestTrapT12_LosersAreDiscardedOnce(t *testing.T) {
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

// T13: policies are values. Nothing that a dependency does, and no change of the
// literal afterwards, is seen by anybody else.
func TestTrapT13_PoliciesAreValues(t *testing.T) {
	p := policy.Policy{Retry: policy.Retry{Attempts: 2}, HTTP: policy.HTTP{Transient: []int{599}}}
	a, b := gabion.New("a", p), gabion.New("b", p)
	p.Retry.Attempts = 7
	if err := a.Reload(p); err != nil {
		t.Fatal(err)
	}
	if x, y := a.Policy().Retry.Attempts, b.Policy().Retry.Attempts; x != 7 || y != 2 {
		t.Errorf("a has %d attempts and b %d, want 7 and 2", x, y)
	}
	changed := a.Policy()
	changed.Breaker.MinCalls = 99
	if a.Policy().Breaker.MinCalls == 99 {
		t.Error("changing what Policy returned changed the dependency")
	}
}

// T20 (C4, C53): no attempt starts that can't finish, no wait goes past the
// deadline.
func TestTrapT20_NoAttemptStartsPastTheDeadline(t *testing.T) {
	for _, callers := range []bool{false, true} {
		t.Run(fmt.Sprintf("callers deadline=%v", callers), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := policy.Policy{Safe: true, Retry: policy.Retry{Attempts: 20, Backoff: every(100 * time.Millisecond), Budget: free}, Breaker: policy.Breaker{Off: true}}
				ctx := t.Context()
				if callers {
					c, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
					defer cancel()
					ctx = c
				} else {
					p.Timeout.Call = 500 * time.Millisecond
				}
				d, _ := watched(p)
				start := time.Now()
				s := gabiontest.NewScript(gabiontest.Step{Takes: 10 * time.Millisecond, Err: errDown})
				err := d.Run(ctx, s.Run)
				wantReason(t, err, policy.DeadlineShort)
				if took := time.Since(start); took > 450*time.Millisecond || !errors.Is(err, errDown) {
					t.Errorf("%s, %v", took, err)
				}
				for i, seen := range s.Seen() {
					if left := seen.Deadline.Sub(seen.At); left < 50*time.Millisecond {
						t.Errorf("attempt %d began with %s left", i+1, left)
					}
				}
			})
		})
	}
}

// C5: the last real error is kept, whatever ends the call.
func TestTrapT3_RealErrorIsKeptWhateverEndsTheCall(t *testing.T) {
	cases := []struct {
		name   string
		policy policy.Policy
		run    func(*gabion.Dependency, context.Context) error
		reason gabion.Reason
	}{
		{"cancel while waiting", policy.Policy{Retry: policy.Retry{Backoff: every(time.Second)}},
			func(d *gabion.Dependency, ctx context.Context) error {
				ctx, cancel := context.WithCancel(ctx)
				time.AfterFunc(time.Millisecond, cancel)
				return d.Run(ctx, fails(errDown))
			}, policy.Canceled},
		{"deadline while waiting", policy.Policy{Timeout: policy.Timeout{Call: 2 * time.Second, Margin: policy.Off}, Retry: policy.Retry{Backoff: every(1900 * time.Millisecond)}, Bulkhead: policy.Bulkhead{Limit: 1, QueueTimeout: policy.Off}},
			func(d *gabion.Dependency, ctx context.Context) error {
				var wg sync.WaitGroup
				defer wg.Wait()
				first := true
				return d.Run(ctx, func(context.Context) error {
					if first {
						first = false
						wg.Go(func() {
							time.Sleep(time.Second)
							d.Run(ctx, lasts(2*time.Second, nil))
						})
					}
					return errDown
				})
			}, policy.CallTimeout},
		{"budget", policy.Policy{Retry: policy.Retry{Budget: policy.Budget{Ratio: policy.Off, Floor: policy.Off}}},
			func(d *gabion.Dependency, ctx context.Context) error { return d.Run(ctx, fails(errDown)) }, policy.BudgetExhausted},
		{"breaker", policy.Policy{Breaker: eager(time.Minute)},
			func(d *gabion.Dependency, ctx context.Context) error { return d.Run(ctx, fails(errDown)) }, policy.BreakerOpen},
		{"kill switch", policy.Policy{}, func(d *gabion.Dependency, ctx context.Context) error {
			d.SetRetries(false)
			return d.Run(ctx, fails(errDown))
		}, policy.RetriesOff},
		{"attempts", policy.Policy{}, func(d *gabion.Dependency, ctx context.Context) error { return d.Run(ctx, fails(errDown)) }, policy.AttemptsExhausted},
	}
	for _, hedge := range []int{0, 1} {
		for _, c := range cases {
			t.Run(fmt.Sprintf("%s/hedge=%d", c.name, hedge), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c.policy.Safe = true
					c.policy.Hedge = policy.Hedge{Max: hedge, Delay: policy.Off}
					d, _ := watched(c.policy)
					err := c.run(d, t.Context())
					if hedge == 0 {
						wantReason(t, err, c.reason)
					}
					if !errors.Is(err, errDown) {
						t.Errorf("the real error is lost: %v", err)
					}
					nothingHeld(t, d)
				})
			})
		}
	}
}
