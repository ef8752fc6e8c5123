package behaviour

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/classify"
	"github.com/gabion-go/gabion/policy"
)

// A plain client goes to the first endpoint, or to each in turn where they are equal.
func TestEndpointsAnswerNoLessThanAPlainClient(t *testing.T) {
	fast, slow := 20*time.Millisecond, 6*time.Second
	works := func(takes time.Duration) func(context.Context) error {
		return func(ctx context.Context) error { return slept(ctx, takes) }
	}
	refuses := func(each int64, after time.Duration) func(context.Context) error {
		var n atomic.Int64
		return func(ctx context.Context) error {
			if n.Add(1)%each != 0 {
				return slept(ctx, fast)
			}
			_ = slept(ctx, time.Millisecond)
			return classify.Throttled(errors.New("no more"), after)
		}
	}
	type ends []func(context.Context) error
	fails := func(ctx context.Context) error {
		_ = slept(ctx, time.Millisecond)
		return errors.New("it is out of order")
	}
	for _, c := range []struct {
		fact  string
		safe  bool
		mode  policy.EndpointMode
		each  time.Duration
		ends  ends
		least int // of 1,000 calls; a plain client has 1,000, 1,000, 333, 900, 750 and 0
	}{
		{"equal ones that are always slow", true, policy.EndpointsEqual, time.Second / 10, ends{works(slow), works(slow)}, 999},
		{"a primary that is always slow", true, policy.EndpointsOrdered, time.Second / 10, ends{works(slow), works(slow)}, 999},
		{"most refuse quickly", true, policy.EndpointsEqual, time.Second / 50, ends{refuses(1, 0), refuses(1, 0), works(fast)}, 900},
		{"a primary asks for time now and then, and its backup always", true, policy.EndpointsOrdered, time.Second / 50, ends{refuses(10, 3*time.Second), refuses(1, 3*time.Second)}, 900},
		{"one of four fails, and calls are rare and must not be repeated", false, policy.EndpointsEqual, 10 * time.Second, ends{fails, works(fast), works(fast), works(fast)}, 800},
		{"a primary fails, and calls are rare and must not be repeated", false, policy.EndpointsOrdered, 10 * time.Second, ends{fails, works(fast)}, 800},
	} {
		t.Run(c.fact, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := policy.Policy{Safe: c.safe, Endpoints: policy.Endpoints{Mode: c.mode}}
				for i := range c.ends {
					p.Endpoints.List = append(p.Endpoints.List, policy.Endpoint{Name: string(rune('a' + i))})
				}
				d := gabion.New("several", p, gabion.WithSeed(1))
				var calls sync.WaitGroup
				var answered atomic.Int64
				for range 1000 {
					calls.Go(func() {
						if d.Run(t.Context(), func(ctx context.Context) error {
							return c.ends[gabion.EndpointOf(ctx).Name[0]-'a'](ctx)
						}) == nil {
							answered.Add(1)
						}
					})
					time.Sleep(c.each)
				}
				calls.Wait()
				if got := int(answered.Load()); got < c.least {
					t.Errorf("%d of 1000 calls were answered, and not %d", got, c.least)
				}
			})
		})
	}
}
