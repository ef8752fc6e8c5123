package pgxstore

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/gabion-go/gabion/idempotency"
)

// connect returns a pool that is gone with the test, together with its goroutines.
func connect(t testing.TB, dsn string, conns int32, params ...string) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	config.MaxConns = conns
	for i := 0; i < len(params); i += 2 {
		config.ConnConfig.RuntimeParams[params[i]] = params[i+1]
	}
	return connectTo(t, config)
}

func connectTo(t testing.TB, config *pgxpool.Config) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for limit := time.Now().Add(30 * time.Second); pool.Stat().AcquiredConns() != 0 && !t.Failed(); time.Sleep(time.Millisecond) {
			if time.Now().After(limit) { // a broken one is closed on a goroutine of the pool's
				t.Errorf("%d connections were not given back", pool.Stat().AcquiredConns())
			}
		}
		pool.Close()
	})
	return pool
}

func open(t testing.TB, pool *pgxpool.Pool, table string) *Store {
	t.Helper()
	store, err := New(pool, table)
	if err == nil {
		err = store.Migrate(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func claimOf(key string) idempotency.Claim {
	return idempotency.Claim{ID: idempotency.IDOf("test", key), Guarantee: idempotency.GuaranteeTx, Owner: [16]byte{1}, Lease: time.Minute, Retention: time.Hour}
}

// A shop is a store with effects to count, and a handler in guarantee tx. Its effects
// are counted by another pool than the one that makes them.
type shop struct {
	*testing.T
	store   *Store
	witness *pgxpool.Pool
	h       http.Handler
	work    http.HandlerFunc
	runs    atomic.Int64
}

// quiet keeps the warnings about a server without fsync out of the log.
type quiet struct{}

func (quiet) Observe(context.Context, idempotency.Event) {}

func newShop(t *testing.T, witness *pgxpool.Pool, store *Store) *shop {
	t.Helper()
	s := &shop{T: t, store: store, witness: witness}
	s.exec("DROP TABLE IF EXISTS effects")
	s.exec("CREATE TABLE effects (key text)")
	s.h = s.handler(store, 0)
	return s
}

// handler returns one whose runs may take so long, by default minutes.
func (s *shop) handler(store idempotency.TxStore, most time.Duration) http.Handler {
	s.Helper()
	h, err := idempotency.New(idempotency.Global, store, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.runs.Add(1)
		TxFrom(r.Context()).Exec(r.Context(), "INSERT INTO effects VALUES ($1)", r.Header.Get("Idempotency-Key"))
		s.work(w, r)
	}), idempotency.Config{
		RunnerConfig:   idempotency.RunnerConfig{Guarantee: idempotency.GuaranteeTx, Wait: 20 * time.Second, MaxExecution: most, Observer: quiet{}},
		MaxRequestBody: 1 << 10, MaxStreamedBody: 1 << 20, MaxResponseBody: 1000,
	})
	if err != nil {
		s.Fatal(err)
	}
	return h
}

func (s *shop) exec(text string) {
	s.Helper()
	if _, err := s.witness.Exec(s.Context(), text); err != nil {
		s.Fatal(err)
	}
}

func (s *shop) wantEffects(want int) {
	s.Helper()
	var n int
	if err := s.witness.QueryRow(s.Context(), "SELECT count(*) FROM effects").Scan(&n); err != nil || n != want {
		s.Errorf("%d effects, want %d (%v)", n, want, err)
	}
}

func (s *shop) wantRuns(want int64) {
	s.Helper()
	if n := s.runs.Load(); n != want {
		s.Errorf("%d runs, want %d", n, want)
	}
}

func request(key, body string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
	r.Header.Set("Idempotency-Key", key)
	return r
}

func (s *shop) post(key, body string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	s.h.ServeHTTP(w, request(key, body))
	return w
}

func replayed(w *httptest.ResponseRecorder) bool {
	return w.Header().Get("Idempotent-Replayed") == "true"
}

func status(n int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", "/1")
		w.WriteHeader(n)
		io.WriteString(w, "body")
	}
}

func add(ctx context.Context, tx pgx.Tx) error {
	_, err := tx.Exec(ctx, "INSERT INTO effects VALUES ('x')")
	return err
}
