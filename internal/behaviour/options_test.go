package behaviour

import (
	"context"
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/gabiontest"
	"github.com/gabion-go/gabion/policy"
)

func TestUnknownClassIsUnclassifiedAndLosesNothing(t *testing.T) {
	hedge := policy.Hedge{Max: 1, Delay: time.Second}
	for _, class := range []policy.Class{policy.ClassCrashed + 1, 77, math.MaxUint8} {
		for name, call := range map[string]func(context.Context, *gabion.Dependency) error{
			"run": func(ctx context.Context, d *gabion.Dependency) error { return d.Run(ctx, works) },
			"do": func(ctx context.Context, d *gabion.Dependency) error {
				_, err := gabion.Do(ctx, d, withResult(works))
				return err
			},
			"open": func(ctx context.Context, d *gabion.Dependency) error {
				_, a, err := gabion.Open(ctx, d, withResult(works))
				if a != nil {
					a.Close(nil)
				}
				return err
			},
			"begin": func(ctx context.Context, d *gabion.Dependency) error {
				a, err := gabion.Begin(ctx, d)
				if err != nil {
					return err
				}
				defer a.Close(nil)
				return a.Settle(errDown)
			},
		} {
			for _, h := range []policy.Hedge{{}, hedge} {
				t.Run(fmt.Sprintf("%d/%s/hedge=%d", class, name, h.Max), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						d := gabion.New("db", policy.Policy{Safe: true, Hedge: h, Bulkhead: policy.Bulkhead{Limit: 1, Queue: policy.Off}},
							says(policy.Outcome{Class: class}))
						for range 2 {
							wantReason(t, call(t.Context(), d), policy.UnclassifiedError)
						}
						nothingHeld(t, d)
						if calls, failures := counts(d); calls != 2 || failures != 2 {
							t.Errorf("the breaker counted %d calls, %d failures", calls, failures)
						}
					})
				})
			}
		}
	}
}

// Every option of a call, one by one.
func TestOptionsOfACall(t *testing.T) {
	hedging := policy.Policy{Hedge: policy.Hedge{Max: 1, Delay: time.Millisecond}, Retry: policy.Retry{Attempts: 1, Budget: free}}
	cases := []struct {
		name     string
		policy   policy.Policy
		opts     []gabion.CallOption
		step     gabiontest.Step
		attempts int
		reason   gabion.Reason
	}{
		{"nothing declared", policy.Policy{}, nil, gabiontest.Step{Err: errDown}, 1, policy.NotSafe},
		{"WithIdempotent", policy.Policy{}, []gabion.CallOption{gabion.WithIdempotent()}, gabiontest.Step{Err: errDown}, 3, policy.AttemptsExhausted},
		{"WithKey", policy.Policy{}, []gabion.CallOption{gabion.WithKey("k")}, gabiontest.Step{Err: errDown}, 3, policy.AttemptsExhausted},
		{"WithoutRetry", policy.Policy{Safe: true}, []gabion.CallOption{gabion.WithoutRetry()}, gabiontest.Step{Err: errDown}, 1, policy.AttemptsExhausted},
		{"WithTimeout", policy.Policy{Safe: true}, []gabion.CallOption{gabion.WithTimeout(time.Second)}, gabiontest.Step{Hang: true}, 1, policy.CallTimeout},
		{"WithTimeout, longer", policy.Policy{Safe: true, Timeout: policy.Timeout{Call: time.Second, Attempt: time.Second}}, []gabion.CallOption{gabion.WithTimeout(time.Minute)}, gabiontest.Step{Hang: true}, 3, policy.AttemptsExhausted},
		{"WithTimeout, zero is the policy's", policy.Policy{Safe: true, Timeout: policy.Timeout{Call: time.Second, Attempt: time.Second}}, []gabion.CallOption{gabion.WithTimeout(0)}, gabiontest.Step{Hang: true}, 1, policy.CallTimeout},
		{"hedging", hedging, []gabion.CallOption{gabion.WithIdempotent()}, gabiontest.Step{Takes: time.Second, Err: errDown}, 2, policy.AttemptsExhausted},
		{"WithoutHedge", hedging, []gabion.CallOption{gabion.WithIdempotent(), gabion.WithoutHedge()}, gabiontest.Step{Takes: time.Second, Err: errDown}, 1, policy.AttemptsExhausted},
		{"hedging, not safe (C110)", hedging, nil, gabiontest.Step{Takes: time.Second, Err: errDown}, 1, policy.AttemptsExhausted},
		{"WithClassify", policy.Policy{Safe: true}, []gabion.CallOption{gabion.WithClassify(func(any, error) policy.Outcome { return policy.Outcome{Class: policy.ClassBusiness} })}, gabiontest.Step{}, 1, policy.NotRetryable},
		{"the last one of two counts", policy.Policy{}, []gabion.CallOption{gabion.WithTimeout(time.Hour), gabion.WithTimeout(time.Second)}, gabiontest.Step{Hang: true}, 1, policy.CallTimeout},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, _ := watched(c.policy)
				s := gabiontest.NewScript(c.step)
				_, err := gabion.Do(t.Context(), d, func(ctx context.Context) (int, error) { return s.Call(ctx) }, c.opts...)
				wantReason(t, err, c.reason)
				if s.Attempts() != c.attempts {
					t.Errorf("%d attempts, want %d", s.Attempts(), c.attempts)
				}
			})
		})
	}
}

// A classifier sees results too, and the call's goes before the dependency's.
func TestClassifiersSeeTheResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, _ := watched(policy.Policy{Safe: true}, gabion.WithClassify(func(v any, err error) policy.Outcome {
			if v == 200 {
				return policy.Outcome{}
			}
			return policy.Outcome{Class: policy.ClassServer}
		}))
		n := 0
		got, err := gabion.Do(t.Context(), d, func(context.Context) (int, error) {
			if n++; n < 3 {
				return 503, nil
			}
			return 200, nil
		})
		if got != 200 || err != nil || n != 3 {
			t.Errorf("%d, %v after %d", got, err, n)
		}
		got, err = gabion.Do(t.Context(), d, func(context.Context) (int, error) { return 503, nil })
		if e := asError(t, err); got != 503 || e.Err != nil || e.Reason != policy.AttemptsExhausted {
			t.Errorf("%d, %+v: the last result is the caller's, and there is no error but gabion's", got, e)
		}
		yes := gabion.WithClassify(func(any, error) policy.Outcome { return policy.Succeeded() })
		if got, err := gabion.Do(t.Context(), d, func(context.Context) (int, error) { return 503, nil }, yes); got != 503 || err != nil {
			t.Errorf("%d, %v", got, err)
		}
	})
}

func TestADependencyRefusesOptionsOfOneCall(t *testing.T) {
	classify := gabion.WithClassify(func(any, error) policy.Outcome { return policy.Outcome{} })
	for fact, c := range map[string]struct {
		o      gabion.Option
		refuse bool
	}{
		"a classifier is for both": {classify, false},
		"so is what discards":      {gabion.WithDiscard(func(any) {}), false},
		"a zero option is nothing": {gabion.CallOption{}, false},
		"a key is of one call":     {gabion.WithKey("k"), true},
		"so is a timeout":          {gabion.WithTimeout(time.Second), true},
		"and what is idempotent":   {gabion.WithIdempotent(), true},
	} {
		_, err := gabion.Make("bank", policy.Policy{}, c.o)
		_, all := gabion.NewRegistry(map[string]policy.Policy{"bank": {}}, c.o)
		if (err != nil) != c.refuse || (all != nil) != c.refuse {
			t.Errorf("%s: Make says %v, NewRegistry %v", fact, err, all)
		}
	}
}
