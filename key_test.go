package gabion_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/classify"
	"github.com/gabion-go/gabion/gabionhttp"
	"github.com/gabion-go/gabion/gabiontest"
	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/policy"
)

// The numbers are those of the conformance list for idempotency keys; what HTTP has
// to do with them is in package gabionhttp.

// memoryKeys is a KeyStore that fails at chosen calls.
type memoryKeys struct {
	mu                  sync.Mutex
	keys                map[string]string
	loads               int
	load, insert, after error // of LoadKey; of InsertKey before and after it stored
	deaf                bool  // InsertKey stores nothing
}

func (m *memoryKeys) LoadKey(_ context.Context, intent string) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.loads++
	return m.keys[intent], m.load
}

func (m *memoryKeys) InsertKey(_ context.Context, intent, key string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.insert != nil || m.deaf {
		return m.insert
	}
	if m.keys[intent] == "" {
		m.keys[intent] = key
	}
	return m.after
}

func TestKey54_AStoredKeyIsTheKey(t *testing.T) {
	ctx := t.Context()
	s := &memoryKeys{keys: map[string]string{"old": "order-7", "bad": "order 7"}}
	one, resumed, err := gabion.KeyFor(ctx, s, "one")
	if !uuid7.MatchString(one) || resumed || err != nil || s.keys["one"] != one {
		t.Errorf("%q, %v, %v", one, resumed, err)
	}
	if again, resumed, err := gabion.KeyFor(ctx, s, "one"); again != one || !resumed || err != nil {
		t.Errorf("%q, %v, %v after %q", again, resumed, err, one)
	}
	if two, _, _ := gabion.KeyFor(ctx, s, "two"); two == one {
		t.Error("two intents share a key")
	}
	if old, resumed, err := gabion.KeyFor(ctx, s, "old"); old != "order-7" || !resumed || err != nil {
		t.Errorf("%q, %v, %v", old, resumed, err)
	}
	errDisk := errors.New("disk")
	for name, c := range map[string]struct {
		s      gabion.KeyStore
		intent string
		want   error
	}{
		"loading fails":          {&memoryKeys{load: errDisk}, "x", errDisk},
		"storing fails":          {&memoryKeys{insert: errDisk}, "x", errDisk},
		"storing fails, perhaps": {&memoryKeys{keys: map[string]string{}, after: errDisk}, "x", errDisk},
		"a store that forgets":   {&memoryKeys{deaf: true}, "x", nil},
		"a key that can't be":    {s, "bad", gabion.KeyMalformed},
		"no intent":              {s, "", nil},
		"no store":               {nil, "x", nil},
	} {
		if key, _, err := gabion.KeyFor(ctx, c.s, c.intent); key != "" || err == nil || c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%s: %q, %v", name, key, err)
		}
	}
}

func TestKey54_OfManyAtOnceAllGetTheSameKey(t *testing.T) {
	for name, s := range map[string]gabion.KeyStore{"memory": &memoryKeys{keys: map[string]string{}}, "files": keyFiles{t.TempDir()}} {
		var all [32]string
		var fresh int
		var mu sync.Mutex
		var wg sync.WaitGroup
		for i := range all {
			wg.Go(func() {
				key, resumed, err := gabion.KeyFor(t.Context(), s, "charge")
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				if all[i] = key; !resumed {
					fresh++
				}
			})
		}
		wg.Wait()
		if len(slices.Compact(all[:])) != 1 || all[0] == "" || fresh != 1 {
			t.Errorf("%s: %d were first, keys %q", name, fresh, all)
		}
	}
}

// A process that is killed while its request is out is started again, and sends the
// same key.
func TestKey54_ARestartKeepsTheKey(t *testing.T) {
	const where, whom = "GABION_TEST_KEYS", "GABION_TEST_SERVER"
	if dir := os.Getenv(where); dir != "" {
		chargeOnce(dir, os.Getenv(whom))
		return
	}
	arrived, over := make(chan string, 8), make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		arrived <- r.Header.Get("Idempotency-Key")
		if r.Header.Get("Resumed") == "false" {
			<-over // its process is killed before that
		}
	}))
	defer s.Close()
	defer close(over)
	dir := t.TempDir()
	run := func() (*exec.Cmd, *bytes.Buffer) {
		var said bytes.Buffer
		child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKey54_ARestartKeepsTheKey$")
		child.Env = append(os.Environ(), where+"="+dir, whom+"="+s.URL)
		child.Stdout, child.Stderr = &said, &said
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		return child, &said
	}
	receive := func() string {
		select {
		case key := <-arrived:
			return key
		case <-time.After(30 * time.Second):
			t.Fatal("no request came")
			return ""
		}
	}
	first, _ := run()
	key := receive()
	first.Process.Kill()
	if err := first.Wait(); err == nil {
		t.Fatal("the first process ended well")
	}
	second, said := run()
	again := receive()
	if err := second.Wait(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	scan := bufio.NewScanner(said)
	if scan.Scan(); key == "" || again != key || scan.Text() != "charged" {
		t.Errorf("key %q, then %q; the second said %q", key, again, scan.Text())
	}
}

// chargeOnce is the program that is killed.
func chargeOnce(dir, url string) {
	key, resumed, err := gabion.KeyFor(context.Background(), keyFiles{dir}, "charge order-7")
	if err != nil {
		fmt.Println(err)
		return
	}
	req, _ := http.NewRequest("POST", url, strings.NewReader("charge"))
	req.Header.Set("Idempotency-Key", key)
	req.Header.Set("Resumed", fmt.Sprint(resumed))
	client := &http.Client{Transport: &gabionhttp.Transport{Dependency: gabion.New("bank", policy.Policy{})}}
	resp, err := client.Do(req)
	if err != nil {
		fmt.Println(err)
		return
	}
	resp.Body.Close()
	fmt.Println("charged")
}

var oddKeys = []string{
	"k", "order-7", `"order-7"`, `"a\"b"`, `"a\\b"`, "!", "~", strings.Repeat("k", 255), `"` + strings.Repeat("k", 255) + `"`,
	"", " ", "order 7", `"`, `""`, `"k`, `k"`, `k"k`, `"a"b"`, `"a\b"`, `"a\"`, `"a b"`, "\x7f", "\x1f", "é", "k\n", strings.Repeat("k", 256),
	`"a";v=1`, `"a";v`, `"a"; v=1;w="x\"y;"`, `"a";*b=?1;c=:YQ==:`, `"a";`, `"a" ;v=1`, `"a";V=1`, `"a";v=`, `"a";v=1 `, `"a";v="x`, `"a";v=1,`, `"a",`, `"";v=1`, `a;v=1`, `"a";1=1`, `"a"v=1`,
	`"` + strings.Repeat("k", 256) + `"`, `"` + strings.Repeat(`\\`, 255) + `"`,
}

func TestKey55_WhatServersRefuseIsNotSent(t *testing.T) {
	d := gabion.New("bank", policy.Policy{})
	for _, key := range oddKeys {
		asServersRead(t, d, key)
	}
}

// asServersRead holds the front door to what package idempotency reads.
func asServersRead(t *testing.T, d *gabion.Dependency, key string) {
	t.Helper()
	for verb, call := range verbs {
		got, n := "", 0
		err := call(t.Context(), d, func(ctx context.Context) error { got, n = gabion.Key(ctx), n+1; return nil }, gabion.WithKey(key))
		_, malformed := idempotency.ParseKey(key)
		switch {
		case malformed == nil:
			if err != nil || n != 1 || got != key {
				t.Errorf("%s: %q arrived as %q, %v", verb, key, got, err)
			}
		case n != 0 || !errors.Is(err, policy.Invalid) || !errors.Is(err, gabion.KeyMalformed) || gabion.EffectOf(err) != policy.NoEffect || len(key) > 9 && strings.Contains(err.Error(), key):
			t.Errorf("%s: %q was sent %d times, %v", verb, key, n, err)
		}
	}
}

func TestKey63_WhatMayBeForgottenIsNotSent(t *testing.T) {
	const day = 24 * time.Hour
	cases := []struct {
		name string
		age  time.Duration // of the UUID
		p    policy.Policy
		opts func(now time.Time) []gabion.CallOption
		sent bool
	}{
		{"nothing is declared", 999 * day, policy.Policy{}, nil, true},
		{"young", day * 8 / 10, policy.Policy{}, retention(day), true},
		{"too old", day * 9 / 10, policy.Policy{}, retention(day), false},
		{"much too old", 999 * day, policy.Policy{}, retention(day), false},
		{"old, by the caller", 0, policy.Policy{}, func(now time.Time) []gabion.CallOption {
			return []gabion.CallOption{gabion.WithKeyMadeAt(now.Add(-2 * day)), gabion.WithKeyRetention(day)}
		}, false},
		{"old, but not by the caller", 999 * day, policy.Policy{}, func(now time.Time) []gabion.CallOption {
			return []gabion.CallOption{gabion.WithKeyRetention(day), gabion.WithKeyMadeAt(now)}
		}, true},
		{"a zero time says nothing", 2 * day, policy.Policy{}, func(time.Time) []gabion.CallOption {
			return []gabion.CallOption{gabion.WithKeyRetention(day), gabion.WithKeyMadeAt(time.Time{})}
		}, false},
		{"an absurd retention", 999 * day, policy.Policy{}, retention(1<<63 - 1), true},
		{"safe by the call", 999 * day, policy.Policy{}, func(time.Time) []gabion.CallOption {
			return []gabion.CallOption{gabion.WithKeyRetention(day), gabion.WithIdempotent()}
		}, true},
		{"safe by the policy", 999 * day, policy.Policy{Safe: true}, retention(day), true},
	}
	for _, c := range cases {
		synctest.Test(t, func(t *testing.T) {
			time.Sleep(1000 * day)
			now := time.Now()
			d := gabion.New("bank", c.p)
			opts := []gabion.CallOption{gabion.WithKey(uuidOf(now.Add(-c.age)))}
			if c.opts != nil {
				opts = append(opts, c.opts(now)...)
			}
			for verb, call := range verbs {
				n := 0
				err := call(t.Context(), d, func(context.Context) error { n++; return nil }, opts...)
				if (n == 1) != c.sent || (err == nil) != c.sent {
					t.Errorf("%s, %s: sent %d times, %v", c.name, verb, n, err)
				}
				if err != nil && (!errors.Is(err, gabion.KeyExpired) || !errors.Is(err, policy.OutcomeUnknown) || gabion.EffectOf(err) != policy.UnknownEffect) {
					t.Errorf("%s, %s: %v", c.name, verb, err)
				}
			}
			gabiontest.NothingHeld(t, d)
		})
	}
}

func retention(d time.Duration) func(time.Time) []gabion.CallOption {
	return func(time.Time) []gabion.CallOption { return []gabion.CallOption{gabion.WithKeyRetention(d)} }
}

// uuidOf is a UUID of version 7 of that time.
func uuidOf(at time.Time) string {
	ms := fmt.Sprintf("%012x", at.UnixMilli())
	return ms[:8] + "-" + ms[8:] + "-7" + gabion.NewKey()[15:]
}

// The call ends where the key does, and no sooner than the policy has it otherwise.
func TestKey63_ACallEndsWithItsKey(t *testing.T) {
	for _, c := range []struct {
		name    string
		timeout time.Duration // the policy's
		opts    []gabion.CallOption
		want    time.Duration
	}{
		{"a key that is made", time.Minute, nil, 9 * time.Second},
		{"the key is first", time.Minute, nil, 9 * time.Second},
		{"the policy has no end", policy.Off, nil, 9 * time.Second},
		{"the policy is first", 5 * time.Second, nil, 5 * time.Second},
		{"the call is first", time.Minute, []gabion.CallOption{gabion.WithTimeout(time.Second)}, time.Second},
		{"the key is before the call", time.Second, []gabion.CallOption{gabion.WithTimeout(time.Minute)}, 9 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			d := gabion.New("bank", policy.Policy{Key: policy.KeyMade, Timeout: policy.Timeout{Call: c.timeout, Attempt: policy.Off}})
			var left time.Duration
			opts := append([]gabion.CallOption{gabion.WithKeyRetention(10 * time.Second)}, c.opts...)
			if c.name != "a key that is made" {
				opts = append(opts, gabion.WithKey(gabion.NewKey()))
			}
			d.Run(t.Context(), func(ctx context.Context) error {
				at, _ := ctx.Deadline()
				left = time.Until(at)
				return nil
			}, opts...)
			if left != c.want {
				t.Errorf("%s: %v left, want %v", c.name, left, c.want)
			}
		})
	}
}

func TestKey64_DerivedKeys(t *testing.T) {
	parents := []string{"order-7", "order-8", strings.Repeat("k", 300), "order 7", "é", gabion.NewKey(), "a", "ab"}
	seen := map[string]string{}
	for _, tenant := range []string{"", "acme", "zeta", "b", "bc", "a\x00"} {
		for _, parent := range parents {
			for _, step := range []string{"", "authorise", "capture", "c"} {
				key, what := gabion.DeriveKey(tenant, parent, step), fmt.Sprintf("%q %q %q", tenant, parent, step)
				if key != gabion.DeriveKey(tenant, parent, step) {
					t.Errorf("%s: differs from itself", what)
				}
				if raw, err := hex.DecodeString(key); err != nil || len(raw) != 32 {
					t.Errorf("%s: %q", what, key)
				}
				if _, err := idempotency.ParseKey(key); err != nil {
					t.Errorf("%s: %v", what, err)
				}
				if seen[key] != "" {
					t.Errorf("%s has the key of %s", what, seen[key])
				}
				seen[key] = what
			}
		}
	}
	if gabion.DeriveKey("acme", "", "capture") != "" {
		t.Error("a key was derived from nothing")
	}
	if gabion.DeriveKey("acme", `"order-7"`, "capture") != gabion.DeriveKey("acme", "order-7", "capture") {
		t.Error("a quoted parent is another")
	}
}

// A handler that calls on, and a client that knows scope and key, derive the same.
func TestKey64_HandlersDeriveTheSame(t *testing.T) {
	var got string
	h, err := idempotency.New(func(*http.Request) string { return "acme" }, idempotency.NewMemoryStore(0, 0),
		http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = idempotency.DeriveKey(r.Context(), "capture") }), idempotency.Config{})
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest("POST", "/", nil)
	r.Header.Set("Idempotency-Key", `"order-7"`)
	h.ServeHTTP(httptest.NewRecorder(), r)
	if want := gabion.DeriveKey("acme", `"order-7"`, "capture"); got != want || got == "" {
		t.Errorf("the handler derives %q, the client %q", got, want)
	}
}

func TestKey68_AFallbackHasAKeyOfItsOwn(t *testing.T) {
	refused := classify.Business(errors.New("no"))
	var keys []string
	call := func(ctx context.Context, p policy.Policy, share policy.Ratio, err error, opts ...gabion.CallOption) (first, second string) {
		d := gabion.New("first", p)
		f := gabion.Fallback[int]{
			On:    []gabion.Reason{policy.NotRetryable, policy.AttemptsExhausted},
			Share: share,
			Answer: func(ctx context.Context, _ error) (int, error) {
				second = gabion.Key(ctx)
				return 2, gabion.New("second", policy.Policy{}).Run(ctx, func(ctx context.Context) error {
					keys = append(keys, gabion.Key(ctx))
					return nil
				}, gabion.WithKey(second))
			},
		}
		gabion.DoOr(ctx, d, func(ctx context.Context) (int, error) { first = gabion.Key(ctx); return 0, err }, f, opts...)
		return first, second
	}
	key := gabion.WithKey("order-7")
	first, second := call(t.Context(), policy.Policy{}, 0, refused, key)
	if first != "order-7" || second == "" || second == first {
		t.Fatalf("first %q, second %q", first, second)
	}
	if _, again := call(t.Context(), policy.Policy{}, 0, refused, key); again != second {
		t.Errorf("a call that is run again falls back to %q, after %q", again, second)
	}
	if _, good := call(t.Context(), policy.Policy{}, 1, nil, key); good != second {
		t.Errorf("on a good day the fallback has %q, else %q", good, second)
	}
	if _, other := call(t.Context(), policy.Policy{}, 0, refused, gabion.WithKey("order-8")); other == second {
		t.Error("two calls fall back to one key")
	}
	if _, none := call(t.Context(), policy.Policy{}, 0, refused); none != "" {
		t.Errorf("a key came out of nothing: %q", none)
	}
	if slices.Contains(keys, "order-7") {
		t.Errorf("the second got the first's key: %q", keys)
	}
	for name, err := range map[string]error{"lost": errDown, "in doubt at the server": gabion.KeyOutcomeUnknown, "used": gabion.KeyReused, "done": gabion.KeyAnswerNotKept, "forgotten": gabion.KeyExpired} {
		if _, second := call(t.Context(), policy.Policy{Retry: policy.Retry{Attempts: 1}}, 0, err, key); second != "" {
			t.Errorf("%s: the fallback answered", name)
		}
	}
	if _, second := call(t.Context(), policy.Policy{}, 0, nil, gabion.WithKey(uuidOf(time.Unix(1e9, 0))), gabion.WithKeyRetention(time.Hour)); second != "" {
		t.Error("a key that is too old: the fallback answered")
	}
}

// A call that is run again is exercised again, or again not; in every process.
func TestKey68_ExercisingFollowsTheKey(t *testing.T) {
	const n, share = 2000, 0.3
	fell := 0
	for i := range n {
		where := map[string]int{}
		for range 3 {
			d := gabion.New("first", policy.Policy{})
			f := gabion.Fallback[string]{On: never, Share: share, Answer: func(context.Context, error) (string, error) { return "second", nil }}
			to, _ := gabion.DoOr(t.Context(), d, func(context.Context) (string, error) { return "first", nil }, f, gabion.WithKey(fmt.Sprint("order-", i)))
			where[to]++
		}
		if len(where) != 1 {
			t.Fatalf("order %d went to %v", i, where)
		}
		fell += where["second"] / 3
	}
	if fell < n*share*8/10 || fell > n*share*12/10 {
		t.Errorf("%d of %d went to the fallback", fell, n)
	}
	for want, opts := range map[gabion.KeyProblem][]gabion.CallOption{
		gabion.KeyMalformed: {gabion.WithKey("order 7")},
		gabion.KeyExpired:   {gabion.WithKey(uuidOf(time.Unix(1e9, 0))), gabion.WithKeyRetention(time.Hour)},
	} {
		f := gabion.Fallback[string]{On: never, Share: 1, Answer: func(context.Context, error) (string, error) { return "second", nil }}
		to, err := gabion.DoOr(t.Context(), gabion.New("first", policy.Policy{}), func(context.Context) (string, error) { return "first", nil }, f, opts...)
		if to != "" || !errors.Is(err, want) {
			t.Errorf("a key with which %v went to %q, %v", want, to, err)
		}
	}
}

// A call of its own inside of another has not the other's key.
func TestAKeyBelongsToItsCall(t *testing.T) {
	outer, inner := gabion.New("outer", policy.Policy{}), gabion.New("inner", policy.Policy{})
	outer.Run(t.Context(), func(ctx context.Context) error {
		return inner.Run(ctx, func(ctx context.Context) error {
			if key := gabion.Key(ctx); key != "" {
				t.Errorf("the inner call has %q", key)
			}
			return nil
		})
	}, gabion.WithKey("k"))
}

func TestKeyProblemsSayWhatTheyMean(t *testing.T) {
	for p := gabion.KeyMalformed; p <= gabion.KeyOutcomeUnknown; p++ {
		d := gabion.New("bank", policy.Policy{Retry: policy.Retry{Backoff: every(time.Millisecond), Budget: free}})
		n := 0
		err := d.Run(t.Context(), func(ctx context.Context) error { n++; return fmt.Errorf("bank, asked with %s: %w", gabion.Key(ctx), p) }, gabion.WithKey("k"))
		wantN, wantEffect := 1, policy.UnknownEffect
		if p == gabion.KeyInFlight {
			wantN = 3
		}
		if p == gabion.KeyMalformed {
			wantEffect = policy.NoEffect
		}
		if n != wantN || gabion.EffectOf(err) != wantEffect || !errors.Is(err, p) || p.Error() == "" {
			t.Errorf("%v: %d attempts, %v", p, n, err)
		}
	}
	if o := gabion.KeyProblem(99).Outcome(); o.Class != policy.ClassUnclassified || gabion.KeyProblem(99).Error() == "" {
		t.Errorf("%+v", o)
	}
}

// Two hundred thousand keys here, ten million in the soak.
func TestKey69_NoKeyRepeats(t *testing.T) {
	n := 200_000
	if os.Getenv("GABION_SOAK") == "1" {
		n = 10_000_000
	}
	keys := make([][16]byte, n)
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := g; i < n; i += 4 {
				text := gabion.NewKey()
				if text[14] != '7' || !strings.ContainsRune("89ab", rune(text[19])) {
					t.Errorf("%s is no UUID of version 7", text)
					return
				}
				hex.Decode(keys[i][:], []byte(strings.ReplaceAll(text, "-", "")))
			}
		})
	}
	wg.Wait()
	slices.SortFunc(keys, func(a, b [16]byte) int { return bytes.Compare(a[:], b[:]) })
	if different := len(slices.Compact(keys)); different != n {
		t.Errorf("%d of %d keys are different", different, n)
	}
}
