package behaviour

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/policy"
)

// short bounds a call to 2 s and its attempts to 1 s, with one slot.
func short() policy.Policy {
	return policy.Policy{
		Timeout: policy.Timeout{Call: 2 * time.Second, Attempt: time.Second}, Safe: true,
		Bulkhead: policy.Bulkhead{Limit: 1, Queue: policy.Off},
	}
}

// live opens a result and gives the attempt that it lives in.
func live(t *testing.T, ctx context.Context, d *gabion.Dependency) *gabion.Attempt {
	t.Helper()
	_, a, err := gabion.Open(ctx, d, func(ctx context.Context) (int, error) { ctx.Done(); return 1, nil })
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// byHand begins an attempt and settles it.
func byHand(t *testing.T, ctx context.Context, d *gabion.Dependency) *gabion.Attempt {
	t.Helper()
	a, err := gabion.Begin(ctx, d)
	if err != nil {
		t.Fatal(err)
	}
	a.Context().Done()
	if err := a.Settle(nil); err != nil {
		t.Fatal(err)
	}
	return a
}

// eachOpen runs a test for every way to get a result that lives on.
func eachOpen(t *testing.T, p policy.Policy, test func(*testing.T, *gabion.Dependency, func(context.Context) *gabion.Attempt, func(policy.Kind) int)) {
	hedged := p
	hedged.Hedge = policy.Hedge{Max: 1, Delay: 500 * time.Millisecond}
	for _, c := range []struct {
		name string
		p    policy.Policy
		open func(*testing.T, context.Context, *gabion.Dependency) *gabion.Attempt
	}{{"Open", p, live}, {"Open, hedged", hedged, live}, {"Begin", p, byHand}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, rec := watched(c.p)
				test(t, d, func(ctx context.Context) *gabion.Attempt { return c.open(t, ctx, d) },
					func(k policy.Kind) int { synctest.Wait(); return count(rec, kind(k)) })
				nothingHeld(t, d)
			})
		})
	}
}

// Attempt timeout and call deadline end with the verdict, and the slot is given
// back when the attempt's own time is over.
func TestAResultOutlivesTheTimeouts(t *testing.T) {
	eachOpen(t, short(), func(t *testing.T, d *gabion.Dependency, open func(context.Context) *gabion.Attempt, events func(policy.Kind) int) {
		a := open(t.Context())
		if _, ok := a.Context().Deadline(); ok || a.Context().Err() != nil {
			t.Errorf("it has a deadline, or is over: %v", a.Context().Err())
		}
		wantReason(t, d.Run(t.Context(), works), policy.BulkheadFull) // in flight until its time is over
		time.Sleep(time.Second - 1)
		if st := d.Stats(); st.Bulkhead.InUse != 1 || st.Streams != 0 {
			t.Errorf("within its time: %+v, %d streams", st.Bulkhead, st.Streams)
		}
		time.Sleep(1)
		if n := events(policy.KindOutlived); n != 1 {
			t.Errorf("%d events say that it outlived its time", n)
		}
		if st := d.Stats(); st.Bulkhead.InUse != 0 || st.Streams != 1 || st.Outlived != 1 {
			t.Errorf("after its time: %+v, %d streams of %d", st.Bulkhead, st.Streams, st.Outlived)
		}
		time.Sleep(time.Hour)
		if a.Context().Err() != nil {
			t.Errorf("after an hour without a read: %v", a.Context().Err())
		}
		a.Close(nil)
		if st := d.Stats(); st.Streams != 0 || st.Outlived != 1 || a.Context().Err() != context.Canceled {
			t.Errorf("after the close: %d streams of %d, %v", st.Streams, st.Outlived, a.Context().Err())
		}
		if calls, failures := counts(d); calls != 0 || failures != 0 { // an hour later
			t.Errorf("%d calls, %d failures", calls, failures)
		}
	})
}

// Only the caller's own context cuts a result, and that is no failure.
func TestTheCallersContextStillCutsAResult(t *testing.T) {
	for name, end := range map[string]func(context.Context) (context.Context, context.CancelFunc){
		"cancel": context.WithCancel,
		"deadline": func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, 500*time.Millisecond)
		},
	} {
		t.Run(name, func(t *testing.T) {
			eachOpen(t, short(), func(t *testing.T, d *gabion.Dependency, open func(context.Context) *gabion.Attempt, _ func(policy.Kind) int) {
				ctx, cancel := end(t.Context())
				a := open(ctx)
				below, stop := context.WithCancel(a.Context())
				defer stop()
				time.Sleep(500 * time.Millisecond)
				cancel()
				if a.Context().Err() != ctx.Err() || below.Err() != ctx.Err() {
					t.Errorf("%v, and below it %v, want %v", a.Context().Err(), below.Err(), ctx.Err())
				}
				a.Close(a.Context().Err())
				if calls, failures := counts(d); calls != 1 || failures != 0 {
					t.Errorf("%d calls, %d failures", calls, failures)
				}
			})
		})
	}
}

// A limit that strikes ends the context, and the breaker hears at once if the caller waited.
func TestLimitsOfAResult(t *testing.T) {
	for _, c := range []struct {
		fact     string
		timeout  policy.Timeout
		reads    bool
		after    time.Duration
		why      gabion.Reason
		failures int64
	}{
		{"30 s of silence", policy.Timeout{}, true, 30 * time.Second, policy.IdleTimeout, 1},
		{"no read", policy.Timeout{}, false, time.Hour, policy.None, 0},
		{"a short limit within the attempt's time", policy.Timeout{Idle: time.Second}, true, time.Second, policy.IdleTimeout, 1},
		{"a short limit, and no other time is kept", policy.Timeout{Attempt: policy.Off, Call: policy.Off, Body: time.Second}, false, time.Second, policy.BodyTimeout, 0},
		{"silence is fine", policy.Timeout{Idle: policy.Off}, true, time.Hour, policy.None, 0},
		{"the whole took too long while the caller waited", policy.Timeout{Body: 20 * time.Second}, true, 20 * time.Second, policy.BodyTimeout, 1},
		{"the whole took too long, without a read", policy.Timeout{Body: 20 * time.Second}, false, 20 * time.Second, policy.BodyTimeout, 0},
	} {
		t.Run(c.fact, func(t *testing.T) {
			p := policy.Policy{Timeout: c.timeout, Safe: true, Breaker: policy.Breaker{Window: 2 * time.Hour}}
			eachOpen(t, p, func(t *testing.T, d *gabion.Dependency, open func(context.Context) *gabion.Attempt, events func(policy.Kind) int) {
				a := open(t.Context())
				if c.reads {
					a.Expect()
				}
				time.Sleep(c.after - 1)
				if a.Context().Err() != nil {
					t.Fatalf("too early: %v", context.Cause(a.Context()))
				}
				time.Sleep(1)
				broke := events(policy.KindBodyFailed)
				if c.why == policy.None {
					if a.Context().Err() != nil || broke != 0 {
						t.Errorf("it ended: %v", context.Cause(a.Context()))
					}
				} else if a.Context().Err() != context.DeadlineExceeded || context.Cause(a.Context()) != error(c.why) || broke != 1 {
					t.Errorf("%v, %v, %d events", a.Context().Err(), context.Cause(a.Context()), broke)
				}
				if _, failures := counts(d); failures != c.failures {
					t.Errorf("%d failures, want %d", failures, c.failures)
				}
				a.Arrived()
				a.Close(a.Context().Err())
				if calls, failures := counts(d); calls != 1 || failures != c.failures {
					t.Errorf("after the close %d calls and %d failures, want %d", calls, failures, c.failures)
				}
			})
		})
	}
}

// Time without a read is not the dependency's silence.
func TestOnlyWaitingCountsAsSilence(t *testing.T) {
	eachOpen(t, policy.Policy{Safe: true}, func(t *testing.T, d *gabion.Dependency, open func(context.Context) *gabion.Attempt, _ func(policy.Kind) int) {
		a := open(t.Context())
		for range 20 {
			a.Expect()
			time.Sleep(29 * time.Second)
			a.Arrived()
			time.Sleep(time.Minute)
		}
		if a.Context().Err() != nil {
			t.Error(context.Cause(a.Context()))
		}
		a.Close(nil)
	})
}

// A stream gives its slot back at once; a verb on an attempt that is closed reaches
// no other.
func TestOutliveGivesTheSlotBackAtOnce(t *testing.T) {
	eachOpen(t, short(), func(t *testing.T, d *gabion.Dependency, open func(context.Context) *gabion.Attempt, events func(policy.Kind) int) {
		a := open(t.Context())
		a.Outlive()
		a.Outlive()
		b := open(t.Context())
		if st := d.Stats(); st.Streams != 1 || st.Bulkhead.InUse != 1 || events(policy.KindOutlived) != 1 {
			t.Errorf("%d streams, %+v", st.Streams, st.Bulkhead)
		}
		b.Close(nil)
		c := open(t.Context())
		b.Expect()
		b.Outlive()
		time.Sleep(time.Hour)
		if st := d.Stats(); st.Streams != 2 || c.Context().Err() != nil {
			t.Errorf("%d streams, %v", st.Streams, c.Context().Err())
		}
		a.Close(nil)
		c.Close(nil)
	})
}

// A slot for the whole call is given back too, also if a hedge that lost comes home
// later.
func TestAStreamHoldsNoSlotOfTheWholeCall(t *testing.T) {
	for _, hedges := range []int{0, 1} {
		t.Run(fmt.Sprintf("hedge=%d", hedges), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := short()
				p.Bulkhead.Per, p.Breaker.Per, p.Hedge = policy.PerCall, policy.PerCall, policy.Hedge{Max: hedges, Percentile: policy.Off}
				d, _ := watched(p)
				_, a, err := gabion.Open(t.Context(), d, func(ctx context.Context) (int, error) {
					if hedges > 0 && gabion.AttemptNumber(ctx) == 2 {
						time.Sleep(5 * time.Second) // deaf
						return 0, errDown
					}
					time.Sleep(time.Millisecond)
					return 1, nil
				})
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(2 * time.Second)
				synctest.Wait()
				if got := d.Stats().Bulkhead.InUse; got != hedges { // the deaf one is still out
					t.Errorf("%d slots in use", got)
				}
				time.Sleep(4 * time.Second)
				synctest.Wait()
				if st := d.Stats(); st.Bulkhead.InUse != 0 || st.Streams != 1 {
					t.Errorf("%+v, %d streams", st.Bulkhead, st.Streams)
				}
				a.Close(errDown)
				if calls, failures := counts(d); calls != 1 || failures != 1 {
					t.Errorf("%d calls, %d failures", calls, failures)
				}
				nothingHeld(t, d)
			})
		})
	}
}

// Before the verdict the attempt's time counts as ever, and work that hears of it by a
// derived context does not look as if the caller had canceled.
func TestBeforeTheVerdictTheAttemptsTimeCounts(t *testing.T) {
	for _, hedges := range []int{0, 1} {
		t.Run(fmt.Sprintf("hedge=%d", hedges), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := short()
				p.Retry.Attempts, p.Hedge, p.Bulkhead.Off = 1, policy.Hedge{Off: hedges == 0, Max: hedges, Delay: 2 * time.Second}, true
				d, _ := watched(p)
				start := time.Now()
				_, _, err := gabion.Open(t.Context(), d, func(ctx context.Context) (int, error) {
					if at, ok := ctx.Deadline(); !ok || at.Sub(start) != time.Second {
						t.Errorf("its deadline is in %v", at.Sub(start))
					}
					below, stop := context.WithCancel(ctx)
					defer stop()
					<-below.Done()
					if ctx.Err() != context.DeadlineExceeded || context.Cause(below) != error(policy.AttemptTimeout) {
						t.Errorf("%v, %v", ctx.Err(), context.Cause(below))
					}
					return 0, fmt.Errorf("read: %w", below.Err())
				}, gabion.WithoutHedge())
				wantElapsed(t, start, time.Second)
				wantReason(t, err, policy.AttemptsExhausted)
				if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
					t.Errorf("the error is %v", err)
				}
				if _, failures := counts(d); failures != 1 {
					t.Errorf("%d failures", failures)
				}
				nothingHeld(t, d)
			})
		})
	}
}
