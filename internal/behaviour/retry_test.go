package behaviour

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/classify"
	"github.com/gabion-go/gabion/gabiontest"
	"github.com/gabion-go/gabion/policy"
)

// Never earlier than the dependency says; if that can't be, the call
// ends at once with the real error and the time to come back.
func TestRetryAfterIsObeyed(t *testing.T) {
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

// The last real error is kept, whatever ends the call.
func TestRealErrorIsKeptWhateverEndsTheCall(t *testing.T) {
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
			d.Retries().Stop(0)
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

func TestRetryAfterOfAPlanCountsFromNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := gabion.New("db", policy.Policy{
			Safe:    true,
			Timeout: policy.Timeout{Call: time.Minute},
			Retry:   policy.Retry{Backoff: every(20 * time.Second)},
			Breaker: policy.Breaker{Consecutive: 1, Open: 30 * time.Second, OpenJitter: policy.Off},
		})
		err := d.Run(t.Context(), fails(errDown))
		wantReason(t, err, policy.BreakerOpen)
		if got := asError(t, err).RetryAfter; got != 30*time.Second {
			t.Errorf("RetryAfter is %s", got)
		}
		time.Sleep(asError(t, err).RetryAfter)
		if err := d.Run(t.Context(), works); err != nil {
			t.Errorf("after that time: %v", err)
		}
	})
}

func TestOneAttemptThatFailedIsAllAttempts(t *testing.T) {
	d := gabion.New("db", policy.Policy{Safe: true})
	wantReason(t, d.Run(t.Context(), fails(errDown), gabion.WithoutRetry()), policy.AttemptsExhausted)
	a := begin(t, d)
	defer a.Close(nil)
	wantReason(t, a.Settle(errDown), policy.AttemptsExhausted)
}

// There is no wait after the last attempt.
func TestNoSleepAfterTheLastAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, rec := watched(policy.Policy{Safe: true, Retry: policy.Retry{Attempts: 3, Backoff: every(time.Second)}})
		start := time.Now()
		wantReason(t, d.Run(t.Context(), fails(errDown)), policy.AttemptsExhausted)
		wantElapsed(t, start, 2*time.Second)
		rec.WantAttempts(t, 3)
	})
}

// The switches work at once, for the process and for one dependency, and
// also on calls that wait for their retry already.
func TestKillSwitch(t *testing.T) {
	t.Cleanup(func() { gabion.SetRetries(true) })
	switches := map[string]func(*gabion.Dependency, bool){
		"process": func(_ *gabion.Dependency, on bool) { gabion.SetRetries(on) },
		"dependency": func(d *gabion.Dependency, on bool) {
			if d.Retries().Stop(0); on {
				d.Retries().Resume()
			}
		},
	}
	for name, turn := range switches {
		for _, hedges := range []int{0, 1} {
			t.Run(fmt.Sprintf("%s/hedge=%d", name, hedges), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					d, rec := watched(policy.Policy{Safe: true, Retry: policy.Retry{Backoff: every(time.Second)}, Hedge: policy.Hedge{Max: hedges, Delay: policy.Off}})
					turn(d, false)
					_, err := gabion.Do(t.Context(), d, withResult(fails(errDown)))
					wantReason(t, err, policy.RetriesOff)
					rec.WantAttempts(t, 1)
					if !d.Stats().RetriesOff {
						t.Error("Stats does not tell")
					}
					turn(d, true)
					_, err = gabion.Do(t.Context(), d, withResult(fails(errDown)))
					wantReason(t, err, policy.AttemptsExhausted)
				})
			})
		}
		t.Run(name+"/while waiting for the retry", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, rec := watched(policy.Policy{Safe: true, Retry: policy.Retry{Backoff: every(time.Second)}})
				time.AfterFunc(500*time.Millisecond, func() { turn(d, false) })
				err := d.Run(t.Context(), fails(errDown))
				turn(d, true)
				wantReason(t, err, policy.RetriesOff)
				rec.WantAttempts(t, 1)
				if !errors.Is(err, errDown) || d.Stats().Budget.Sent != 0 {
					t.Errorf("%v, budget %+v", err, d.Stats().Budget)
				}
			})
		})
		t.Run(name+"/while the retry waits for a slot", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, rec := watched(policy.Policy{Safe: true, Retry: policy.Retry{Backoff: every(time.Second)}, Bulkhead: policy.Bulkhead{Limit: 1, QueueTimeout: policy.Off}})
				var wg sync.WaitGroup
				wg.Go(func() {
					time.Sleep(500 * time.Millisecond)
					d.Run(t.Context(), lasts(2*time.Second, nil))
				})
				time.AfterFunc(1500*time.Millisecond, func() { turn(d, false) })
				err := d.Run(t.Context(), fails(errDown))
				wg.Wait()
				turn(d, true)
				wantReason(t, err, policy.RetriesOff)
				rec.WantAttempts(t, 2)
				nothingHeld(t, d)
			})
		})
		t.Run(name+"/while hedges are due", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, rec := watched(policy.Policy{Safe: true, Hedge: policy.Hedge{Max: 3, Delay: 100 * time.Millisecond}, Retry: policy.Retry{Budget: free}})
				time.AfterFunc(150*time.Millisecond, func() { turn(d, false) })
				_, err := gabion.Do(t.Context(), d, withResult(lasts(time.Second, nil)))
				turn(d, true)
				wantReason(t, err, policy.None)
				rec.WantAttempts(t, 2)
			})
		})
	}
}
