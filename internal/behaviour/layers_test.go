package behaviour

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/classify"
	"github.com/gabion-go/gabion/policy"
)

func TestRefusalOfALayerBelowSaysNothingAboveAndIsNotRetried(t *testing.T) {
	below := map[gabion.Reason]func(*testing.T) *gabion.Dependency{
		policy.BreakerOpen: func(t *testing.T) *gabion.Dependency {
			d := gabion.New("inner", policy.Policy{})
			handOn(t, d, "").ForceOpen(0)
			return d
		},
		policy.BulkheadFull: func(t *testing.T) *gabion.Dependency {
			d := gabion.New("inner", policy.Policy{Bulkhead: policy.Bulkhead{Limit: 1, Queue: policy.Off}})
			a := begin(t, d)
			t.Cleanup(func() { a.Close(nil) })
			return d
		},
		policy.RateLimited: func(t *testing.T) *gabion.Dependency {
			d := gabion.New("inner", policy.Policy{RateLimit: policy.RateLimit{Rate: 1e-3, MaxWait: policy.Off}})
			d.Run(t.Context(), works)
			return d
		},
	}
	for why, make := range below {
		t.Run(why.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				inner := make(t)
				outer, rec := watched(policy.Policy{Safe: true, Breaker: policy.Breaker{Consecutive: 3}})
				for range 4 {
					err := outer.Run(t.Context(), func(ctx context.Context) error { return inner.Run(ctx, works) })
					wantReason(t, err, policy.DoNotRetry)
					if !errors.Is(err, why) {
						t.Errorf("the reason below is lost: %v", err)
					}
				}
				rec.WantAttempts(t, 4)
				if calls, _ := counts(outer); calls != 0 {
					t.Errorf("the breaker above counted %d", calls)
				}
				if n := count(rec, func(e gabion.Event) bool {
					return e.Kind == policy.KindAttemptSettled && e.Class == policy.ClassRejected
				}); n != 4 {
					t.Errorf("%d attempts were reported as rejected", n)
				}
			})
		})
	}
}

// Five layers of three attempts make three calls, not 243: the layer
// next to the failure retries, and its answer stops the others.
func TestRetryingIsDoneInOneLayer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		layers := make([]*gabion.Dependency, 5)
		for i := range layers {
			layers[i] = gabion.New(fmt.Sprint("layer", i), policy.Policy{Safe: true, Retry: policy.Retry{Budget: free}})
		}
		n := 0
		var call func(context.Context, int) error
		call = func(ctx context.Context, i int) error {
			if i == len(layers) {
				n++
				return errDown
			}
			return layers[i].Run(ctx, func(ctx context.Context) error {
				if err := call(ctx, i+1); err != nil {
					return fmt.Errorf("in layer %d: %w", i, err)
				}
				return nil
			})
		}
		err := call(t.Context(), 0)
		if n != 3 || !errors.Is(err, errDown) {
			t.Errorf("%d calls, %v", n, err)
		}
		wantReason(t, err, policy.DoNotRetry)
		if e := asError(t, err); e.Dependency != "layer0" || e.Attempts != 1 {
			t.Errorf("%+v", e)
		}
	})
}

// What an inner layer refuses or ends is the outer's failure of the right kind.
func TestAnInnerCallsEndIsReadByTheOuter(t *testing.T) {
	cases := []struct {
		name  string
		err   error
		class policy.Class
	}{
		{"canceled", &gabion.Error{Reason: policy.Canceled}, policy.ClassIgnored},
		{"timeout", &gabion.Error{Reason: policy.CallTimeout, Effect: policy.UnknownEffect}, policy.ClassTimeout},
		{"refused", &gabion.Error{Reason: policy.BreakerOpen, RetryAfter: time.Second}, policy.ClassRejected},
		{"a declined card stays one", &gabion.Error{Reason: policy.NotRetryable, Err: classify.Business(errors.New("no"))}, policy.ClassBusiness},
		{"ours to mend", &gabion.Error{Reason: policy.KeyMissing}, policy.ClassClient},
		{"no time left after a queue", &gabion.Error{Reason: policy.DeadlineShort}, policy.ClassRejected},
		{"no time left for a retry", &gabion.Error{Reason: policy.DeadlineShort, Attempts: 1, Err: errDown}, policy.ClassServer},
	}
	for _, c := range cases {
		o := classify.Error(fmt.Errorf("wrapped: %w", c.err))
		e := c.err.(*gabion.Error)
		if o.Class != c.class || !o.Stop || o.Effect != e.Effect || o.HasAfter != (e.RetryAfter > 0) {
			t.Errorf("%s: %+v", c.name, o)
		}
	}
}

// A refusal by a layer below says nothing of what this layer calls. Its breaker does not count it,
// and its Retry-After holds no other call back.
func TestARefusalBelowAffectsNoOtherCall(t *testing.T) {
	full := policy.Policy{Bulkhead: policy.Bulkhead{Limit: 1}}
	cases := map[string]struct {
		inner  policy.Policy
		spoil  func(context.Context, *gabion.Dependency)
		reason gabion.Reason
	}{
		"open": {policy.Policy{}, func(_ context.Context, d *gabion.Dependency) { b, _ := d.Breaker(""); b.Trip() }, policy.BreakerOpen},
		"paced": {policy.Policy{}, func(ctx context.Context, d *gabion.Dependency) {
			d.Run(ctx, fails(classify.Throttled(errDown, time.Minute)))
		}, policy.Paced},
		"queued in vain": {full, func(ctx context.Context, d *gabion.Dependency) { go d.Run(ctx, lasts(480*time.Millisecond, nil)) }, policy.DeadlineShort},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				inner, outer := gabion.New("inner", c.inner), gabion.New("outer", policy.Policy{})
				c.spoil(t.Context(), inner)
				synctest.Wait()
				err := outer.Run(t.Context(), func(ctx context.Context) error {
					return inner.Run(ctx, works, gabion.WithTimeout(500*time.Millisecond))
				})
				if !errors.Is(err, c.reason) || gabion.ReasonOf(err) != policy.DoNotRetry || asError(t, err).RetryAfter != asError(t, errors.Unwrap(err)).RetryAfter {
					t.Errorf("it ended with %v", err)
				}
				if s := outer.Stats().Main; s.Paced != 0 || s.Breaker.Counts.Failures != 0 {
					t.Errorf("the outer dependency is held back for %s and counted %d failures", s.Paced, s.Breaker.Counts.Failures)
				}
			})
		})
	}
}

// rpcStatus and rpcError have the methods of grpc-go's types.
type (
	rpcStatus struct{ code uint32 }
	rpcError  struct{ s *rpcStatus }
)

func (s *rpcStatus) Code() uint32 { return s.code }

func (e *rpcError) Error() string { return "rpc error" }

func (e *rpcError) GRPCStatus() *rpcStatus { return e.s }
