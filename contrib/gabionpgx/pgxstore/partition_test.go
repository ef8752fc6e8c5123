package pgxstore

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/gabion-go/gabion/gabiontest"
	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/internal/testproxy"
	"github.com/gabion-go/gabion/internal/testservers"
)

// through returns a pool whose connections go through a proxy of their own.
func through(t testing.TB, dsn, addr string, conns int32) (*pgxpool.Pool, *testproxy.Proxy) {
	t.Helper()
	p := testproxy.New(t, addr)
	config, err := pgxpool.ParseConfig(strings.Replace(dsn, addr, p.Addr, 1))
	if err != nil {
		t.Fatal(err)
	}
	config.MaxConns = conns
	// By default the pool asks a connection that was idle for a second how it is, and
	// on a slow machine a fault would strike that.
	config.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false }
	return connectTo(t, config), p
}

var (
	unseen  = testproxy.Fault{Requests: testproxy.Break, Once: true} // the server does not see what is sent
	unheard = testproxy.Fault{Replies: testproxy.Break, Once: true}  // it does, and its answer is lost
)

// 46: the connection breaks when COMMIT was sent. Only the database can tell the two cases apart, and
// the retry asks it.
func TestAnswersAreLost(t *testing.T) {
	gabiontest.NoLeaks(t)
	server := testservers.StartPostgres(t)
	witness := connect(t, server.DSN, 4)
	for _, c := range []struct {
		name    string
		fault   testproxy.Fault
		effects int // after the first request
		replays bool
	}{
		{"before the server saw it", unseen, 0, false},
		{"after the server committed", unheard, 1, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := witness.Exec(t.Context(), "DROP TABLE IF EXISTS records"); err != nil {
				t.Fatal(err)
			}
			pool, p := through(t, server.DSN, server.Addr, 1)
			s := newShop(t, witness, open(t, pool, "records"))
			s.work = status(201)
			if w := s.post("warm", "x"); w.Code != 201 { // statements are prepared: what follows the work is COMMIT
				t.Fatalf("%d %s", w.Code, w.Body)
			}
			s.exec("DELETE FROM effects")
			s.runs.Store(0)
			s.work = func(w http.ResponseWriter, r *http.Request) {
				p.Set(c.fault)
				status(201)(w, r)
			}
			w := s.post("k", "x")
			if w.Code != 503 || !strings.Contains(w.Body.String(), "outcome-unknown") || w.Header().Get("Retry-After") == "" || w.Header().Get("Location") != "" {
				t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
			}
			if n := p.Struck(); n != 1 {
				t.Errorf("%d faults, want 1", n)
			}
			s.wantEffects(c.effects)
			s.work = status(201)
			if w := s.post("k", "x"); w.Code != 201 || w.Body.String() != "body" || replayed(w) != c.replays {
				t.Errorf("the retry: %d %s, replayed: %v", w.Code, w.Body, replayed(w))
			}
			s.wantEffects(1)
			if s.runs.Load() == 1 != c.replays {
				t.Errorf("%d runs", s.runs.Load())
			}
		})
	}
	t.Run("a claim's or a change's answer", func(t *testing.T) { repeatUnheard(t, server) })
}

// A claim whose answer was lost is the caller's own when he asks again.
func repeatUnheard(t *testing.T, server *testservers.Server) {
	pool, p := through(t, server.DSN, server.Addr, 1)
	store := open(t, pool, "records")
	begin(t, store, hold("warm"), idempotency.DecisionRun)
	for _, f := range []testproxy.Fault{unseen, unheard} {
		key := fmt.Sprint("k", f)
		p.Set(f)
		if a, err := store.Begin(t.Context(), hold(key)); err == nil {
			t.Fatalf("%v without an answer", a.Decision)
		}
		a := begin(t, store, hold(key), idempotency.DecisionRun)
		ref := idempotency.Ref{ID: hold(key).ID, Token: a.Record.Token}
		p.Set(f)
		if err := store.Apply(t.Context(), ref, complete); err == nil {
			t.Fatal("a change without an answer")
		}
		if err := store.Apply(t.Context(), ref, complete); err != nil {
			t.Errorf("a change that was repeated: %v", err)
		}
		begin(t, store, hold(key), idempotency.DecisionReplay)
	}
}

// H: the network between service and database fails, in every way and for up to two
// leases, while clients ask again and again. An effect is counted by its own table:
// under hold it is written directly, because there it is in another system's database.
func TestPartitions(t *testing.T) {
	gabiontest.NoLeaks(t)
	episodes := 24
	if os.Getenv("GABION_SOAK") == "1" {
		episodes = 100
	}
	server := testservers.StartPostgres(t, "max_connections=200")
	witness := connect(t, server.DSN, 16)
	open(t, witness, "records")
	if _, err := witness.Exec(t.Context(), "CREATE TABLE effects (key text)"); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	var hits atomic.Int64
	room := make(chan struct{}, 8)
	for n := 0; n < episodes || n < 10*episodes && hits.Load() < int64(episodes/2); n++ { // a fault's time may pass without a request
		room <- struct{}{}
		all.Go(func() {
			defer func() { <-room }()
			e := episode{T: t, key: fmt.Sprint("k", n), fault: faults[n/2%len(faults)], guarantee: [...]idempotency.Guarantee{idempotency.GuaranteeTx, idempotency.GuaranteeHold}[n%2], witness: witness, hits: &hits}
			e.pool, e.proxy = through(t, server.DSN, server.Addr, 4)
			e.run()
		})
	}
	all.Wait()
	if n := hits.Load(); n < int64(episodes/2) {
		t.Errorf("%d faults in %d episodes: hardly anything was tested", n, episodes)
	}
}

const episodeLease = 300 * time.Millisecond

var faults = []testproxy.Fault{
	{Requests: testproxy.Break},
	{Replies: testproxy.Break},
	{Requests: testproxy.PassBreak},
	{Requests: testproxy.Delay, Replies: testproxy.Delay},
	{Requests: testproxy.Lose},
}

type episode struct {
	*testing.T
	key       string
	fault     testproxy.Fault
	guarantee idempotency.Guarantee
	witness   *pgxpool.Pool
	pool      *pgxpool.Pool
	proxy     *testproxy.Proxy
	hits      *atomic.Int64
	h         http.Handler

	mu     sync.Mutex // guards bodies
	bodies map[string]bool
}

func (e *episode) run() {
	store, err := New(e.pool, "records")
	if err != nil {
		e.Error(err)
		return
	}
	e.bodies = map[string]bool{}
	e.h = e.handler(store, episodeLease)
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			for range 6 {
				time.Sleep(rand.N(episodeLease))
				e.ask()
			}
		})
	}
	time.Sleep(rand.N(episodeLease / 2))
	e.fault.Once, e.fault.Most = rand.IntN(2) == 0, rand.N(episodeLease)
	e.proxy.Set(e.fault)
	time.Sleep(rand.N(2 * episodeLease))
	e.proxy.Set(testproxy.Fault{})
	e.hits.Add(int64(e.proxy.Struck()))
	all.Wait()
	e.h = e.handler(store, 20*time.Second) // nothing is broken any more, only slow perhaps
	e.settle()
}

func (e *episode) handler(store *Store, storeTimeout time.Duration) http.Handler {
	h, err := idempotency.New(idempotency.Global, store, http.HandlerFunc(e.serve), idempotency.Config{
		RunnerConfig: idempotency.RunnerConfig{Guarantee: e.guarantee, Lease: episodeLease, MaxExecution: 2 * time.Second, StoreTimeout: storeTimeout, Observer: quiet{}},
	})
	if err != nil {
		e.Error(err)
	}
	return h
}

func (e *episode) serve(w http.ResponseWriter, r *http.Request) {
	if tx := From(r.Context()); tx != nil {
		if _, err := tx.Exec(r.Context(), "INSERT INTO effects VALUES ($1)", e.key); err != nil {
			http.Error(w, "no effect", 500)
			return
		}
	} else if _, err := e.witness.Exec(context.Background(), "INSERT INTO effects VALUES ($1)", e.key); err != nil {
		e.Errorf("the witness: %v", err)
	}
	time.Sleep(rand.N(episodeLease / 10))
	w.WriteHeader(201)
	fmt.Fprintf(w, "%d", idempotency.Token(r.Context()))
}

func (e *episode) ask() *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	e.h.ServeHTTP(w, request(e.key, "x"))
	if w.Code == 201 {
		body, _ := io.ReadAll(w.Result().Body)
		e.mu.Lock()
		e.bodies[string(body)] = true
		e.mu.Unlock()
	}
	return w
}

// settle asks until there is a last word, and compares it with the witness.
func (e *episode) settle() {
	var w *httptest.ResponseRecorder
	for limit := time.Now().Add(20 * time.Second); ; time.Sleep(episodeLease / 4) {
		w = e.ask()
		if w.Code == 201 || strings.Contains(w.Body.String(), "outcome-unknown") && w.Code == 409 || time.Now().After(limit) {
			break
		}
	}
	var effects int
	if err := e.witness.QueryRow(context.Background(), "SELECT count(*) FROM effects WHERE key = $1", e.key).Scan(&effects); err != nil {
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
	e.Logf("%s: %d effects", what, effects)
}
