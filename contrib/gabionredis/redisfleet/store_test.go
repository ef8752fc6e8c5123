package redisfleet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/gabion-go/gabion/fleet"
	"github.com/gabion-go/gabion/fleet/fleettest"
	"github.com/gabion-go/gabion/internal/testfleet"
	"github.com/gabion-go/gabion/internal/testproxy"
	"github.com/gabion-go/gabion/internal/testservers"
)

func TestMain(m *testing.M) {
	redis.SetLogger(&logging.VoidLogger{}) // which tells of every connection that is refused
	os.Exit(m.Run())
}

// patience is how long a test waits for what a machine that works would bring.
const patience = time.Minute

func dial(t testing.TB, o redis.Options) *redis.Client {
	t.Helper()
	o.ContextTimeoutEnabled, o.PoolSize = true, 64
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout = patience, patience, patience
	client := redis.NewClient(&o)
	t.Cleanup(func() { client.Close() })
	return client
}

func open(t testing.TB, client redis.UniversalClient) *Store {
	t.Helper()
	s, err := New(client, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// at is a handle with connections of its own.
func at(addr string) func(testing.TB) fleet.Store {
	return func(t testing.TB) fleet.Store { return open(t, dial(t, redis.Options{Addr: addr})) }
}

func TestRedis(t *testing.T) {
	t.Parallel()
	fleettest.Run(t, at(testservers.Redis(t)))
}

func TestValkey(t *testing.T) {
	t.Parallel()
	fleettest.Run(t, at(testservers.StartValkey(t).Addr))
}

func TestCluster(t *testing.T) {
	t.Parallel()
	addrs := testservers.RedisCluster(t, 3)
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs, ContextTimeoutEnabled: true})
	t.Cleanup(func() { client.Close() })
	fleettest.Run(t, func(t testing.TB) fleet.Store { return open(t, client) })
	t.Run("fleets are in slots of their own", func(t *testing.T) {
		for n := range 30 {
			if _, err := open(t, client).Do(t.Context(), fleet.Batch{Puts: []fleet.Put{{Key: fmt.Sprintf("fleet%d/k", n), Value: []byte("x")}}}); err != nil {
				t.Fatal(err)
			}
		}
		err := client.ForEachMaster(t.Context(), func(ctx context.Context, node *redis.Client) error {
			if node.DBSize(ctx).Val() < 3 {
				return fmt.Errorf("few of 30 fleets are on %s", node.Options().Addr)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
}

func TestAServerThatStopsAndIsKilled(t *testing.T) {
	t.Parallel()
	server := testservers.StartRedis(t, "--appendonly", "yes") // the system has what it wrote, whatever becomes of the process
	testfleet.Outages(t, at(server.Addr),
		func() { server.Pause(2 * time.Second) },
		func() { server.Kill(); time.Sleep(2 * time.Second); server.Restart() })
}

// go-redis sends a batch again whose answer was lost. It must not be taken for another's.
func TestASwapThatIsSentTwiceIsMadeOnce(t *testing.T) {
	t.Parallel()
	p := testproxy.New(t, testservers.Redis(t))
	s := open(t, dial(t, redis.Options{Addr: p.Addr, DisableIdentity: true, Protocol: 2}))
	b := fleet.Batch{
		Swap: &fleet.Put{Key: "f/k", Value: []byte("mine")}, Puts: []fleet.Put{{Key: "f/beside", Value: []byte("x")}},
		Get: []string{"f/k", "f/beside"},
	}
	if _, err := s.Do(t.Context(), fleet.Batch{Get: []string{"f/k"}}); err != nil { // the script is known now
		t.Fatal(err)
	}
	p.Set(testproxy.Fault{Replies: testproxy.Break, Once: true})
	r, err := s.Do(t.Context(), b)
	if err != nil || p.Struck() == 0 {
		t.Fatalf("%v, struck %d", err, p.Struck())
	}
	if !r.Swapped || string(r.Items["f/k"].Value) != "mine" || len(r.Items) != 2 {
		t.Errorf("the second sending was taken for another's: %+v", r)
	}
	if r, err := s.Do(t.Context(), b); err != nil || r.Swapped {
		t.Errorf("another batch with the same content: %+v, %v", r, err)
	}
}

// Versions go on after all data is lost, as after a fail-over to a replica that has nothing.
func TestVersionsGoOnAfterLostWrites(t *testing.T) {
	t.Parallel()
	client := dial(t, redis.Options{Addr: testservers.Redis(t)})
	s := open(t, client)
	b := fleet.Batch{Swap: &fleet.Put{Key: "f/k", Value: []byte("x")}, Get: []string{"f/k"}}
	before, err := s.Do(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	client.FlushAll(t.Context())
	after, err := s.Do(t.Context(), b)
	if err != nil || !after.Swapped || after.Items["f/k"].Version <= before.Items["f/k"].Version {
		t.Errorf("version %d, and %d after all was lost: %v", before.Items["f/k"].Version, after.Items["f/k"].Version, err)
	}
}

const (
	rights = "+@connection +eval +evalsha +time +hget +hset +hdel +hgetall"
	looks  = "+@connection +eval +evalsha +time +hget +hgetall"
)

// The rights that the documentation names are enough, and without those to write nothing is half done.
func TestLeastRights(t *testing.T) {
	t.Parallel()
	if doc, err := os.ReadFile("doc.go"); err != nil || !strings.Contains(string(doc), "~gabion:fleet:* "+rights) {
		t.Errorf("the documentation does not name %s (%v)", rights, err)
	}
	admin := dial(t, redis.Options{Addr: testservers.Redis(t)})
	for name, rights := range map[string]string{"member": rights, "looker": looks} {
		args := []any{"ACL", "SETUSER", name, "on", ">x", "~gabion:fleet:*"}
		for _, right := range strings.Fields(rights) {
			args = append(args, right)
		}
		if err := admin.Do(t.Context(), args...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	as := func(name string) *Store {
		return open(t, dial(t, redis.Options{Addr: admin.Options().Addr, Username: name, Password: "x"}))
	}
	b := fleet.Batch{
		Swap: &fleet.Put{Key: "f/k", Value: []byte("x")}, Puts: []fleet.Put{{Key: "f/short", Value: []byte("x"), Lasts: time.Millisecond}},
		Get: []string{"f/k"},
	}
	if _, err := as("looker").Do(t.Context(), b); err == nil || !strings.Contains(err.Error(), "can't run this command") && !strings.Contains(err.Error(), "NOPERM") {
		t.Errorf("one who may only look puts: %v", err)
	}
	if n := admin.DBSize(t.Context()).Val(); n != 0 {
		t.Errorf("%d keys are there after a refusal", n)
	}
	if r, err := as("member").Do(t.Context(), b); err != nil || !r.Swapped {
		t.Errorf("a member: %+v, %v", r, err)
	}
	time.Sleep(5 * time.Millisecond)
	r, err := as("looker").Do(t.Context(), fleet.Batch{Get: []string{"f/k"}, List: "f/"})
	if err != nil || len(r.Items) != 1 {
		t.Errorf("one who may only look: %+v, %v", r, err)
	}
	if n := admin.HLen(t.Context(), "gabion:fleet:f").Val(); n != 3 {
		t.Errorf("%d fields, want the key, the one that is over, and the last version", n)
	}
	if _, err := as("member").Do(t.Context(), fleet.Batch{List: "f/"}); err != nil {
		t.Error(err)
	}
	if n := admin.HLen(t.Context(), "gabion:fleet:f").Val(); n != 2 {
		t.Errorf("%d fields after a list by one who may delete, want 2", n)
	}
}

func TestWhatIsRefused(t *testing.T) {
	s, err := New(redis.NewClient(&redis.Options{}), Options{Prefix: "p"})
	if err != nil {
		t.Fatal(err)
	}
	for fact, b := range map[string]fleet.Batch{
		"keys of two fleets":  {Get: []string{"a/k", "b/k"}},
		"a key without slash": {Get: []string{"a"}},
		"a put of another":    {Get: []string{"a/k"}, Puts: []fleet.Put{{Key: "b/k"}}},
		"a swap of another":   {List: "a/", Swap: &fleet.Put{Key: "b/k"}},
		"no name":             {List: "/a"},
	} {
		if _, err := s.Do(t.Context(), b); !errors.Is(err, errFleet) {
			t.Errorf("%s: %v", fact, err)
		}
	}
	if _, err := New(redis.NewRing(&redis.RingOptions{}), Options{}); err == nil {
		t.Error("a Ring is taken")
	}
}

func FuzzResult(f *testing.F) {
	f.Add("1795232865746556", "k", "0000000000000001", "v", int64(1))
	f.Fuzz(func(t *testing.T, now, key, version, value string, swapped int64) {
		r, err := result([]any{now, swapped, key, version, value})
		if err == nil && (r.Items[key].Version == 0 || string(r.Items[key].Value) != value) {
			t.Errorf("%+v", r)
		}
		if _, err := result([]any{now, swapped, key}); err == nil {
			t.Error("half an item is taken")
		}
	})
}
