package idempotency

import (
	"context"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion/policy"
)

// heard keeps what a Stream gets.
type heard struct {
	mu  sync.Mutex
	all []policy.Event
}

func (s *heard) Observe(_ context.Context, e policy.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, e)
}

func (s *heard) codes() (all []string) {
	for _, e := range s.all {
		all = append(all, e.Code)
	}
	return all
}

func TestWorkThatLeavesIsOneEventOfTheStream(t *testing.T) {
	for _, g := range []Guarantee{GuaranteeHold, GuaranteeReexecute, GuaranteeTx} {
		for how, leave := range map[string]func(){"panic": func() { panic("boom") }, "Goexit": runtime.Goexit} {
			t.Run(g.String()+" "+how, func(t *testing.T) {
				s := new(heard)
				apart := func(f func()) {
					var over sync.WaitGroup
					over.Go(func() {
						defer func() { _ = recover() }()
						f()
					})
					over.Wait()
				}
				r, _ := newRunner(t, RunnerConfig{Guarantee: g, Stream: s, Observer: &observed{}})
				apart(func() {
					r.Do(t.Context(), IDOf("jobs", "1"), [32]byte{}, func(context.Context) (Result, Ending) {
						leave()
						return Result{}, EndingSucceeded
					})
				})
				h, err := New(tenant, &txShelf{Store: NewMemoryStore(0, 0), records: map[ID]Record{}}, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { leave() }),
					Config{RunnerConfig: RunnerConfig{Guarantee: g, Stream: s, Observer: &observed{}}})
				if err != nil {
					t.Fatal(err)
				}
				apart(func() { h.ServeHTTP(httptest.NewRecorder(), post("k", "a")) })
				if got := s.codes(); !slices.Equal(got, []string{"first", "first"}) {
					t.Errorf("told %q", got)
				}
			})
		}
	}
}

func TestTheEventOfAKeySaysHowLongItsDecisionTook(t *testing.T) {
	for _, waiters := range []int{1, 2} {
		synctest.Test(t, func(t *testing.T) {
			s := new(heard)
			r := newRig(t, Config{RunnerConfig: RunnerConfig{Stream: s, Wait: time.Second, Waiters: 1}}, func(http.ResponseWriter, *http.Request) {
				time.Sleep(500 * time.Millisecond)
			})
			var all sync.WaitGroup
			for range 1 + waiters {
				all.Go(func() { r.send(post("k", "a")) })
				synctest.Wait()
			}
			all.Wait()
			for _, e := range s.all {
				if want := map[string]time.Duration{"replay": 500 * time.Millisecond}[e.Code]; e.Took != want {
					t.Errorf("%s took %v, want %v", e.Code, e.Took, want)
				}
			}
		})
	}
}
