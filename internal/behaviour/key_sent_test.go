package behaviour

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/classify"
	"github.com/gabion-go/gabion/gabiontest"
	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/policy"
)

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
		http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = idempotency.StepKey(r.Context(), "capture") }), idempotency.Config{})
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
