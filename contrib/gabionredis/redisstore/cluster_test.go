package redisstore

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/idempotencytest"
	"github.com/gabion-go/gabion/internal/testservers"
)

func TestCluster(t *testing.T) {
	t.Parallel()
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: testservers.RedisCluster(t, 3, durable...), ContextTimeoutEnabled: true})
	t.Cleanup(func() { client.Close() })
	s := open(t, client)
	wantWarnings(t, s.Caps(), true)
	t.Run("each key has a slot of its own, and all are swept", func(t *testing.T) {
		const keys = 60
		for n := range keys {
			c := claimOf(fmt.Sprint(n))
			c.Lease = time.Nanosecond
			if a, err := s.Begin(t.Context(), c); err != nil || a.Decision != idempotency.DecisionRun {
				t.Fatalf("begin: %v, %v", a.Decision, err)
			}
		}
		client.ForEachMaster(t.Context(), func(ctx context.Context, node *redis.Client) error {
			if n := node.DBSize(ctx).Val(); n < keys/6 {
				t.Errorf("%d of %d keys on %s", n, keys, node.Options().Addr)
			}
			return nil
		})
		swept := 0
		for range 1000 {
			n, err := s.Sweep(t.Context(), 10)
			if err != nil {
				t.Fatal(err)
			}
			if swept += n; swept == keys {
				break
			}
		}
		if swept != keys {
			t.Errorf("%d swept, want %d", swept, keys)
		}
	})
	t.Run("conformance", func(t *testing.T) {
		idempotencytest.Run(t, idempotencytest.Config{
			Open: func(t testing.TB) idempotency.Store {
				client.ForEachMaster(t.Context(), func(ctx context.Context, node *redis.Client) error { return node.FlushAll(ctx).Err() })
				return open(t, client)
			},
			Again: func(t testing.TB, _ idempotency.Store, _ time.Duration) idempotency.Store { return open(t, client) },
		})
	})
}
