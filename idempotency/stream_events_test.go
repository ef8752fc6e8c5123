package idempotency

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"testing"

	"github.com/gabion-go/gabion/policy"
)

// told keeps the codes of what a Stream gets, and panics after each.
type told struct {
	mu  sync.Mutex
	all []string
}

func (s *told) Observe(_ context.Context, e policy.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, e.Kind.String()+" "+e.Dependency+" "+e.Code)
	panic("a stream takes nothing from a request")
}

func TestEachRequestWithAKeyIsOneEventOfTheStream(t *testing.T) {
	fails := func(r *rig) { r.work = answer(http.StatusInternalServerError, "no") }
	for _, c := range []struct {
		fact string
		with Config
		do   func(*rig)
		want []string
	}{
		{"the first", Config{}, func(r *rig) { r.send(post("k", "a")) }, []string{"first"}},
		{"a replay", Config{}, func(r *rig) { r.send(post("k", "a")); r.send(post("k", "a")) }, []string{"first", "replay"}},
		{"another body under the key", Config{}, func(r *rig) { r.send(post("k", "a")); r.send(post("k", "b")) }, []string{"first", "mismatch"}},
		{"one that is under way", Config{}, func(r *rig) {
			r.work = func(http.ResponseWriter, *http.Request) { r.send(post("k", "a")) }
			r.send(post("k", "a"))
		}, []string{"first", "in_flight"}},
		{"a run after one that failed", Config{RunnerConfig: RunnerConfig{Guarantee: GuaranteeReexecute}}, func(r *rig) {
			fails(r)
			r.send(post("k", "a"))
			r.send(post("k", "a"))
		}, []string{"first", "again"}},
		{"under Hold an answer that says no is replayed, too", Config{}, func(r *rig) {
			fails(r)
			r.send(post("k", "a"))
			r.send(post("k", "a"))
		}, []string{"first", "replay"}},
		{"a store that is down", Config{}, func(r *rig) {
			r.store.fail(&r.store.begin, errDown)
			r.send(post("k", "a"))
			r.store.fail(&r.store.begin, nil)
		}, []string{"store_unavailable"}},
		{"a key that is malformed", Config{}, func(r *rig) { r.send(post("\x00", "a")) }, []string{"malformed"}},
		{"no key where one is needed", Config{}, func(r *rig) { r.send(post("", "a")) }, []string{"missing"}},
		{"no key where none is needed is no event", Config{Optional: true}, func(r *rig) { r.send(post("", "a")) }, nil},
	} {
		t.Run(c.fact, func(t *testing.T) {
			s := new(told)
			c.with.Stream, c.with.Name = s, "charges"
			c.do(newRig(t, c.with, answer(http.StatusCreated, "done")))
			var want []string
			for _, code := range c.want {
				want = append(want, "key_decided charges "+code)
			}
			if !slices.Equal(s.all, want) {
				t.Errorf("told %q, want %q", s.all, want)
			}
		})
	}
}

func TestARunWithAnUnknownEndIsAnEventOfTheStream(t *testing.T) {
	s := new(told)
	r, err := NewRunner(NewMemoryStore(0, 0), RunnerConfig{Stream: s})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		r.Do(t.Context(), IDOf("jobs", "1"), [32]byte{}, func(context.Context) (Result, Ending) { return Result{}, EndingUnknown })
	}
	if want := []string{"key_decided idempotency first", "key_decided idempotency outcome_unknown"}; !slices.Equal(s.all, want) {
		t.Errorf("told %q, want %q", s.all, want)
	}
}
