package behaviour

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/gabiontest"
	"github.com/gabion-go/gabion/policy"
)

// B5, C66: one key per call, the same on all attempts, hedges and retries.
func TestTheKeyIsTheSameOnAllAttempts(t *testing.T) {
	cases := []struct {
		name string
		mode policy.KeyMode
		opts []gabion.CallOption
		want string // "" = a made one
	}{
		{"given", policy.KeyDeclared, []gabion.CallOption{gabion.WithKey("order-7")}, "order-7"},
		{"made", policy.KeyMade, nil, ""},
		{"given though it would be made", policy.KeyMade, []gabion.CallOption{gabion.WithKey("order-7")}, "order-7"},
		{"required and given", policy.KeyRequired, []gabion.CallOption{gabion.WithKey("order-7")}, "order-7"},
	}
	for _, c := range cases {
		for _, hedges := range []int{0, 1} {
			t.Run(fmt.Sprintf("%s/hedge=%d", c.name, hedges), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					d := gabion.New("db", policy.Policy{Key: c.mode, Hedge: policy.Hedge{Off: hedges == 0, Max: hedges, Delay: time.Millisecond}, Retry: policy.Retry{Budget: free}})
					s := gabiontest.NewScript(gabiontest.Step{Takes: time.Second, Err: errDown})
					gabion.Do(t.Context(), d, func(ctx context.Context) (int, error) { return s.Call(ctx) }, c.opts...)
					seen := s.Seen()
					if len(seen) != 3+hedges {
						t.Fatalf("%d attempts", len(seen))
					}
					for i, a := range seen {
						if a.Key != seen[0].Key || a.Key == "" || c.want != "" && a.Key != c.want || a.Attempt != i+1 {
							t.Errorf("attempt %d has key %q", a.Attempt, a.Key)
						}
					}
				})
			})
		}
	}
	t.Run("required and missing", func(t *testing.T) {
		d := gabion.New("db", policy.Policy{Key: policy.KeyRequired})
		for verb, call := range verbs {
			n := 0
			err := call(t.Context(), d, func(context.Context) error { n++; return nil })
			if gabion.ReasonOf(err) != policy.KeyMissing || n != 0 || gabion.EffectOf(err) != policy.NoEffect {
				t.Errorf("%s: %v after %d attempts", verb, err, n)
			}
			for _, how := range []string{"gabion.WithKey", "the header Idempotency-Key"} { // it is read under HTTP clients too
				if !strings.Contains(err.Error(), how) {
					t.Errorf("%s: %v: does not say %s", verb, err, how)
				}
			}
		}
	})
	t.Run("two calls", func(t *testing.T) {
		d := gabion.New("db", policy.Policy{Key: policy.KeyMade})
		s := gabiontest.NewScript()
		d.Run(t.Context(), s.Run)
		d.Run(t.Context(), s.Run)
		if seen := s.Seen(); seen[0].Key == seen[1].Key {
			t.Error("two intents share a key")
		}
	})
	if gabion.Key(t.Context()) != "" || gabion.AttemptNumber(t.Context()) != 0 {
		t.Error("a context of no call has a key or a number")
	}
}

var uuid7 = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)

// RFC 9562 §5.7.
func TestKeysAreUUIDsOfVersion7(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 10000
		keys := make([]string, n)
		for i := range keys {
			time.Sleep(time.Millisecond)
			keys[i] = gabion.NewKey()
			if !uuid7.MatchString(keys[i]) {
				t.Fatalf("%s is no UUID of version 7", keys[i])
			}
		}
		if !slices.IsSorted(keys) {
			t.Error("keys made later don't sort later")
		}
		if want := fmt.Sprintf("%012x", time.Now().UnixMilli()); strings.ReplaceAll(keys[n-1], "-", "")[:12] != want {
			t.Errorf("%s does not begin with the time %s", keys[n-1], want)
		}
		seen := map[string]bool{}
		for range n { // all in one millisecond
			seen[gabion.NewKey()] = true
		}
		if len(seen) != n {
			t.Errorf("%d of %d keys are different", len(seen), n)
		}
	})
}

// J1: a refusal because of a key is an event like every refusal. Without it, an operator would not
// see that callers get nothing.
func TestRefusalsForAKeyAreEvents(t *testing.T) {
	old := []gabion.CallOption{gabion.WithKey("k"), gabion.WithKeyRetention(time.Hour), gabion.WithKeyMadeAt(time.Now().Add(-time.Hour))}
	cases := map[string]struct {
		mode   policy.KeyMode
		opts   []gabion.CallOption
		reason gabion.Reason
	}{
		"missing":   {policy.KeyRequired, nil, policy.KeyMissing},
		"too old":   {policy.KeyDeclared, old, policy.OutcomeUnknown},
		"malformed": {policy.KeyDeclared, []gabion.CallOption{gabion.WithKey("a key")}, policy.Invalid},
	}
	for name, c := range cases {
		for verb, call := range verbs {
			for _, hedges := range []int{0, 1} {
				d, rec := watched(policy.Policy{Key: c.mode, Hedge: policy.Hedge{Off: hedges == 0, Max: hedges, Delay: time.Second}})
				err := call(t.Context(), d, works, append(c.opts, gabion.WithOperation("charge"))...)
				wantReason(t, err, c.reason)
				want := []string{"attempt_refused " + c.reason.String(), "returned after 0 " + c.reason.String()}
				if got := rec.Decisions(); !slices.Equal(got, want) {
					t.Errorf("%s, %s: %q, want %q", name, verb, got, want)
				}
				for _, e := range rec.Events() {
					if e.Operation != "charge" || e.Call == 0 || e.Dependency != "db" || e.Kind == policy.KindReturned && e.Effect != gabion.EffectOf(err) {
						t.Errorf("%s, %s: %+v", name, verb, e)
					}
				}
			}
		}
	}
}
