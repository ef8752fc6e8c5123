package gabionredis_test

import (
	"errors"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/contrib/gabionredis"
	"github.com/gabion-go/gabion/internal/testservers"
	"github.com/gabion-go/gabion/policy"
)

// A ClusterClient repeats what broke off in the loop that follows MOVED, and does not under
// gabion.
func TestAClusterDoesNotRepeatWhatCounts(t *testing.T) {
	w := &wire{mark: []byte("KEY")}
	d := gabion.New("cluster", quick())
	o := &redis.ClusterOptions{Addrs: testservers.RedisCluster(t, 2), ContextTimeoutEnabled: true, Dialer: w.dial, DisableIdentity: true}
	run := func(use bool) (*redis.ClusterClient, func(name string, f func(c *redis.ClusterClient) error, again bool)) {
		c := redis.NewClusterClient(o)
		t.Cleanup(func() { c.Close() })
		if use {
			if err := gabionredis.Use(c, d); err != nil {
				t.Fatal(err)
			}
		}
		return c, func(name string, f func(*redis.ClusterClient) error, again bool) {
			w.sent.Store(0)
			w.lose.Store(1)
			err := f(c)
			if (w.sent.Load() > 1) != again || (err == nil) != again {
				t.Errorf("%s, with gabion %v: sent %d times: %v", name, use, w.sent.Load(), err)
			}
			if use && err != nil && (gabion.EffectOf(err) != policy.UnknownEffect || !errors.Is(err, policy.NotSafe)) {
				t.Errorf("%s: effect %v: %v", name, gabion.EffectOf(err), err)
			}
		}
	}
	get := func(c *redis.ClusterClient) error { return c.StrLen(t.Context(), "KEY").Err() }
	count := func(c *redis.ClusterClient) error { return c.Incr(t.Context(), "KEY").Err() }
	pipe := func(c *redis.ClusterClient) error {
		_, err := c.Pipelined(t.Context(), func(p redis.Pipeliner) error { p.Incr(t.Context(), "KEY"); p.Incr(t.Context(), "other"); return nil })
		return err
	}
	_, alone := run(false)
	alone("INCR", count, true) // which is what the guard is for
	c, with := run(true)
	with("STRLEN", get, true)
	with("INCR", count, false)
	with("a pipeline", pipe, false)
	nothingHeld(t, d)
	w.mark = []byte("none")
	for _, key := range []string{"a", "b", "c", "d"} { // whose slots two masters have
		if err := c.Incr(t.Context(), key).Err(); err != nil {
			t.Error(err)
		}
	}
}
