package behaviour

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/classify"
	"github.com/gabion-go/gabion/policy"
)

// inner makes one call of d in each way there is.
var inner = map[string]func(ctx context.Context, d *gabion.Dependency, work func(context.Context) error, opts ...gabion.CallOption) error{
	"Do": func(ctx context.Context, d *gabion.Dependency, work func(context.Context) error, opts ...gabion.CallOption) error {
		_, err := gabion.Do(ctx, d, func(ctx context.Context) (int, error) { return 1, work(ctx) }, opts...)
		return err
	},
	"Run": func(ctx context.Context, d *gabion.Dependency, work func(context.Context) error, opts ...gabion.CallOption) error {
		return d.Run(ctx, work, opts...)
	},
	"Open": func(ctx context.Context, d *gabion.Dependency, work func(context.Context) error, opts ...gabion.CallOption) error {
		_, a, err := gabion.Open(ctx, d, func(ctx context.Context) (int, error) { return 1, work(ctx) }, opts...)
		if a != nil {
			a.Close(nil)
		}
		return err
	},
	"Begin": func(ctx context.Context, d *gabion.Dependency, work func(context.Context) error, opts ...gabion.CallOption) error {
		a, err := gabion.Begin(ctx, d, opts...)
		if err != nil {
			return err
		}
		defer a.Close(nil)
		return a.Settle(work(a.Context()))
	},
}

// outer are the ways to make the call around it.
var outer = map[string]func(ctx context.Context, d *gabion.Dependency, work func(context.Context) error, opts ...gabion.CallOption) error{
	"Do": inner["Do"], "Run": inner["Run"], "Open": inner["Open"], "Begin": inner["Begin"],
}

func TestCallsOfOneDependencyWithinAnAttemptArePartOfIt(t *testing.T) {
	for out, around := range outer {
		for in, part := range inner {
			t.Run(in+" in "+out, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					d := gabion.New("bank", policy.Policy{
						Bulkhead: policy.Bulkhead{Limit: 4}, Retry: policy.Retry{Budget: policy.Budget{Off: true}},
						Breaker: policy.Breaker{Consecutive: 100},
					})
					var all sync.WaitGroup
					for range 8 {
						all.Go(func() {
							err := around(t.Context(), d, func(ctx context.Context) error {
								time.Sleep(10 * time.Millisecond)
								return part(ctx, d, func(context.Context) error { time.Sleep(10 * time.Millisecond); return nil })
							})
							if err != nil {
								t.Error(err)
							}
						})
					}
					all.Wait()
					if s := d.Stats(); s.Totals.Calls != 8 || s.Totals.Attempts != 8 || s.Bulkhead.InUse != 0 {
						t.Errorf("8 calls are %d calls of %d attempts, and %d slots are in use", s.Totals.Calls, s.Totals.Attempts, s.Bulkhead.InUse)
					}
				})
			})
		}
	}
}

func TestAPartTellsItsAttemptWhatItCameTo(t *testing.T) {
	refused := classify.NotSent(classify.Transient(errors.New("refused")))
	for _, c := range []struct {
		fact  string
		fails error
		by    []gabion.CallOption // of the call around
		made  int
		why   policy.Reason
		may   policy.Effect
	}{
		{"a transient failure of work that is safe is repeated by the outer call alone", classify.Transient(errors.New("reset")), []gabion.CallOption{gabion.WithIdempotent()}, 3, policy.AttemptsExhausted, policy.UnknownEffect},
		{"one that is not safe is not", classify.Transient(errors.New("reset")), nil, 1, policy.NotSafe, policy.UnknownEffect},
		{"what was never sent is repeated", refused, nil, 3, policy.AttemptsExhausted, policy.NoEffect},
		{"a permanent failure stays one", classify.Permanent(errors.New("no")), []gabion.CallOption{gabion.WithIdempotent()}, 1, policy.NotRetryable, policy.UnknownEffect},
		{"a mark that stops retries stops them", classify.DoNotRetry(classify.Transient(errors.New("no more"))), []gabion.CallOption{gabion.WithIdempotent()}, 1, policy.DoNotRetry, policy.UnknownEffect},
	} {
		for in, part := range inner {
			t.Run(c.fact+"/"+in, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					d := gabion.New("bank", policy.Policy{Retry: policy.Retry{Budget: policy.Budget{Off: true}}})
					made := 0
					err := d.Run(t.Context(), func(ctx context.Context) error {
						return part(ctx, d, func(ctx context.Context) error {
							if made++; gabion.AttemptNumber(ctx) != made {
								t.Errorf("attempt %d says it is number %d", made, gabion.AttemptNumber(ctx))
							}
							return c.fails
						})
					}, c.by...)
					if made != c.made || gabion.ReasonOf(err) != c.why || gabion.EffectOf(err) != c.may || !errors.Is(err, c.fails) {
						t.Errorf("made %d times, %v, %v: %v; want %d, %v, %v", made, gabion.ReasonOf(err), gabion.EffectOf(err), err, c.made, c.why, c.may)
					}
					s := d.Stats().Totals
					if s.Calls != 1 || s.Attempts != int64(c.made) {
						t.Errorf("%d calls, %d attempts", s.Calls, s.Attempts)
					}
				})
			})
		}
	}
}

// What an earlier part has done is not undone by a later one that never left.
func TestAPartThatNeverLeftDoesNotSpeakForThoseBeforeIt(t *testing.T) {
	done := func(context.Context) error { return nil }
	for _, c := range []struct {
		fact   string
		before []gabion.CallOption
		made   int
		may    policy.Effect
	}{
		{"a part that may not be repeated was done", nil, 1, policy.UnknownEffect},
		{"a part that may be repeated was done", []gabion.CallOption{gabion.WithIdempotent()}, 3, policy.NoEffect},
	} {
		t.Run(c.fact, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := gabion.New("bank", policy.Policy{Retry: policy.Retry{Budget: policy.Budget{Off: true}}})
				made := 0
				err := d.Run(t.Context(), func(ctx context.Context) error {
					made++
					if err := d.Run(ctx, done, c.before...); err != nil {
						return err
					}
					return d.Run(ctx, func(context.Context) error { return classify.NotSent(classify.Transient(errors.New("refused"))) })
				})
				if made != c.made || gabion.EffectOf(err) != c.may {
					t.Errorf("made %d times, %v: %v", made, gabion.EffectOf(err), err)
				}
			})
		})
	}
}

// Work often makes an error of its own of what it got.
func TestAnErrorThatSaysNothingMeansWhatTheLastPartCameTo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := gabion.New("bank", policy.Policy{Retry: policy.Retry{Budget: policy.Budget{Off: true}}})
		made, began := 0, time.Now()
		err := d.Run(t.Context(), func(ctx context.Context) error {
			made++
			if err := d.Run(ctx, func(context.Context) error { return classify.Throttled(errors.New("slow down"), 2*time.Second) }); err != nil {
				return errors.New("the bank did not answer") // %w is forgotten
			}
			return nil
		}, gabion.WithIdempotent())
		if made != 3 || time.Since(began) < 4*time.Second || gabion.ReasonOf(err) != policy.AttemptsExhausted {
			t.Errorf("made %d times in %v: %v", made, time.Since(began), err)
		}
		made = 0
		err = d.Run(t.Context(), func(ctx context.Context) error {
			made++
			_ = d.Run(ctx, func(context.Context) error { return classify.Transient(errors.New("reset")) })
			_ = d.Run(ctx, func(context.Context) error { return nil })
			return errors.New("the answer makes no sense")
		}, gabion.WithIdempotent())
		if made != 1 || gabion.ReasonOf(err) != policy.UnclassifiedError {
			t.Errorf("after a part that went well: made %d times, %v", made, err)
		}
	})
}

func TestWhatIsPartOfAnAttempt(t *testing.T) {
	for _, c := range []struct {
		fact string
		call func(t *testing.T, d, other *gabion.Dependency) error
		want int64 // calls of d
	}{
		{"a call of another partition is", func(t *testing.T, d, _ *gabion.Dependency) error {
			return d.Run(t.Context(), func(ctx context.Context) error { return d.Run(ctx, nothing, gabion.WithPartition("eu")) })
		}, 1},
		{"a call with another key is", func(t *testing.T, d, _ *gabion.Dependency) error {
			return d.Run(t.Context(), func(ctx context.Context) error {
				return d.Run(ctx, func(ctx context.Context) error {
					if gabion.Key(ctx) != "two" {
						t.Errorf("the key is %q", gabion.Key(ctx))
					}
					return nil
				}, gabion.WithKey("two"))
			}, gabion.WithKey("one"))
		}, 1},
		{"a call without a key has the attempt's", func(t *testing.T, d, _ *gabion.Dependency) error {
			return d.Run(t.Context(), func(ctx context.Context) error {
				return d.Run(ctx, func(ctx context.Context) error {
					if gabion.Key(ctx) != "one" {
						t.Errorf("the key is %q", gabion.Key(ctx))
					}
					return nil
				})
			}, gabion.WithKey("one"))
		}, 1},
		{"a call behind an attempt of another dependency is", func(t *testing.T, d, other *gabion.Dependency) error {
			return d.Run(t.Context(), func(ctx context.Context) error {
				return other.Run(ctx, func(ctx context.Context) error { return d.Run(ctx, nothing) })
			})
		}, 1},
		{"a call of another dependency is not", func(t *testing.T, d, other *gabion.Dependency) error {
			return other.Run(t.Context(), func(ctx context.Context) error { return d.Run(ctx, nothing) })
		}, 1},
		{"a call after the attempt is not, even with what is left of its context", func(t *testing.T, d, _ *gabion.Dependency) error {
			var left context.Context
			if err := d.Run(t.Context(), func(ctx context.Context) error { left = ctx; return nil }); err != nil {
				return err
			}
			if err := d.Run(left, nothing); gabion.ReasonOf(err) != policy.Canceled {
				t.Errorf("with the context of an attempt that has ended: %v", err)
			}
			return d.Run(context.WithoutCancel(left), nothing)
		}, 2},
		{"a call while its result is open is", func(t *testing.T, d, _ *gabion.Dependency) error {
			_, a, err := gabion.Open(t.Context(), d, func(context.Context) (int, error) { return 1, nil })
			if err != nil {
				return err
			}
			defer a.Close(nil)
			return d.Run(a.Context(), nothing)
		}, 1},
	} {
		t.Run(c.fact, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, other := gabion.New("bank", policy.Policy{}), gabion.New("other", policy.Policy{})
				if err := c.call(t, d, other); err != nil {
					t.Error(err)
				}
				if n := d.Stats().Totals.Calls; n != c.want {
					t.Errorf("%d calls, want %d", n, c.want)
				}
			})
		})
	}
}

func nothing(context.Context) error { return nil }

func TestAPartHasTheTimeOfItsAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := gabion.New("bank", policy.Policy{
			Timeout: policy.Timeout{Attempt: time.Second, Call: 10 * time.Second},
			Retry:   policy.Retry{Attempts: 2, Backoff: backoff.Const(time.Millisecond), Budget: policy.Budget{Off: true}},
		})
		made, began := 0, time.Now()
		err := d.Run(t.Context(), func(ctx context.Context) error {
			time.Sleep(600 * time.Millisecond)
			err := d.Run(ctx, func(ctx context.Context) error { made++; <-ctx.Done(); return ctx.Err() })
			if gabion.ReasonOf(err) != policy.AttemptTimeout {
				t.Errorf("the part: %v", err)
			}
			return err
		}, gabion.WithIdempotent())
		if made != 2 || time.Since(began) > 3*time.Second || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("made %d times in %v: %v", made, time.Since(began), err)
		}
		if s := d.Stats(); s.Totals.Calls != 1 || s.Main.Breaker.Counts.Failures != 2 {
			t.Errorf("%d calls, %d failures", s.Totals.Calls, s.Main.Breaker.Counts.Failures)
		}
	})
}

func TestAPartThatPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := gabion.New("bank", policy.Policy{})
		func() {
			defer func() { _ = recover() }()
			_ = d.Run(t.Context(), func(ctx context.Context) error {
				return d.Run(ctx, func(context.Context) error { panic("bug") })
			})
		}()
		if s := d.Stats(); s.Totals.Calls != 1 || s.Bulkhead.InUse != 0 {
			t.Errorf("%d calls, %d slots in use", s.Totals.Calls, s.Bulkhead.InUse)
		}
	})
}
