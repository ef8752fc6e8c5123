package fleet

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/contrib/gabionredis/redisfleet"
	gabionfleet "github.com/gabion-go/gabion/fleet"
	"github.com/gabion-go/gabion/internal/testservers"
	"github.com/gabion-go/gabion/policy"
)

// A crowd is members that are processes but for their memory: each has a registry, a client of the store and calls of its own.
type crowd struct {
	members []*gabionfleet.Member
	stop    context.CancelFunc
	calls   sync.WaitGroup
}

// atOnce is how many members join at the same time, as when pods are rolled out.
const atOnce = 8

// gather lets members join that share the rates of some dependencies. Of each of them a member wants a call in five seconds, which is
// half as much again as there is.
func gather(t *testing.T, size, dependencies int, open func() gabionfleet.Store) *crowd {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	c := &crowd{members: make([]*gabionfleet.Member, size), stop: stop}
	t.Cleanup(c.end)
	policies := map[string]policy.Policy{}
	for n := range dependencies {
		policies[fmt.Sprint("dependency-", n)] = policy.Policy{
			RateLimit: policy.RateLimit{Rate: policy.PerSecond(float64(size) / 7.5), Burst: size}, Fleet: policy.Fleet{Rate: true}, Retry: policy.Retry{Attempts: 1},
		}
	}
	var all sync.WaitGroup
	turns := make(chan struct{}, atOnce)
	for n := range size {
		turns <- struct{}{}
		all.Go(func() {
			defer func() { <-turns }()
			r, err := gabion.NewRegistry(policies)
			if err != nil {
				t.Error(err)
				return
			}
			c.calls.Go(func() { call(ctx, r) })
			if c.members[n], err = gabionfleet.Join(ctx, r, open(), gabionfleet.Options{ID: fmt.Sprint("m", n), Logger: slog.New(slog.NewTextHandler(io.Discard, nil))}); err != nil {
				t.Error(err)
			}
		})
	}
	if all.Wait(); t.Failed() {
		t.FailNow()
	}
	return c
}

// call calls the dependencies at random moments.
func call(ctx context.Context, r *gabion.Registry) {
	all := r.All()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		_ = all[rand.IntN(len(all))].Run(ctx, func(context.Context) error { return nil })
		timer.Reset(time.Duration(rand.ExpFloat64() * float64(5*time.Second) / float64(len(all))))
	}
}

func (c *crowd) end() {
	c.stop()
	for _, m := range c.members {
		if m != nil {
			c.calls.Go(m.Close)
		}
	}
	c.calls.Wait()
}

// answered is how many members the store answers, and that have a share of each dependency.
func (c *crowd) answered(dependencies int) (n int) {
	for _, m := range c.members {
		if st := m.Status(); !st.Lost && len(st.Shares) == dependencies {
			n++
		}
	}
	return n
}

// usage is what a server of Redis has done since it started.
type usage struct {
	scripts, inside int64 // what members asked, and what scripts did for that
	in, out         int64 // bytes
	cpu             float64
}

func usageOf(ctx context.Context, t *testing.T, admin *redis.Client) (u usage) {
	t.Helper()
	text, err := admin.Info(ctx, "commandstats", "stats", "cpu").Result()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		var n int64
		var x float64
		fmt.Sscanf(value, "%g", &x)
		if _, err := fmt.Sscanf(value, "calls=%d", &n); err != nil {
			n = int64(x)
		}
		switch name {
		case "cmdstat_evalsha", "cmdstat_eval":
			u.scripts += n
		case "cmdstat_time", "cmdstat_hget", "cmdstat_hset", "cmdstat_hdel", "cmdstat_hgetall":
			u.inside += n
		case "total_net_input_bytes":
			u.in = n
		case "total_net_output_bytes":
			u.out = n
		case "used_cpu_user", "used_cpu_sys":
			u.cpu += x
		}
	}
	return u
}

// A member asks for a renewal a third of a lease after the last one, and for the overrides once a second. What they ask together has to
// grow no faster than they do: a thousand of them may ask 2,000 times a second. GABION_MEASURE=1000 has as many, for which two processors must be
// free.
func TestWhatMembersAskOfRedis(t *testing.T) {
	size, span := 50, 6*time.Second
	if many, err := strconv.Atoi(os.Getenv("GABION_MEASURE")); err == nil {
		size, span = max(many, 50), 30*time.Second
	}
	const dependencies = 20
	server := testservers.StartRedis(t)
	admin := redis.NewClient(&redis.Options{Addr: server.Addr})
	t.Cleanup(func() { admin.Close() })
	c := gather(t, size, dependencies, func() gabionfleet.Store {
		client := redis.NewClient(&redis.Options{Addr: server.Addr, ContextTimeoutEnabled: true})
		t.Cleanup(func() { client.Close() })
		s, err := redisfleet.New(client, redisfleet.Options{})
		if err != nil {
			t.Error(err)
		}
		return s
	})
	began, before := time.Now(), usage{}
	ticks := time.NewTicker(100 * time.Millisecond)
	defer ticks.Stop()
	for now := range ticks.C {
		if before.scripts == 0 && 10*c.answered(dependencies) < 9*size { // where processors are short, there is always one that waits
			if waited := now.Sub(began); waited > max(time.Minute, time.Duration(size)*time.Second/3) {
				t.Fatalf("of %d members %d have a share after %v", size, c.answered(dependencies), waited)
			}
		} else if before.scripts == 0 {
			began, before = time.Now(), usageOf(t.Context(), t, admin)
		} else if now.Sub(began) >= span {
			break
		}
	}
	after, took := usageOf(t.Context(), t, admin), time.Since(began).Seconds()
	asked := float64(after.scripts-before.scripts) / took
	t.Logf("%d members with %d dependencies ask %.0f times a second, for which scripts make %.0f commands; %.2f MB/s in and %.2f out; %.0f %% of a processor; %d have a share and an answer",
		size, dependencies, asked, float64(after.inside-before.inside)/took, float64(after.in-before.in)/took/1e6, float64(after.out-before.out)/took/1e6,
		100*(after.cpu-before.cpu)/took, c.answered(dependencies))
	if asked > 2*float64(size) || asked == 0 {
		t.Errorf("%d members ask %.0f times a second, want at most twice each", size, asked)
	}
	if n := c.answered(dependencies); 2*n < size {
		t.Errorf("the store answers %d of %d members: those that it does not answer ask less", n, size)
	}
	c.end() // while they have their clients
}
