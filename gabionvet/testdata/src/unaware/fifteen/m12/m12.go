package m12

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

type ttlEntry[V any] struct {
	val V
	exp time.Time
}

type ttlCache[K comparable, V any] struct {
	mu  sync.RWMutex
	max int
	m   map[K]ttlEntry[V]
}

func newTTLCache[K comparable, V any](max int) *ttlCache[K, V] {
	return &ttlCache[K, V]{max: max, m: map[K]ttlEntry[V]{}}
}

// get returns an expired value too, with fresh false.
func (c *ttlCache[K, V]) get(k K) (v V, fresh, ok bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	e, ok := c.m[k]
	return e.val, ok && time.Now().Before(e.exp), ok
}

func (c *ttlCache[K, V]) put(k K, v V, ttl time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for old := range c.m {
		if len(c.m) < c.max {
			break
		}
		delete(c.m, old)
	}
	c.m[k] = ttlEntry[V]{v, time.Now().Add(ttl)}
}

type planLimits struct {
	Seats   int
	Exports bool
}

type entitlements struct {
	cache *ttlCache[string, planLimits]
	ttl   time.Duration // 6h
	fetch func(ctx context.Context, account string) (planLimits, error)
}

func (e *entitlements) Limits(ctx context.Context, account string) (planLimits, error) {
	if l, fresh, _ := e.cache.get(account); fresh {
		return l, nil
	}
	fctx, cancel := context.WithTimeout(ctx, 800*time.Millisecond)
	defer cancel()
	l, err := e.fetch(fctx, account)
	if err != nil {
		slog.WarnContext(ctx, "billing unavailable, using free plan", "account", account, "err", err)
		l = planLimits{Seats: 1}
	}
	// WRONG: the stand-in for a failed call is cached like an answer; one blip of billing locks paying customers out for six hours
	e.cache.put(account, l, e.ttl)
	return l, nil
}

// RIGHT
func (e *entitlements) LimitsOrStale(ctx context.Context, account string) (planLimits, error) {
	old, fresh, known := e.cache.get(account)
	if fresh {
		return old, nil
	}
	fctx, cancel := context.WithTimeout(ctx, 800*time.Millisecond)
	defer cancel()
	l, err := e.fetch(fctx, account)
	switch {
	case err != nil && known:
		slog.WarnContext(ctx, "billing unavailable, using last known plan", "account", account, "err", err)
		e.cache.put(account, old, 30*time.Second) // asks again soon
		return old, nil
	case err != nil:
		return planLimits{}, err
	}
	e.cache.put(account, l, e.ttl)
	return l, nil
}
