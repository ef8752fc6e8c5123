package natsfleet

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/gabion-go/gabion/contrib/natsmsg/internal/bucket"
	"github.com/gabion-go/gabion/contrib/natsmsg/internal/testnats"
	"github.com/gabion-go/gabion/fleet"
	"github.com/gabion-go/gabion/fleet/fleettest"
	"github.com/gabion-go/gabion/internal/testfleet"
	"github.com/gabion-go/gabion/internal/testservers"
)

const patience = testnats.Patience

func TestMain(m *testing.M) { testnats.Main(m) }

// lazy is the URL of a server in this process.
func lazy(t testing.TB) string { return testnats.Serve(t, testnats.Settings{Lazy: true}).ClientURL() }

func mustOpen(t testing.TB, js jetstream.JetStream, o Options) *Store {
	t.Helper()
	s, err := Open(t.Context(), js, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestNATS(t *testing.T) {
	t.Parallel()
	url := lazy(t)
	fleettest.Run(t, func(t testing.TB) fleet.Store { return mustOpen(t, testnats.Connect(t, url), Options{}) })
}

func TestNATSOfADomain(t *testing.T) {
	t.Parallel()
	url := testnats.Serve(t, testnats.Settings{Lazy: true, Domain: "hub"}).ClientURL()
	fleettest.Run(t, func(t testing.TB) fleet.Store {
		js, err := jetstream.NewWithDomain(testnats.Connect(t, url).Conn(), "hub", jetstream.WithDefaultTimeout(patience))
		if err != nil {
			t.Fatal(err)
		}
		return mustOpen(t, js, Options{Bucket: "other", Storage: jetstream.MemoryStorage})
	})
}

func TestAServerThatStopsAndIsKilled(t *testing.T) {
	server := testservers.StartOwnNATS(t)
	testfleet.Outages(t, func(t testing.TB) fleet.Store { return mustOpen(t, testnats.Connect(t, server.DSN), Options{}) },
		func() { server.Pause(2 * time.Second) },
		func() { server.Kill(); time.Sleep(2 * time.Second); server.Restart() })
}

func TestKeysAreSubjects(t *testing.T) {
	for key, want := range map[string]string{
		"shop/pods/pod-1_a": "shop.pods.pod-1_a", "a.b/c": "a=2eb.c", "a//b": "a.=.b", "/": "=.=", "": "=", "ä": "=c3=a4", "=": "=3d", "a b*>": "a=20b=2a=3e",
	} {
		if got := subjectOf(key); got != want {
			t.Errorf("%q is %q, want %q", key, got, want)
		}
		if got, is := keyOf(want); !is || got != key {
			t.Errorf("%q is %q, %v, want %q", want, got, is, key)
		}
	}
	for _, subject := range []string{"", "a..b", "a=2", "a=zz", "a=2Eb", "a=61", "a.=.", "a b"} {
		if key, is := keyOf(subject); is {
			t.Errorf("%q is taken for the key %q", subject, key)
		}
	}
	for prefix, want := range map[string]string{"shop/pods/": "shop.pods.>", "shop/po": "shop.>", "shop": ">", "a//": "a.=.>", "/": "=.>"} {
		if got := filterOf(prefix); got != want {
			t.Errorf("the filter of %q is %q, want %q", prefix, got, want)
		}
	}
}

func FuzzKeys(f *testing.F) {
	f.Add("shop/pods/1", "shop/po")
	f.Fuzz(func(t *testing.T, key, prefix string) {
		subject := subjectOf(key)
		if back, is := keyOf(subject); !is || back != key {
			t.Errorf("%q is %q, and that is %q", key, subject, back)
		}
		if back, is := keyOf(key); is && subjectOf(back) != key {
			t.Errorf("%q is the key %q, and that is %q", key, back, subjectOf(back))
		}
		if filter := filterOf(prefix); strings.HasPrefix(key, prefix) && filter != ">" && !strings.HasPrefix(subject, strings.TrimSuffix(filter, ">")) {
			t.Errorf("the filter %q leaves out %q", filter, subject)
		}
	})
}

// What is over is deleted when it is listed, and what an operator deleted is not there.
func TestWhatIsOver(t *testing.T) {
	t.Parallel()
	js := testnats.Connect(t, lazy(t))
	s := mustOpen(t, js, Options{})
	do := func(b fleet.Batch) fleet.Result {
		t.Helper()
		r, err := s.Do(t.Context(), b)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	messages := func(want uint64) {
		t.Helper()
		if i, err := s.stream.Info(t.Context()); err != nil || i.State.Msgs != want {
			t.Errorf("%d messages, want %d (%v)", i.State.Msgs, want, err)
		}
	}
	do(fleet.Batch{Puts: []fleet.Put{{Key: "f/1", Value: []byte("x"), Lasts: time.Millisecond}, {Key: "f/2", Value: []byte("x")}, {Key: "f/3", Value: []byte("x"), Lasts: time.Millisecond}}})
	<-time.After(10 * time.Millisecond)
	if r := do(fleet.Batch{Swap: &fleet.Put{Key: "f/1", Value: []byte("new")}, Get: []string{"f/1"}}); !r.Swapped || string(r.Items["f/1"].Value) != "new" {
		t.Errorf("a key that is over can't be new: %+v", r)
	}
	if r := do(fleet.Batch{Get: []string{"f/3"}}); len(r.Items) != 0 {
		t.Errorf("%+v", r)
	}
	messages(3)
	if r := do(fleet.Batch{List: "f/"}); len(r.Items) != 2 {
		t.Errorf("%+v", r)
	}
	messages(2)
	kv, err := js.KeyValue(t.Context(), defaultBucket)
	if err == nil {
		err = kv.Delete(t.Context(), "f.2")
	}
	if err != nil {
		t.Fatal(err)
	}
	if r := do(fleet.Batch{Get: []string{"f/2"}, Swap: &fleet.Put{Key: "f/2", Value: []byte("new")}}); !r.Swapped || string(r.Items["f/2"].Value) != "new" {
		t.Errorf("a key that an operator deleted can't be new: %+v", r)
	}
}

func TestBucketsThatDoNotDo(t *testing.T) {
	t.Parallel()
	js := testnats.Connect(t, lazy(t))
	for n, c := range []struct {
		fact   string
		change func(*jetstream.StreamConfig)
		says   string
	}{
		{"a TTL", func(c *jetstream.StreamConfig) { c.MaxAge = time.Hour }, "set max_age to 0"},
		{"a history", func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject = 5 }, "set max_msgs_per_subject to 1"},
		{"direct reads", func(c *jetstream.StreamConfig) { c.AllowDirect = true }, "set allow_direct to false"},
		{"none of these", func(*jetstream.StreamConfig) {}, ""},
	} {
		t.Run(c.fact, func(t *testing.T) {
			o := Options{Bucket: fmt.Sprint("b", n)}
			have := bucket.Config(o.Bucket, "")
			c.change(&have)
			if _, err := js.CreateStream(t.Context(), have); err != nil {
				t.Fatal(err)
			}
			_, err := Open(t.Context(), js, o)
			if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, want %s", err, c.says)
			}
		})
	}
	for fact, o := range map[string]Options{"a bad name": {Bucket: "a.b"}, "a bucket that has to be there": {Bucket: "none", Existing: true}, "fewer than none": {Replicas: -1}} {
		if _, err := Open(t.Context(), js, o); err == nil {
			t.Errorf("%s: no error", fact)
		}
	}
}

// A connection that is down is an error at once, and nothing is sent later.
func TestNothingIsKeptForReconnects(t *testing.T) {
	server := testservers.StartOwnNATS(t)
	s := mustOpen(t, testnats.Connect(t, server.DSN, nats.ReconnectBufSize(8<<20)), Options{})
	server.Kill()
	for limit := time.Now().Add(patience); s.js.Conn().IsConnected(); <-time.After(time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatal("still connected")
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := s.Do(ctx, fleet.Batch{Swap: &fleet.Put{Key: "f/k", Value: []byte("x")}}); err == nil {
		t.Error("no error")
	}
	server.Restart()
	again := mustOpen(t, testnats.Connect(t, server.DSN), Options{})
	if r, err := again.Do(t.Context(), fleet.Batch{Get: []string{"f/k"}}); err != nil || len(r.Items) != 0 {
		t.Errorf("%+v, %v", r, err)
	}
}

// The rights that the documentation names are enough. Each key is a subject, so who may not override may still be a member.
func TestRights(t *testing.T) {
	t.Parallel()
	may := func(subjects ...string) *server.Permissions {
		return &server.Permissions{Publish: &server.SubjectPermission{Allow: subjects}, Subscribe: &server.SubjectPermission{Allow: []string{"_INBOX.>"}}}
	}
	const info, get, drop, purge = "$JS.API.STREAM.INFO.KV_b", "$JS.API.STREAM.MSG.GET.KV_b", "$JS.API.STREAM.MSG.DELETE.KV_b", "$JS.API.STREAM.PURGE.KV_b"
	n := testnats.Serve(t, testnats.Settings{Lazy: true, Users: []*server.User{
		{Username: "admin", Password: "x"},
		{Username: "steers", Password: "x", Permissions: may("$KV.b.>", info, get, drop, purge)},
		{Username: "member", Password: "x", Permissions: may("$KV.b.f.pods.>", "$KV.b.f.pool", "$KV.b.f.part.>", "$KV.b.f.turn", info, get, drop, purge)},
		{Username: "looks", Password: "x", Permissions: may(info, get)},
	}})
	as := func(name string) *Store {
		return mustOpen(t, testnats.Connect(t, n.ClientURL(), nats.UserInfo(name, "x")), Options{Bucket: "b", Existing: name != "admin"})
	}
	admin := as("admin")
	put := func(keys ...string) (b fleet.Batch) {
		for _, key := range keys {
			b.Puts = append(b.Puts, fleet.Put{Key: key, Value: []byte("x"), Lasts: time.Minute})
		}
		return b
	}
	swap := func(key string) fleet.Batch {
		return fleet.Batch{Swap: &fleet.Put{Key: key, Value: []byte("x")}, Get: []string{key}, List: "f/pods/"}
	}
	for _, c := range []struct {
		user string
		b    fleet.Batch
		ok   bool
	}{
		{"looks", swap("f/overrides"), false},
		{"looks", put("f/pods/1"), false},
		{"member", swap("f/overrides"), false},
		{"member", put("f/overrides"), false},
		{"member", put("f/pods/1"), true},
		{"member", swap("f/pool"), true},
		{"member", swap("f/turn"), true},
		{"member", put("f/part/4/1", "f/part/4/2"), true},
		{"steers", swap("f/overrides"), true},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), testnats.Patience)
		if !c.ok { // the server refuses without an answer
			ctx, cancel = context.WithTimeout(t.Context(), time.Second/2)
		}
		before, err := admin.Do(t.Context(), fleet.Batch{List: "f/"})
		if err != nil {
			t.Fatal(err)
		}
		r, err := as(c.user).Do(ctx, c.b)
		cancel()
		if c.ok != (err == nil && r.Swapped) {
			t.Errorf("%s, %+v: %+v, %v", c.user, c.b, r, err)
		}
		if after, err := admin.Do(t.Context(), fleet.Batch{List: "f/"}); err != nil || !c.ok && len(after.Items) != len(before.Items) {
			t.Errorf("%s: %d keys became %d (%v)", c.user, len(before.Items), len(after.Items), err)
		}
	}
	if r, err := as("looks").Do(t.Context(), fleet.Batch{Get: []string{"f/overrides", "f/pool"}, List: "f/"}); err != nil || len(r.Items) != 6 {
		t.Errorf("one who only looks: %+v, %v", r, err)
	}
}
