package redisstore

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/idempotencytest"
	"github.com/gabion-go/gabion/internal/testservers"
)

// cluster starts three masters that share the slots.
func cluster(t testing.TB, args ...string) *redis.ClusterClient {
	t.Helper()
	const masters, slots = 3, 16384
	var nodes []*redis.Client
	var addrs []string
	for n := range masters {
		bus := testservers.FreePorts(t, 1)[0]
		addr := testservers.Redis(t, append([]string{"--cluster-enabled", "yes", "--cluster-port", strconv.Itoa(bus)}, args...)...)
		node := dial(t, addr)
		if err := node.ClusterAddSlotsRange(t.Context(), n*slots/masters, (n+1)*slots/masters-1).Err(); err != nil {
			t.Fatal(err)
		}
		if n > 0 {
			host, port, _ := net.SplitHostPort(addr)
			if err := nodes[0].Do(t.Context(), "CLUSTER", "MEET", host, port, bus).Err(); err != nil {
				t.Fatal(err)
			}
		}
		nodes, addrs = append(nodes, node), append(addrs, addr)
	}
	for _, node := range nodes {
		agree(t, node, masters)
	}
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs, ContextTimeoutEnabled: true})
	t.Cleanup(func() { client.Close() })
	return client
}

// agree waits until a node knows the others and who has which slots.
func agree(t testing.TB, node *redis.Client, masters int) {
	t.Helper()
	var info map[string]string
	for limit := time.Now().Add(time.Minute); time.Now().Before(limit); time.Sleep(20 * time.Millisecond) {
		info = fields(node.ClusterInfo(t.Context()).Val())
		if info["cluster_state"] == "ok" && info["cluster_size"] == strconv.Itoa(masters) {
			return
		}
	}
	t.Fatalf("the cluster does not form: %v", info)
}

func TestCluster(t *testing.T) {
	t.Parallel()
	client := cluster(t, durable...)
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
