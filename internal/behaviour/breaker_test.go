package behaviour

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/internal/breaker"
	"github.com/gabion-go/gabion/policy"
)

// A probe that never comes home counts as failed, and the
// breaker goes on; its late result changes nothing (C22).
func TestHungProbeExpires(t *testing.T) {
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

// Successes that started before the outage don't close the breaker.
func TestStaleSuccessesDontClose(t *testing.T) {
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

// 99 of 200 is 49.5 %, and 49.5 % is less than 50 %.
func TestNinetyNineOfTwoHundredIsNotHalf(t *testing.T) {
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
func TestHalfOpenPlacesSurviveAStateChange(t *testing.T) {
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

// An open breaker means no call, no sleep, no budget.
func TestOpenBreakerIsNeitherRetriedNorSleptFor(t *testing.T) {
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

func TestBreakerThatIsSwitchedOffIsGone(t *testing.T) {
	d := gabion.New("db", policy.Policy{})
	d.Run(t.Context(), works, gabion.WithPartition("a"))
	handOn(t, d, "").Trip()
	handOn(t, d, "a").Trip()
	reload(t, d, policy.Policy{Breaker: policy.Breaker{Off: true}})
	for _, name := range []string{"", "a"} {
		if _, ok := d.Breaker(name); ok {
			t.Errorf("there is a breaker of %q", name)
		}
		if err := d.Run(t.Context(), works, gabion.WithPartition(name)); err != nil {
			t.Error(err)
		}
	}
	if s := d.Stats(); s.Main.Guarded || s.Partitions[0].Guarded {
		t.Errorf("Stats shows one: %+v", s)
	}
}

func TestCallersInAHurryNeverOpenTheBreaker(t *testing.T) {
	limited := func(limit time.Duration) func(*testing.T, *gabion.Dependency) error {
		return func(t *testing.T, d *gabion.Dependency) error {
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			return d.Run(ctx, hangs)
		}
	}
	for _, per := range []policy.Per{policy.PerAttempt, policy.PerCall} {
		for _, c := range []struct {
			fact string
			call func(*testing.T, *gabion.Dependency) error
			want breaker.State
		}{
			{"deadline of a microsecond", limited(time.Microsecond), breaker.Closed},
			{"deadline just below the margin", limited(50*time.Millisecond - 1), breaker.Closed},
			{"deadline of the margin counts", limited(50 * time.Millisecond), breaker.Open},
			{"timeout of the call below the margin", func(t *testing.T, d *gabion.Dependency) error {
				return d.Run(t.Context(), hangs, gabion.WithTimeout(time.Millisecond))
			}, breaker.Closed},
		} {
			t.Run(fmt.Sprintf("%s/per=%d", c.fact, per), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					d := gabion.New("db", policy.Policy{Breaker: policy.Breaker{Per: per, Consecutive: 3}, Timeout: policy.Timeout{Margin: 50 * time.Millisecond}})
					for range 3 {
						wantReason(t, c.call(t, d), policy.CallTimeout)
					}
					wantState(t, d, c.want)
				})
			})
		}
	}
}

// A timeout that the policy itself sets is the dependency's to keep, however short.
func TestHangIsAFailureUnderAPolicyFasterThanItsMargin(t *testing.T) {
	for _, limit := range []policy.Timeout{
		{Call: 30 * time.Millisecond},
		{Call: time.Second, Attempt: 30 * time.Millisecond},
		{Call: 30 * time.Millisecond, Attempt: policy.Off},
	} {
		t.Run(fmt.Sprintf("call %s attempt %s", limit.Call, limit.Attempt), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := gabion.New("db", policy.Policy{Timeout: limit, Breaker: policy.Breaker{Consecutive: 3}})
				for range 3 {
					d.Run(t.Context(), hangs)
				}
				wantState(t, d, breaker.Open)
			})
		})
	}
}

func TestLongQueueDoesNotOpenTheBreakerOfAHealthyDependency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := gabion.New("db", policy.Policy{
			Timeout:  policy.Timeout{Call: time.Second},
			Bulkhead: policy.Bulkhead{Limit: 1, QueueTimeout: policy.Off, Queue: 200},
			Breaker:  policy.Breaker{Consecutive: 1},
		})
		ran, short := together(t, d, 100, policy.DeadlineShort, lasts(19*time.Millisecond, nil))
		if ran != 51 || short == 0 { // at 0, 19, … 950 ms
			t.Errorf("%d ran, %d were refused for want of time", ran, short)
		}
		wantState(t, d, breaker.Closed)
		nothingHeld(t, d)
	})
}

func TestBodyThatBreaksIsAFailureAlsoPerCall(t *testing.T) {
	for _, per := range []policy.Per{policy.PerAttempt, policy.PerCall} {
		d := gabion.New("db", policy.Policy{Breaker: policy.Breaker{Per: per, Consecutive: 1}})
		_, a, err := gabion.Open(t.Context(), d, withResult(works))
		if err != nil {
			t.Fatal(err)
		}
		wantState(t, d, breaker.Closed)
		a.Close(errDown)
		wantState(t, d, breaker.Open)
	}
}

// Of many calls at once a half-open breaker admits its probes and
// no more.
func TestHalfOpenAdmitsOnlyItsProbes(t *testing.T) {
	for _, probes := range []int{1, 3} {
		t.Run(fmt.Sprint(probes), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rules := eager(time.Second)
				rules.Probes = probes
				d := gabion.New("db", policy.Policy{Breaker: rules})
				d.Run(t.Context(), fails(errDown))
				time.Sleep(time.Second)
				ran, refused := together(t, d, 50, policy.BreakerOpen, lasts(time.Millisecond, nil))
				if ran != probes || refused != 50-probes {
					t.Errorf("%d ran, %d were refused", ran, refused)
				}
				wantState(t, d, breaker.Closed)
			})
		})
	}
}

// Probes that never come home make room for others.
func TestHungProbesDoNotWedge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rules := eager(time.Second)
		rules.Probes, rules.OpenGrowth = 3, 1
		d := gabion.New("db", policy.Policy{Breaker: rules})
		d.Run(t.Context(), fails(errDown))
		release := make(chan struct{})
		var wg sync.WaitGroup
		for range 3 { // of open, half-open with three that hang, open again
			time.Sleep(time.Second)
			for range 3 {
				wg.Go(func() { d.Run(t.Context(), func(context.Context) error { <-release; return nil }) })
			}
			synctest.Wait()
			wantReason(t, d.Run(t.Context(), works), policy.BreakerOpen)
			time.Sleep(time.Second) // the probes' own time
			wantState(t, d, breaker.Open)
		}
		time.Sleep(time.Second)
		if ran, _ := together(t, d, 3, policy.None, works); ran != 3 {
			t.Errorf("%d probes after nine hung", ran)
		}
		wantState(t, d, breaker.Closed)
		close(release)
		wg.Wait()
		wantState(t, d, breaker.Closed)
		nothingHeld(t, d)
	})
}

// A thousand calls when the open time ends, one place: one call goes out.
func TestOneProbeOfAThousandCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, rec := watched(policy.Policy{Breaker: eager(time.Second), Bulkhead: policy.Bulkhead{Off: true}})
		d.Run(t.Context(), fails(errDown))
		time.Sleep(time.Second)
		var refused atomic.Int64
		var wg sync.WaitGroup
		for range 1000 {
			wg.Go(func() {
				if errors.Is(d.Run(t.Context(), lasts(time.Millisecond, nil)), policy.BreakerOpen) {
					refused.Add(1)
				}
			})
		}
		wg.Wait()
		rec.WantAttempts(t, 2)
		if refused.Load() != 999 {
			t.Errorf("%d were refused", refused.Load())
		}
		wantState(t, d, breaker.Closed)
	})
}
