package redisstore

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/idempotencytest"
	"github.com/gabion-go/gabion/internal/testservers"
)

// durable are the settings that New asks for.
var durable = []string{"--appendonly", "yes", "--appendfsync", "always"}

// patience is how long a test waits for what a machine that works would bring.
const patience = time.Minute

var servers = map[string]func(testing.TB, ...string) *testservers.Server{"Redis": testservers.StartRedis, "Valkey": testservers.StartValkey}

func dial(t testing.TB, addr string) *redis.Client {
	t.Helper()
	return dialWith(t, redis.Options{Addr: addr, PoolSize: 64})
}

func dialWith(t testing.TB, o redis.Options) *redis.Client {
	t.Helper()
	o.ContextTimeoutEnabled = true
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout = patience, patience, patience
	client := redis.NewClient(&o)
	t.Cleanup(func() { client.Close() })
	return client
}

func open(t testing.TB, client redis.UniversalClient) *Store {
	t.Helper()
	s, err := New(t.Context(), client, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestConformance(t *testing.T) {
	for name, start := range servers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			addr := start(t, durable...).Addr
			client := dial(t, addr)
			wantWarnings(t, open(t, client).Caps(), true)
			idempotencytest.Run(t, idempotencytest.Config{
				Open: func(t testing.TB) idempotency.Store {
					client.FlushAll(t.Context()) // a sweep looks at other tests' keys too
					return open(t, client)
				},
				Again: func(t testing.TB, _ idempotency.Store, _ time.Duration) idempotency.Store {
					return open(t, dial(t, addr))
				},
			})
		})
	}
}

// A rig is a test with a store, whose round trips are counted.
type rig struct {
	testing.TB
	*Store
	client *redis.Client
	trips  atomic.Int64
}

func newRig(t testing.TB, args ...string) *rig {
	t.Helper()
	r := &rig{TB: t, client: dial(t, testservers.Redis(t, args...))}
	r.Store = open(t, r.client)
	r.client.AddHook(counter{&r.trips})
	return r
}

// A counter counts commands as they are sent.
type counter struct{ n *atomic.Int64 }

func (counter) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h counter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		h.n.Add(1)
		return next(ctx, cmd)
	}
}

func (h counter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		h.n.Add(1)
		return next(ctx, cmds)
	}
}

func (r *rig) begin(c idempotency.Claim, want idempotency.Decision) idempotency.Ref {
	r.Helper()
	a, err := r.Begin(r.Context(), c)
	if err != nil || a.Decision != want {
		r.Fatalf("begin: %v, %v, want %v", a.Decision, err, want)
	}
	return idempotency.Ref{ID: c.ID, Token: a.Record.Token}
}

func (r *rig) apply(ref idempotency.Ref, c idempotency.Change) {
	r.Helper()
	if err := r.Apply(r.Context(), ref, c); err != nil {
		r.Fatalf("%v: %v", c.State, err)
	}
}

func (r *rig) get(id idempotency.ID) idempotency.Record {
	r.Helper()
	record, err := r.Get(r.Context(), id)
	if err != nil {
		r.Fatalf("get: %v", err)
	}
	return record
}

// raw is what the server has under the record's key.
func (r *rig) raw(id idempotency.ID) string {
	r.Helper()
	value, err := r.client.Get(r.Context(), r.key(id)).Result()
	if err != nil {
		r.Fatalf("raw: %v", err)
	}
	return value
}

func claimOf(key string) idempotency.Claim {
	return idempotency.Claim{
		ID: idempotency.IDOf("test", key), Fingerprint: [32]byte{1}, Owner: [16]byte{1},
		Lease: 30 * time.Second, Retention: 24 * time.Hour,
	}
}

func other(c idempotency.Claim) idempotency.Claim {
	c.Owner[0]++
	return c
}

func completed(body string) idempotency.Change {
	return idempotency.Change{State: idempotency.StateDone, Result: idempotency.Result{Status: 201, Body: []byte(body)}}
}

var (
	released = idempotency.Change{State: idempotency.StateRetryable}
	extended = idempotency.Change{State: idempotency.StateRunning, Lease: time.Minute}
	saved    = idempotency.Change{State: idempotency.StateRunning, Point: &idempotency.Point{Name: "p", Data: []byte("q")}}
)

func TestRoundTrips(t *testing.T) {
	r := newRig(t)
	warm := claimOf("warm") // the server gets to know the scripts
	ref := r.begin(warm, idempotency.DecisionRun)
	r.apply(ref, extended)
	for _, step := range []struct {
		name string
		want int64
		do   func()
	}{
		{"a new key", 1, func() { ref = r.begin(claimOf("k"), idempotency.DecisionRun) }},
		{"the same claim again", 1, func() { r.begin(claimOf("k"), idempotency.DecisionRun) }},
		{"a key in progress", 1, func() { r.begin(other(claimOf("k")), idempotency.DecisionInProgress) }},
		{"another request", 1, func() {
			c := other(claimOf("k"))
			c.Fingerprint[0]++
			r.begin(c, idempotency.DecisionMismatch)
		}},
		{"a recovery point", 1, func() { r.apply(ref, saved) }},
		{"an extension", 2, func() { r.apply(ref, extended) }},
		{"a completion after it", 1, func() { r.apply(ref, completed("x")) }},
		{"a replay", 1, func() { r.begin(other(claimOf("k")), idempotency.DecisionReplay) }},
		{"a completion that was made already", 1, func() { r.apply(ref, completed("x")) }},
		{"a completion of which nothing is remembered", 2, func() {
			ref = r.begin(claimOf("l"), idempotency.DecisionRun)
			r.runs.drop(ref)
			r.trips.Store(0)
			r.apply(ref, completed("x"))
		}},
		{"a released key", 2, func() {
			ref = r.begin(claimOf("m"), idempotency.DecisionRun)
			r.apply(ref, released)
			r.trips.Store(0)
			ref = r.begin(other(claimOf("m")), idempotency.DecisionRun)
		}},
		{"its completion", 1, func() { r.apply(ref, completed("x")) }},
	} {
		r.trips.Store(0)
		began := time.Now()
		step.do()
		most := step.want
		if time.Since(began) > time.Second/2 { // what was heard from the server is too old by then, and it is asked
			most++
		}
		if got := r.trips.Load(); got < step.want || got > most {
			t.Errorf("%s: %d round trips, want %d", step.name, got, step.want)
		}
	}
	if r.runs.get(ref) != "" {
		t.Error("a run that has ended is remembered")
	}
}

// What a process remembers decides nothing: the server's record does.
func TestRememberedRunsAreOnlyAGuess(t *testing.T) {
	r := newRig(t)
	second := open(t, r.client)
	c := claimOf("k")
	c.Guarantee, c.Lease = idempotency.GuaranteeReexecute, time.Millisecond
	first := r.begin(c, idempotency.DecisionRun)
	r.apply(first, saved) // and so it remembers that this was made
	for r.get(c.ID).LeaseUntil.Add(time.Millisecond) > idempotency.Moment(r.client.Time(t.Context()).Val().UnixNano()) {
	}
	next := other(c)
	next.Lease = time.Hour
	a, err := second.Begin(t.Context(), next)
	if err != nil || a.Decision != idempotency.DecisionRun {
		t.Fatalf("takeover: %v, %v", a.Decision, err)
	}
	before := r.raw(c.ID)
	for _, change := range []idempotency.Change{completed("zombie"), released, extended, saved, {State: idempotency.StateUnknown}} {
		if r.runs.get(first) == "" {
			t.Fatal("the first process remembers nothing, so this proves nothing")
		}
		if err := r.Apply(t.Context(), first, change); !errors.Is(err, idempotency.ErrLeaseLost) {
			t.Errorf("%v by a process that was overtaken: %v", change.State, err)
		}
	}
	if r.raw(c.ID) != before {
		t.Error("a process that was overtaken changed the record")
	}
}

// Whatever the last word heard from the server's clock, moments are the server's.
func TestMomentsAreTheServers(t *testing.T) {
	r := newRig(t)
	for skew, retention := range map[time.Duration]time.Duration{
		0: 24 * time.Hour, -5 * time.Second: 24 * time.Hour, 5 * time.Second: 24 * time.Hour, -time.Hour: 24 * time.Hour, time.Hour: 24 * time.Hour,
		-100 * time.Millisecond: time.Minute, // which is more than a thousandth
	} {
		c := claimOf(skew.String())
		c.Retention = retention
		earliest := r.client.Time(t.Context()).Val()
		ref := r.begin(c, idempotency.DecisionRun)
		r.heard.Add(int64(skew))
		r.apply(ref, completed("x"))
		got, latest := r.get(c.ID), r.client.Time(t.Context()).Val()
		for name, at := range map[string]idempotency.Moment{"created": got.Created, "finished": got.Finished, "expires": got.Expires.Add(-c.Retention)} {
			if int64(at) < earliest.UnixNano() || int64(at) > latest.UnixNano() {
				t.Errorf("heard %v off: %s %v, and the server's clock went from %v to %v", skew, name, at, earliest.UnixNano(), latest.UnixNano())
			}
		}
		if got.Token != int64(got.Created)/1000 {
			t.Errorf("token %d of a record created at %d", got.Token, got.Created)
		}
	}
}

// The clocks of clients can't matter: the store does not read them.
func TestNoClockAndNoGoroutine(t *testing.T) {
	files, _ := filepath.Glob("*.go")
	checked := 0
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		checked++
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				t.Errorf("%s starts a goroutine", name)
			case *ast.SelectorExpr:
				from, _ := n.X.(*ast.Ident)
				if from != nil && from.Name == "time" && !slices.Contains([]string{"Duration", "Second", "Minute"}, n.Sel.Name) {
					t.Errorf("%s uses time.%s", name, n.Sel.Name)
				}
			}
			return true
		})
	}
	if checked < 4 {
		t.Errorf("%d files checked", checked)
	}
}

// The server's own expiry comes a minute after the record's.
func TestForgetting(t *testing.T) {
	r := newRig(t)
	c := claimOf("k")
	left := func(want time.Duration) {
		t.Helper()
		got := r.client.PTTL(t.Context(), r.key(c.ID)).Val()
		if got > want+time.Millisecond || got < want-20*time.Second {
			t.Errorf("forgotten in %v, want %v", got, want)
		}
	}
	ref := r.begin(c, idempotency.DecisionRun)
	left(30*time.Second + 24*time.Hour + time.Minute)
	r.apply(ref, extended)
	left(time.Minute + 24*time.Hour + time.Minute)
	r.apply(ref, completed("x"))
	left(24*time.Hour + time.Minute)

	c = claimOf("for ever")
	c.Lease, c.Retention = 1<<63-1, 1<<63-1
	ref = r.begin(c, idempotency.DecisionRun)
	r.begin(other(c), idempotency.DecisionInProgress)
	r.apply(ref, completed("x"))
	r.begin(other(c), idempotency.DecisionReplay)
	if n := r.client.PTTL(t.Context(), r.key(c.ID)).Val(); n < 200*365*24*time.Hour {
		t.Errorf("forgotten in %v, and it should be kept for ever", n)
	}
}

// An expired record whose key is still there is taken over with a larger token, as
// a clock set back must not repeat one.
func TestTokenGrowsOverAnExpiredRecord(t *testing.T) {
	r := newRig(t)
	c := claimOf("k")
	later := idempotency.Moment(time.Now().Add(time.Hour).UnixNano())
	old := idempotency.Record{State: idempotency.StateDone, Token: int64(later) / 1000, Attempt: 1, Expires: 1}
	value, err := written(old)
	if err != nil {
		t.Fatal(err)
	}
	r.client.Set(t.Context(), r.key(c.ID), value, 0)
	if ref := r.begin(c, idempotency.DecisionRun); ref.Token != old.Token+1 {
		t.Errorf("token %d after %d", ref.Token, old.Token)
	}
	if a := r.get(c.ID).Attempt; a != 1 {
		t.Errorf("attempt %d of a new key", a)
	}
}

// What the reader makes of a fresh claim is what the machine granted.
func TestFreshClaimsAreReadAsGranted(t *testing.T) {
	r := newRig(t)
	for g := range idempotency.GuaranteeTx + 1 {
		c := claimOf(g.String())
		c.Guarantee = g
		a, err := r.Begin(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		want, _ := a.Record.MarshalBinary()
		got, _ := r.get(c.ID).MarshalBinary()
		if string(got) != string(want) {
			t.Errorf("%v: read %+v, granted %+v", g, r.get(c.ID), a.Record)
		}
		if raw := r.raw(c.ID); raw != r.runs.get(idempotency.Ref{ID: c.ID, Token: a.Record.Token}) {
			t.Errorf("%v: remembered other bytes than are stored", g)
		}
		due := fmt.Sprintf("%016d", (int64(a.Record.Due())+999)/1000)
		if raw := r.raw(c.ID); raw[:digits] != due {
			t.Errorf("%v: due %s, want %s", g, raw[:digits], due)
		}
	}
}

func TestUnreadableRecordsAreLeftAlone(t *testing.T) {
	r := newRig(t)
	r.begin(claimOf("k"), idempotency.DecisionRun)
	value := r.raw(claimOf("k").ID)
	past := strings.Repeat("0", digits-1) + "1"
	for name, spoil := range map[string]string{
		"of a newer version":  past + value[digits:headSize] + "\x7f" + value[headSize+1:],
		"with a broken head":  past + "x" + value[digits+1:],
		"of half a record":    past + value[digits:len(value)-9],
		"of another program":  "hello",
		"of no record at all": past + past,
	} {
		c := claimOf(name)
		key := r.key(c.ID)
		r.client.Set(t.Context(), key, spoil, 0)
		if _, err := r.Begin(t.Context(), c); !errors.Is(err, idempotency.ErrUnreadable) {
			t.Errorf("%s: begin: %v", name, err)
		}
		if err := r.Apply(t.Context(), idempotency.Ref{ID: c.ID, Token: 1}, completed("x")); !errors.Is(err, idempotency.ErrUnreadable) {
			t.Errorf("%s: apply: %v", name, err)
		}
		if _, err := r.Get(t.Context(), c.ID); !errors.Is(err, idempotency.ErrUnreadable) {
			t.Errorf("%s: get: %v", name, err)
		}
		if n, err := r.Sweep(t.Context(), 100); n != 0 || err != nil {
			t.Errorf("%s: swept %d, %v", name, n, err)
		}
		if got := r.raw(c.ID); got != spoil {
			t.Errorf("%s: it was changed to %q", name, got)
		}
	}
	list := claimOf("a list")
	r.client.LPush(t.Context(), r.key(list.ID), "x")
	if _, err := r.Begin(t.Context(), list); !errors.Is(err, idempotency.ErrUnreadable) {
		t.Errorf("a list: %v", err)
	}
	if _, err := r.Sweep(t.Context(), 100); err != nil {
		t.Errorf("a list: sweep: %v", err)
	}
}

// Raw keys are not at rest.
func TestNames(t *testing.T) {
	r := newRig(t)
	c := claimOf("secret")
	r.begin(c, idempotency.DecisionRun)
	keys := r.client.Keys(t.Context(), "*").Val()
	if want := "gabion:idempotency:" + hex.EncodeToString(c.ID[:]); len(keys) != 1 || keys[0] != want {
		t.Errorf("keys %q, want %q", keys, want)
	}
	apart, err := New(t.Context(), r.client, Options{Prefix: "other*:"})
	if err != nil {
		t.Fatal(err)
	}
	if a, err := apart.Begin(t.Context(), other(c)); err != nil || a.Decision != idempotency.DecisionRun {
		t.Errorf("another prefix: %v, %v", a.Decision, err)
	}
}

func TestScriptsComeBack(t *testing.T) {
	r := newRig(t)
	ref := r.begin(claimOf("k"), idempotency.DecisionRun)
	r.client.ScriptFlush(t.Context())
	r.begin(other(claimOf("k")), idempotency.DecisionInProgress)
	r.client.ScriptFlush(t.Context())
	r.apply(ref, completed("x"))
	r.client.ScriptFlush(t.Context())
	r.begin(other(claimOf("k")), idempotency.DecisionReplay)
}

// A store looks through the whole server bit by bit, and at its own records alone.
func TestSweepGoesOn(t *testing.T) {
	r := newRig(t)
	lost := claimOf("lost")
	lost.Lease = time.Nanosecond
	r.begin(lost, idempotency.DecisionRun)
	apart, err := New(t.Context(), r.client, Options{Prefix: "gabion:idempotenc[yz]:"})
	if err != nil {
		t.Fatal(err)
	}
	for n := range 1000 {
		r.client.Set(t.Context(), fmt.Sprint("gabion:", n), strings.Repeat("0", 100), 0)
	}
	passes := 0
	for n := 0; n == 0 && passes < 1000; passes++ {
		if m, err := apart.Sweep(t.Context(), 10); m != 0 || err != nil {
			t.Fatalf("another's records: swept %d, %v", m, err)
		}
		if n, err = r.Sweep(t.Context(), 10); err != nil {
			t.Fatal(err)
		}
	}
	if got := r.get(lost.ID).State; got != idempotency.StateUnknown {
		t.Errorf("after %d sweeps of 10 of 1001 keys: %v", passes, got)
	}
	if n, err := r.Sweep(t.Context(), 0); n != 0 || err != nil {
		t.Errorf("a sweep of nothing: %d, %v", n, err)
	}
	if size := r.client.DBSize(t.Context()).Val(); size != 1001 {
		t.Errorf("%d keys are left of 1001", size)
	}
}

// A record may have changed since it was found to be due.
func TestSweepLooksAgain(t *testing.T) {
	r := newRig(t)
	c := claimOf("k")
	r.begin(c, idempotency.DecisionRun)
	before := r.raw(c.ID)
	if swept, err := r.sweepKey(t.Context(), r.key(c.ID)); swept || err != nil || r.raw(c.ID) != before {
		t.Errorf("a live record was swept: %v, %v", swept, err)
	}
	if swept, err := r.sweepKey(t.Context(), r.key(claimOf("gone").ID)); swept || err != nil {
		t.Errorf("a record that is gone was swept: %v, %v", swept, err)
	}
}

// Programs of other versions read what this one wrote, and the other way round.
func TestFormat(t *testing.T) {
	const at = 1_795_232_865_746_556
	body, _ := claimed(claimOf("k"), 0).MarshalBinary()
	fresh := "1795232895746556" + "1795232865746556" + string(body)
	r, err := read(fresh)
	if err != nil || r.State != idempotency.StateRunning || r.Token != at || r.Created != at*1000 || r.LeaseUntil.Sub(r.Created) != 30*time.Second || r.Retention != 24*time.Hour {
		t.Errorf("a fresh claim: %+v, %v", r, err)
	}
	r, _, err = r.Apply(idempotency.Ref{Token: at}, completed("x"), at*1000+1)
	if err != nil {
		t.Fatal(err)
	}
	body, _ = r.MarshalBinary()
	whole := "1795319265746557" + "0000000000000000" + string(body)
	if got, err := written(r); got != whole || err != nil {
		t.Errorf("a whole record: %q, want %q, %v", got, whole, err)
	}
	if got, err := read(whole); err != nil || got.Expires != r.Expires || got.Created != r.Created || string(got.Result.Body) != "x" {
		t.Errorf("a whole record: %+v, %v", got, err)
	}
}

// The rights that the documentation names are enough.
func TestLeastRights(t *testing.T) {
	if doc, err := os.ReadFile("doc.go"); err != nil || !strings.Contains(string(doc), rights) {
		t.Errorf("the documentation does not name %s (%v)", rights, err)
	}
	r := newRig(t, append(slices.Clone(durable), append([]string{"--user", "default", "on", "nopass", "~gabion:idempotency:*"}, strings.Fields(rights)...)...)...)
	wantWarnings(t, r.Caps(), true)
	ref := r.begin(claimOf("k"), idempotency.DecisionRun)
	r.apply(ref, extended)
	r.apply(ref, completed("x"))
	if _, err := r.Sweep(t.Context(), 10); err != nil {
		t.Errorf("sweep: %v", err)
	}
}

const rights = "+@connection +eval +evalsha +get +set +del +time +info +config|get +scan +getrange"

func TestRunsAreBounded(t *testing.T) {
	var r runs
	for n := range int64(3 * maxRuns) {
		r.put(idempotency.Ref{Token: n}, "x")
	}
	if len(r.values) != maxRuns {
		t.Errorf("%d remembered, want %d", len(r.values), maxRuns)
	}
	if ref := (idempotency.Ref{Token: 3*maxRuns - 1}); r.get(ref) == "" {
		t.Error("the last one was forgotten")
	} else if r.put(ref, strings.Repeat("x", maxRunValue+1)); r.get(ref) != "" {
		t.Error("a value that grew too large is remembered as it was")
	}
}
