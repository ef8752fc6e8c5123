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
	for _, c := range []struct {
		fact  string
		mode  policy.EndpointMode
		rate  int
		ends  []func(context.Context) error
		least int // of 1,000 calls; a plain client has 1,000, 1,000, 333 and 900
	}{
		{"equal ones that are always slow", policy.EndpointsEqual, 10, []func(context.Context) error{works(slow), works(slow)}, 999},
		{"a primary that is always slow", policy.EndpointsOrdered, 10, []func(context.Context) error{works(slow), works(slow)}, 999},
		{"most refuse quickly", policy.EndpointsEqual, 50, []func(context.Context) error{refuses(1, 0), refuses(1, 0), works(fast)}, 900},
		{"a primary asks for time now and then, and its backup always", policy.EndpointsOrdered, 50, []func(context.Context) error{refuses(10, 3*time.Second), refuses(1, 3*time.Second)}, 900},
	} {
		t.Run(c.fact, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := policy.Policy{Safe: true, Endpoints: policy.Endpoints{Mode: c.mode}}
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
					time.Sleep(time.Second / time.Duration(c.rate))
				}
				calls.Wait()
				if got := int(answered.Load()); got < c.least {
					t.Errorf("%d of 1000 calls were answered, and not %d", got, c.least)
				}
			})
		})
	}
}
