package gabionredis_test

import (
	"errors"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/contrib/gabionredis"
	"github.com/gabion-go/gabion/internal/testservers"
	"github.com/gabion-go/gabion/policy"
)

// cluster starts two masters that share the slots, and returns their addresses.
func cluster(t *testing.T) (addrs []string) {
	const masters, slots = 2, 16384
	var nodes []*redis.Client
	for n := range masters {
		bus := testservers.FreePorts(t, 1)[0]
		addr := testservers.Redis(t, "--cluster-enabled", "yes", "--cluster-port", strconv.Itoa(bus))
		node := redis.NewClient(&redis.Options{Addr: addr})
		t.Cleanup(func() { node.Close() })
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
		for limit := time.Now().Add(time.Minute); ; {
			info := node.ClusterInfo(t.Context()).Val()
			if strings.Contains(info, "cluster_state:ok") && strings.Contains(info, "cluster_size:2") {
				break
			}
			if time.Now().After(limit) {
				t.Fatalf("the cluster does not form: %s", info)
			}
			<-time.After(10 * time.Millisecond)
		}
	}
	return addrs
}

// A ClusterClient repeats what broke off in the loop that follows MOVED, and does not under
// gabion.
func TestAClusterDoesNotRepeatWhatCounts(t *testing.T) {
	w := &wire{mark: []byte("KEY")}
	d := gabion.New("cluster", quick())
	o := &redis.ClusterOptions{Addrs: cluster(t), ContextTimeoutEnabled: true, Dialer: w.dial, DisableIdentity: true}
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
