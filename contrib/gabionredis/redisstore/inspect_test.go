package redisstore

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/internal/testservers"
)

// Sentences of the warnings, by what tells them apart.
const (
	noFile     = "no append-only file"
	noSync     = "appendfsync is everysec"
	noRewrite  = "while it rewrites"
	unchecked  = "does not show its settings"
	evicts     = "maxmemory-policy is allkeys-lru"
	replicated = "follow asynchronously"
	deadlines  = "ContextTimeoutEnabled"
)

func wantWarnings(t *testing.T, caps idempotency.Caps, durable bool, want ...string) {
	t.Helper()
	if caps.Durable != durable || !caps.ServerClock {
		t.Errorf("durable %v, want %v; server clock %v", caps.Durable, durable, caps.ServerClock)
	}
	for _, part := range want {
		if !slices.ContainsFunc(caps.Warnings, func(w string) bool { return strings.Contains(w, part) }) {
			t.Errorf("no warning says %q: %q", part, caps.Warnings)
		}
	}
	if len(caps.Warnings) != len(want) {
		t.Errorf("%d warnings, want %d: %q", len(caps.Warnings), len(want), caps.Warnings)
	}
	for _, w := range caps.Warnings {
		if !strings.Contains(w, "set ") {
			t.Errorf("a warning without a remedy: %s", w)
		}
	}
}

func TestSettingsOfTheServer(t *testing.T) {
	for _, c := range []struct {
		name    string
		args    []string
		durable bool
		want    []string
	}{
		{"synced", durable, true, nil},
		{"no file", nil, false, []string{noFile}},
		{"synced every second", []string{"--appendonly", "yes"}, false, []string{noSync}},
		{"not synced while rewriting", append(slices.Clone(durable), "--no-appendfsync-on-rewrite", "yes"), false, []string{noRewrite}},
		{"evicting", append(slices.Clone(durable), "--maxmemory-policy", "allkeys-lru"), true, []string{evicts}},
		{"everything wrong", []string{"--maxmemory-policy", "allkeys-lru"}, false, []string{noFile, evicts}},
		{"CONFIG is gone", append(slices.Clone(durable), "--rename-command", "CONFIG", ""), false, []string{unchecked}},
		{"CONFIG is forbidden", append(slices.Clone(durable), "--user", "default", "on", "nopass", "~*", "+@all", "-config"), false, []string{unchecked}},
		{"CONFIG is forbidden, no file", []string{"--user", "default", "on", "nopass", "~*", "+@all", "-config"}, false, []string{noFile}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			wantWarnings(t, open(t, dial(t, testservers.Redis(t, c.args...))).Caps(), c.durable, c.want...)
		})
	}
}

func TestReplicas(t *testing.T) {
	addr := testservers.Redis(t, durable...)
	host, port, _ := strings.Cut(addr, ":")
	replica := dial(t, testservers.Redis(t, "--replicaof", host+" "+port))
	if _, err := New(t.Context(), replica, Options{}); err == nil || !strings.Contains(err.Error(), "replica") {
		t.Errorf("a replica as a store: %v", err)
	}
	client := dial(t, addr)
	for limit := time.Now().Add(time.Minute); time.Now().Before(limit); time.Sleep(20 * time.Millisecond) {
		if fields(client.Info(t.Context(), "replication").Val())["connected_slaves"] == "1" {
			break
		}
	}
	wantWarnings(t, open(t, client).Caps(), true, replicated)
}

func TestClientsSettings(t *testing.T) {
	addr := testservers.Redis(t, durable...)
	client := redis.NewClient(&redis.Options{Addr: addr})
	t.Cleanup(func() { client.Close() })
	wantWarnings(t, open(t, client).Caps(), true, deadlines)

	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": addr}})
	t.Cleanup(func() { ring.Close() })
	if _, err := New(t.Context(), ring, Options{}); err == nil || !strings.Contains(err.Error(), "Ring") {
		t.Errorf("a Ring: %v", err)
	}
	gone := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1})
	t.Cleanup(func() { gone.Close() })
	if _, err := New(t.Context(), gone, Options{}); err == nil {
		t.Error("a store without a server")
	}
}

func TestVersions(t *testing.T) {
	for version, fine := range map[string]bool{"7.0.0": true, "7.2.4": true, "8.2.1": true, "10.0": true, "6.2.14": false, "": false, "x": false} {
		if err := usable(map[string]string{"redis_version": version, "role": "master"}); (err == nil) != fine {
			t.Errorf("version %q: %v", version, err)
		}
	}
}

// With noeviction a full server refuses new keys and goes on replaying.
func TestFullServer(t *testing.T) {
	r := newRig(t, "--maxmemory", "4mb")
	r.apply(r.begin(claimOf("done"), idempotency.DecisionRun), completed("x"))
	var err error
	n := 0
	for ; err == nil && n < 50_000; n++ {
		c := claimOf(fmt.Sprint(n))
		c.Lease = time.Hour // on a slow machine this takes a while
		_, err = r.Begin(t.Context(), c)
	}
	if n < 100 || !errors.Is(err, idempotency.ErrFull) {
		t.Fatalf("claim %d: %v", n, err)
	}
	r.begin(other(claimOf("0")), idempotency.DecisionInProgress)
	r.begin(other(claimOf("done")), idempotency.DecisionReplay)
}

// What a Ring would do: with one of two servers down, it grants the same claim again on the
// other one.
func TestRingWouldGrantAClaimTwice(t *testing.T) {
	servers := []*testservers.Server{testservers.StartRedis(t, durable...), testservers.StartRedis(t, durable...)}
	ring := redis.NewRing(&redis.RingOptions{
		Addrs: map[string]string{"a": servers[0].Addr, "b": servers[1].Addr}, HeartbeatFrequency: 10 * time.Millisecond, ContextTimeoutEnabled: true,
	})
	t.Cleanup(func() { ring.Close() })
	s := &Store{client: ring, prefix: defaultPrefix} // as New would make it
	c := claimOf("k")
	if a, err := s.Begin(t.Context(), c); err != nil || a.Decision != idempotency.DecisionRun {
		t.Fatalf("%v, %v", a.Decision, err)
	}
	for _, server := range servers {
		if n, err := dial(t, server.Addr).Exists(t.Context(), s.key(c.ID)).Result(); err != nil || n == 1 {
			server.Kill()
		}
	}
	var a idempotency.Answer
	var err error
	for limit := time.Now().Add(patience); time.Now().Before(limit); {
		if a, err = s.Begin(t.Context(), other(c)); err == nil {
			break // the Ring has noticed
		}
	}
	if err != nil || a.Decision != idempotency.DecisionRun {
		t.Errorf("a Ring that keeps its keys may be allowed: %v, %v", a.Decision, err)
	}
	if _, err := New(t.Context(), ring, Options{}); err == nil || !strings.Contains(err.Error(), "they would run again") {
		t.Errorf("a Ring: %v", err)
	}
}
