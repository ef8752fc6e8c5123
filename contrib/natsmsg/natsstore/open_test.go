package natsstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/gabion-go/gabion/contrib/natsmsg/internal/bucket"
	"github.com/gabion-go/gabion/contrib/natsmsg/internal/testnats"
	"github.com/gabion-go/gabion/idempotency"
)

func TestOpenNamesEveryConflict(t *testing.T) {
	js := testnats.Connect(t, testnats.Serve(t, testnats.Settings{Lazy: true}).ClientURL())
	for n, c := range []struct {
		name   string
		change func(*jetstream.StreamConfig)
		ask    Options
		text   string // of the error, empty without one
	}{
		{"a bucket of its own", func(*jetstream.StreamConfig) {}, Options{}, ""},
		{"another TTL where none is asked for", func(c *jetstream.StreamConfig) { c.MaxAge = 2 * time.Hour }, Options{}, ""},
		{"bounded", func(c *jetstream.StreamConfig) { c.MaxBytes = 1 << 20 }, Options{}, ""},
		{"another TTL", func(c *jetstream.StreamConfig) { c.MaxAge = 2 * time.Hour }, Options{TTL: time.Hour}, "its TTL is 2h0m0s, asked for 1h0m0s"},
		{"history", func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject = 3 }, Options{}, "its history is 3"},
		{"direct reads", func(c *jetstream.StreamConfig) { c.AllowDirect = true }, Options{}, "allow_direct"},
		{"no deletes", func(c *jetstream.StreamConfig) { c.DenyDelete = true }, Options{}, "denies deletes"},
		{"memory", func(c *jetstream.StreamConfig) { c.Storage = jetstream.MemoryStorage }, Options{}, "in Memory storage, asked for File"},
		{"other subjects", func(c *jetstream.StreamConfig) { c.Subjects = append(c.Subjects, "orders") }, Options{}, "no bucket of its own"},
		{"forgets what it must keep", func(c *jetstream.StreamConfig) { c.MaxMsgs, c.Discard = 10, jetstream.DiscardOld }, Options{}, "discards old"},
		{"asynchronous", func(c *jetstream.StreamConfig) { c.PersistMode = jetstream.AsyncPersistMode }, Options{}, "persist_mode"},
		{"no acknowledgements", func(c *jetstream.StreamConfig) { c.NoAck = true }, Options{}, "no_ack"},
		{"replicas", func(*jetstream.StreamConfig) {}, Options{Replicas: 3}, "it has 1 replicas, asked for 3"},
		{"small values", func(c *jetstream.StreamConfig) { c.MaxMsgSize = 64 << 10 }, Options{}, "max_msg_size"},
		{"a work queue", func(c *jetstream.StreamConfig) { c.Retention = jetstream.WorkQueuePolicy }, Options{}, "retention policy"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.ask.Bucket = fmt.Sprintf("b%d", n)
			have := config(Options{Bucket: c.ask.Bucket})
			c.change(&have)
			if _, err := js.CreateStream(t.Context(), have); err != nil {
				t.Fatal(err)
			}
			_, err := Open(t.Context(), js, c.ask)
			if (err != nil) != (c.text != "") || err != nil && !strings.Contains(err.Error(), c.text) {
				t.Errorf("%v, want %q", err, c.text)
			}
		})
	}
	t.Run("a bucket made by others", func(t *testing.T) {
		if _, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "foreign", History: 5}); err != nil {
			t.Fatal(err)
		}
		_, err := Open(t.Context(), js, Options{Bucket: "foreign"})
		for _, text := range []string{"history is 5", "allow_direct", "deletes"} {
			if err == nil || !strings.Contains(err.Error(), text) {
				t.Errorf("%v does not name %q", err, text)
			}
		}
	})
	for _, o := range []Options{{}, {Bucket: "a.b"}, {Bucket: "a", TTL: -1}, {Bucket: "a", Replicas: -1}} {
		if _, err := Open(t.Context(), js, o); err == nil {
			t.Errorf("%+v was opened", o)
		}
	}
}

func TestNewBucket(t *testing.T) {
	js := testnats.Connect(t, testnats.Serve(t, testnats.Settings{Lazy: true}).ClientURL())
	mustOpen(t, js, Options{TTL: time.Minute, MaxBytes: 1 << 20})
	kv, err := js.KeyValue(t.Context(), "records")
	if err != nil {
		t.Fatal(err)
	}
	status, err := kv.Status(t.Context())
	if err != nil || status.History() != 1 || status.TTL() != time.Minute || status.Config().MaxBytes != 1<<20 {
		t.Errorf("%+v, %v", status, err)
	}
	mustOpen(t, js, Options{TTL: time.Minute})
}

func TestDurability(t *testing.T) {
	for _, c := range []struct {
		name    string
		lazy    bool
		options Options
		system  bool
		buffer  int
		durable bool
		warns   []string
		fails   string
	}{
		{"declared", false, Options{SyncAlways: true}, false, -1, true, nil, ""},
		{"not declared", false, Options{}, false, -1, false, []string{"sync_interval: always"}, ""},
		{"found by asking", false, Options{}, true, -1, true, nil, ""},
		{"found lazy by asking", true, Options{}, true, -1, false, []string{"one do not sync every write"}, ""},
		{"declared and not so", true, Options{SyncAlways: true}, true, -1, false, nil, "these servers do not sync every write: one"},
		{"in memory", false, Options{SyncAlways: true, Storage: jetstream.MemoryStorage}, false, -1, false, []string{"in memory"}, ""},
		{"a buffer for reconnects", false, Options{SyncAlways: true}, false, 8 << 20, true, []string{"ReconnectBufSize(-1)"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			url := testnats.Serve(t, testnats.Settings{Lazy: c.lazy, System: true}).ClientURL()
			js := testnats.Connect(t, url, nats.UserInfo("app", "x"), nats.ReconnectBufSize(c.buffer))
			if c.options.Bucket = "records"; c.system {
				c.options.System = testnats.Connect(t, url, nats.UserInfo("sys", "x")).Conn()
			}
			s, err := Open(t.Context(), js, c.options)
			if c.fails != "" {
				if err == nil || !strings.Contains(err.Error(), c.fails) {
					t.Errorf("%v, want %q", err, c.fails)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			caps := s.Caps()
			if caps.Durable != c.durable || !caps.ServerClock || caps.MaxValue != 256<<10 || len(caps.Warnings) != len(c.warns) {
				t.Fatalf("%+v", caps)
			}
			for n, w := range c.warns {
				if !strings.Contains(caps.Warnings[n], w) {
					t.Errorf("%q, want %q", caps.Warnings[n], w)
				}
			}
		})
	}
	t.Run("no answer on the system account", func(t *testing.T) {
		url := testnats.Serve(t, testnats.Settings{Lazy: true, System: true}).ClientURL()
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_, err := lazyServers(ctx, testnats.Connect(t, url, nats.UserInfo("app", "x")).Conn(), []string{"one"})
		if err == nil || !strings.Contains(err.Error(), "about one") {
			t.Error(err)
		}
	})
}

func TestMessageSizeBoundsBodies(t *testing.T) {
	const least = 200 << 10
	for name, c := range map[string]struct{ payload, message int32 }{"max_payload": {least, -1}, "max_msg_size": {1 << 20, least}} {
		t.Run(name, func(t *testing.T) {
			js := testnats.Connect(t, testnats.Serve(t, testnats.Settings{Lazy: true, MaxPayload: c.payload}).ClientURL())
			have := config(Options{Bucket: "records"})
			have.MaxMsgSize = c.message
			if _, err := js.CreateStream(t.Context(), have); err != nil {
				t.Fatal(err)
			}
			s := mustOpen(t, js, Options{})
			most := s.Caps().MaxValue
			if most != least-room {
				t.Errorf("MaxValue is %d", most)
			}
			claim := claimOf("fits", idempotency.GuaranteeHold, time.Minute)
			apply(t, s, claim, want(t, s, claim, idempotency.DecisionRun), done(strings.Repeat("x", most)))
			claim = claimOf("does not", idempotency.GuaranteeHold, time.Minute)
			a := want(t, s, claim, idempotency.DecisionRun)
			err := s.Apply(t.Context(), idempotency.Ref{ID: claim.ID, Token: a.Record.Token}, done(strings.Repeat("x", least)))
			if !errors.Is(err, idempotency.ErrTooLarge) {
				t.Errorf("too large: %v", err)
			}
			omitted := idempotency.Change{State: idempotency.StateDone, Result: idempotency.Result{Status: 201, Omitted: true}}
			apply(t, s, claim, a, omitted) // the run goes on
		})
	}
}

// Publishes go where the rest of the API goes.
func TestDomainsAndPrefixes(t *testing.T) {
	nc := testnats.Connect(t, testnats.Serve(t, testnats.Settings{Lazy: true, Domain: "hub"}).ClientURL()).Conn()
	for n, c := range []struct {
		open   func() (jetstream.JetStream, error)
		prefix string
	}{
		{func() (jetstream.JetStream, error) { return jetstream.New(nc) }, ""},
		{func() (jetstream.JetStream, error) { return jetstream.NewWithDomain(nc, "hub") }, "$JS.hub.API."},
		{func() (jetstream.JetStream, error) { return jetstream.NewWithAPIPrefix(nc, "$JS.hub.API") }, "$JS.hub.API."},
	} {
		js, err := c.open()
		if err != nil {
			t.Fatal(err)
		}
		if got := bucket.Prefix(js); got != c.prefix {
			t.Errorf("%q, want %q", got, c.prefix)
		}
		want(t, mustOpen(t, js, Options{}), claimOf(fmt.Sprint(n), idempotency.GuaranteeHold, time.Minute), idempotency.DecisionRun)
	}
}

func TestKeepers(t *testing.T) {
	nc := testnats.Connect(t, testnats.Serve(t, testnats.Settings{Lazy: true}).ClientURL()).Conn()
	three := &jetstream.ClusterInfo{Name: "c", Leader: "n1", Replicas: []*jetstream.PeerInfo{{Name: "n0"}, {Name: "n2"}}}
	for _, c := range []struct {
		cluster *jetstream.ClusterInfo
		want    []string
	}{{nil, []string{"one"}}, {three, []string{"n1", "n0", "n2"}}} {
		if got := keepers(nc, &jetstream.StreamInfo{Cluster: c.cluster}); !slices.Equal(got, c.want) {
			t.Errorf("%v, want %v", got, c.want)
		}
	}
}

// A store keeps nothing running.
func TestNoGoroutineIsLeft(t *testing.T) {
	url := testnats.Serve(t, testnats.Settings{Lazy: true}).ClientURL()
	nc, err := nats.Connect(url, nats.Timeout(patience))
	if err != nil {
		t.Fatal(err)
	}
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(patience))
	if err != nil {
		t.Fatal(err)
	}
	s := mustOpen(t, js, Options{})
	for n := range 20 {
		c := claimOf(fmt.Sprint(n), idempotency.GuaranteeHold, time.Millisecond)
		want(t, s, c, idempotency.DecisionRun)
	}
	pass(t, s, time.Millisecond)
	for _, limit := range []int{5, 100} {
		if n, err := s.Sweep(t.Context(), limit); n == 0 || err != nil {
			t.Errorf("swept %d: %v", n, err)
		}
	}
	if n := len(s.held); n != 20 {
		t.Errorf("%d records are remembered", n)
	}
	names, err := s.stream.Info(t.Context())
	if err != nil || names.State.Consumers != 0 {
		t.Errorf("consumers are left: %+v, %v", names.State, err)
	}
	nc.Close()
	for limit := time.Now().Add(patience); ; <-time.After(10 * time.Millisecond) {
		left := testnats.Stacks("nats-io/nats.go", "natsstore.(*")
		if len(left) == 0 {
			break
		}
		if time.Now().After(limit) {
			t.Fatalf("still running:\n%s", left[0])
		}
	}
}
