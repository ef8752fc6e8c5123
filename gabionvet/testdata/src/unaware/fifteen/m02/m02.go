package m02

import (
	"context"
	"errors"
	"sync"
	"time"
)

var errFlightAborted = errors.New("shared load aborted")

type flightCall[V any] struct {
	done chan struct{}
	val  V
	err  error
}

func (c *flightCall[V]) wait(ctx context.Context) (v V, err error) {
	select {
	case <-c.done:
		return c.val, c.err
	case <-ctx.Done():
		return v, ctx.Err()
	}
}

type flightGroup[K comparable, V any] struct {
	mu   sync.Mutex
	m    map[K]*flightCall[V]
	load func(context.Context, K) (V, error)
	max  time.Duration
}

func newFlightGroup[K comparable, V any](max time.Duration, load func(context.Context, K) (V, error)) *flightGroup[K, V] {
	return &flightGroup[K, V]{m: map[K]*flightCall[V]{}, load: load, max: max}
}

func (g *flightGroup[K, V]) Get(ctx context.Context, key K) (V, error) {
	c, first := g.join(key)
	if !first {
		return c.wait(ctx)
	}
	defer g.leave(key, c)
	lctx, cancel := context.WithTimeout(ctx, g.max)
	defer cancel()
	// WRONG: the load shared by all waiters runs on the first caller's context; when that one browser tab is closed, every waiting request fails with "context canceled"
	c.val, c.err = g.load(lctx, key)
	return c.val, c.err
}

// RIGHT
func (g *flightGroup[K, V]) GetShared(ctx context.Context, key K) (V, error) {
	c, first := g.join(key)
	if first {
		go func() {
			defer g.leave(key, c)
			lctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), g.max)
			defer cancel()
			c.val, c.err = g.load(lctx, key)
		}()
	}
	return c.wait(ctx)
}

func (g *flightGroup[K, V]) join(key K) (c *flightCall[V], first bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if c, ok := g.m[key]; ok {
		return c, false
	}
	c = &flightCall[V]{done: make(chan struct{}), err: errFlightAborted}
	g.m[key] = c
	return c, true
}

func (g *flightGroup[K, V]) leave(key K, c *flightCall[V]) {
	g.mu.Lock()
	delete(g.m, key)
	g.mu.Unlock()
	close(c.done)
}

type fxRates struct {
	group *flightGroup[string, float64]
}

func newFXRates(fetch func(context.Context, string) (float64, error)) *fxRates {
	return &fxRates{group: newFlightGroup(3*time.Second, fetch)}
}

func (f *fxRates) Rate(ctx context.Context, pair string) (float64, error) {
	return f.group.Get(ctx, pair)
}

func (f *fxRates) RateShared(ctx context.Context, pair string) (float64, error) {
	return f.group.GetShared(ctx, pair)
}
