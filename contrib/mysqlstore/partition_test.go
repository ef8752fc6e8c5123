package mysqlstore

import (
	"context"
	"database/sql"
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
	"github.com/gabion-go/gabion/idempotency/sqlstore"
	"github.com/gabion-go/gabion/internal/testproxy"
	"github.com/gabion-go/gabion/internal/testservers"
)

const episodeLease = 300 * time.Millisecond

var faults = []testproxy.Fault{
	{Requests: testproxy.Break},
	{Replies: testproxy.Break},
	{Requests: testproxy.PassBreak},
	{Requests: testproxy.Delay, Replies: testproxy.Delay},
	{Requests: testproxy.Lose},
}

// H: the network between service and database fails, in every way and for up to two
// leases, while clients ask again and again. An effect is counted by its own table: under
// hold it is written directly, because there it is in another system's database.
func TestPartitions(t *testing.T) {
	episodes := 20
	if os.Getenv("GABION_SOAK") == "1" {
		episodes = 100
	}
	server := testservers.StartMariaDB(t, "max-connections=200")
	witness, _ := open(t, server.DSN)
	if _, err := witness.ExecContext(t.Context(), "CREATE TABLE effects (name varchar(40)) ENGINE=InnoDB"); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	var hits atomic.Int64
	room := make(chan struct{}, 8)
	for n := 0; n < episodes || n < 10*episodes && hits.Load() < int64(episodes/2); n++ { // a fault's time may pass without a request
		room <- struct{}{}
		all.Go(func() {
			defer func() { <-room }()
			e := &episode{T: t, key: fmt.Sprint("k", n), fault: faults[n/2%len(faults)], witness: witness, proxy: testproxy.New(t, server.Addr), seen: map[string]bool{}}
			e.guarantee = [...]idempotency.Guarantee{idempotency.GuaranteeTx, idempotency.GuaranteeHold}[n%2]
			e.run(strings.Replace(server.DSN, server.Addr, e.proxy.Addr, 1))
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
	key       string
	fault     testproxy.Fault
	guarantee idempotency.Guarantee
	witness   *sql.DB
	proxy     *testproxy.Proxy

	mu   sync.Mutex // guards seen
	seen map[string]bool
}

func (e *episode) run(dsn string) {
	db, store := open(e.T, dsn)
	db.SetMaxOpenConns(4)
	h := e.handler(store, episodeLease)
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			for range 6 {
				time.Sleep(rand.N(episodeLease))
				e.ask(h)
			}
		})
	}
	time.Sleep(rand.N(episodeLease / 2))
	e.fault.Once, e.fault.Most = rand.IntN(2) == 0, rand.N(episodeLease)
	e.proxy.Set(e.fault)
	time.Sleep(rand.N(2 * episodeLease))
	e.proxy.Set(testproxy.Fault{})
	all.Wait()
	e.settle(e.handler(store, 20*time.Second)) // nothing is broken any more, only slow perhaps
	if n := db.Stats().InUse; n != 0 {
		e.Errorf("%s: %d connections were not given back", e.key, n)
	}
}

func (e *episode) handler(store *sqlstore.Store, storeTimeout time.Duration) http.Handler {
	h, err := idempotency.New(idempotency.Global, store, http.HandlerFunc(e.serve), idempotency.Config{
		RunnerConfig: idempotency.RunnerConfig{Guarantee: e.guarantee, Lease: episodeLease, MaxExecution: 2 * time.Second, StoreTimeout: storeTimeout, Observer: quiet{}},
	})
	if err != nil {
		e.Error(err)
	}
	return h
}

func (e *episode) serve(w http.ResponseWriter, r *http.Request) {
	const text = "INSERT INTO effects VALUES (?)"
	if tx := sqlstore.From(r.Context()); tx != nil {
		if _, err := tx.ExecContext(r.Context(), text, e.key); err != nil {
			sqlstore.Failed(r.Context(), err)
			http.Error(w, "no effect", 500)
			return
		}
	} else if _, err := e.witness.ExecContext(context.Background(), text, e.key); err != nil {
		e.Errorf("the witness: %v", err)
	}
	time.Sleep(rand.N(episodeLease / 10))
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
		e.seen[w.Body.String()] = true
		e.mu.Unlock()
	}
	return w
}

// settle asks until there is a last word, and compares it with the witness.
func (e *episode) settle(h http.Handler) {
	var w *httptest.ResponseRecorder
	for limit := time.Now().Add(time.Minute); ; time.Sleep(episodeLease / 4) {
		w = e.ask(h)
		if w.Code == 201 || strings.Contains(w.Body.String(), "outcome-unknown") && w.Code == 409 || time.Now().After(limit) {
			break
		}
	}
	var effects int
	if err := e.witness.QueryRowContext(context.Background(), "SELECT count(*) FROM effects WHERE name = ?", e.key).Scan(&effects); err != nil {
		e.Error(err)
	}
	what := fmt.Sprintf("%s: %v, %+v: %d %s", e.key, e.guarantee, e.fault, w.Code, w.Body)
	switch {
	case w.Code != 201 && (e.guarantee == idempotency.GuaranteeTx || w.Code != 409): // I6
		e.Errorf("%s: no last word", what)
	case effects > 1, w.Code == 201 && effects != 1: // I1
		e.Errorf("%s: %d effects", what, effects)
	case len(e.seen) > 1: // I3
		e.Errorf("%s: answers %v", what, e.seen)
	}
}
