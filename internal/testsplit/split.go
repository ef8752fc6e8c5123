// Package testsplit breaks the network between a service and the database that has both its
// records and its effects.
package testsplit

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/internal/testproxy"
)

// A Service is one under test.
type Service struct {
	Addr string // of the database's server

	// Open opens the records by another address of the server, with few connections.
	Open func(t *testing.T, addr string) idempotency.TxStore

	// Effect writes an effect in the transaction of ctx or, without one, past the proxy: then it is in another
	// system's database.
	Effect func(ctx context.Context, key string) error

	// Count counts the effects of a key past the proxy.
	Count func(ctx context.Context, key string) (int, error)
}

const lease = 300 * time.Millisecond

var faults = []testproxy.Fault{
	{Requests: testproxy.Break},
	{Replies: testproxy.Break},
	{Requests: testproxy.PassBreak},
	{Requests: testproxy.Delay, Replies: testproxy.Delay},
	{Requests: testproxy.Lose},
}

// Run has the network fail in every way and for up to two leases, while clients ask again and again. The answers are
// compared with the effects.
func Run(t *testing.T, s Service) {
	episodes := 20
	if os.Getenv("GABION_SOAK") == "1" {
		episodes = 100
	}
	var all sync.WaitGroup
	var hits atomic.Int64
	room := make(chan struct{}, 8)
	for n := 0; n < episodes || n < 10*episodes && hits.Load() < int64(episodes/2); n++ { // a fault's time may pass without a request
		room <- struct{}{}
		all.Go(func() {
			defer func() { <-room }()
			e := &episode{T: t, Service: s, key: fmt.Sprint("k", n), fault: faults[n/2%len(faults)], proxy: testproxy.New(t, s.Addr), bodies: map[string]bool{}}
			e.guarantee = [...]idempotency.Guarantee{idempotency.GuaranteeTx, idempotency.GuaranteeHold}[n%2]
			e.run()
			hits.Add(int64(e.proxy.Struck()))
		})
	}
	all.Wait()
	if n := hits.Load(); n < int64(episodes/2) {
		t.Errorf("%d faults in %d episodes: hardly anything was tested", n, episodes)
	}
}

type episode struct {
	*testing.T
	Service
	key       string
	fault     testproxy.Fault
	guarantee idempotency.Guarantee
	proxy     *testproxy.Proxy

	mu     sync.Mutex // guards bodies
	bodies map[string]bool
}

// quiet keeps the warnings about a server that does not sync out of the log.
type quiet struct{}

func (quiet) Observe(context.Context, idempotency.Event) {}

func (e *episode) run() {
	store := e.Open(e.T, e.proxy.Addr)
	h := e.handler(store, lease)
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			for range 6 {
				time.Sleep(rand.N(lease))
				e.ask(h)
			}
		})
	}
	time.Sleep(rand.N(lease / 2))
	e.fault.Once, e.fault.Most = rand.IntN(2) == 0, rand.N(lease)
	e.proxy.Set(e.fault)
	time.Sleep(rand.N(2 * lease))
	e.proxy.Set(testproxy.Fault{})
	all.Wait()
	e.settle(e.handler(store, 20*time.Second)) // nothing is broken any more, only slow perhaps
}

func (e *episode) handler(store idempotency.TxStore, storeTimeout time.Duration) http.Handler {
	h, err := idempotency.New(idempotency.Global, store, http.HandlerFunc(e.serve), idempotency.Config{
		RunnerConfig: idempotency.RunnerConfig{Guarantee: e.guarantee, Lease: lease, MaxExecution: 2 * time.Second, StoreTimeout: storeTimeout, Observer: quiet{}},
	})
	if err != nil {
		e.Error(err)
	}
	return h
}

func (e *episode) serve(w http.ResponseWriter, r *http.Request) {
	if err := e.Effect(r.Context(), e.key); err != nil {
		if e.guarantee == idempotency.GuaranteeHold {
			e.Errorf("past the proxy: %v", err)
		}
		http.Error(w, "no effect", 500)
		return
	}
	time.Sleep(rand.N(lease / 10))
	w.WriteHeader(201)
	fmt.Fprintf(w, "%d", idempotency.Token(r.Context()))
}

func (e *episode) ask(h http.Handler) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader("x"))
	r.Header.Set("Idempotency-Key", e.key)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Code == 201 {
		e.mu.Lock()
		e.bodies[w.Body.String()] = true
		e.mu.Unlock()
	}
	return w
}

// settle asks until there is a last word, and compares it with the effects.
func (e *episode) settle(h http.Handler) {
	var w *httptest.ResponseRecorder
	for limit := time.Now().Add(time.Minute); ; time.Sleep(lease / 4) {
		w = e.ask(h)
		if w.Code == 201 || strings.Contains(w.Body.String(), "outcome-unknown") && w.Code == 409 || time.Now().After(limit) {
			break
		}
	}
	effects, err := e.Count(context.Background(), e.key)
	if err != nil {
		e.Error(err)
	}
	what := fmt.Sprintf("%s: %v, %+v: %d %s", e.key, e.guarantee, e.fault, w.Code, w.Body)
	switch {
	case w.Code != 201 && (e.guarantee == idempotency.GuaranteeTx || w.Code != 409): // I6
		e.Errorf("%s: no last word", what)
	case effects > 1, w.Code == 201 && effects != 1: // I1
		e.Errorf("%s: %d effects", what, effects)
	case len(e.bodies) > 1: // I3
		e.Errorf("%s: bodies %v", what, e.bodies)
	}
}
