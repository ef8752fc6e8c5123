package mysqlstore

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/idempotency/sqlstore"
)

// A shop is a database with effects to count, and a handler in guarantee tx. Its effects
// are counted by another pool than the one that makes them.
type shop struct {
	*testing.T
	db      *sql.DB
	store   *sqlstore.Store
	witness *sql.DB
	h       http.Handler
	work    http.HandlerFunc
	runs    atomic.Int64
}

// The driver tells of each connection that breaks.
func init() { mysql.SetLogger(log.New(io.Discard, "", 0)) }

// quiet keeps the warnings about a server that does not sync out of the log.
type quiet struct{}

func (quiet) Observe(context.Context, idempotency.Event) {}

// newShop empties the database, whose servers tests share: to start one takes longer than
// they do.
func newShop(t *testing.T, dsn string) *shop {
	t.Helper()
	witness, err := sql.Open("mysql", dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { witness.Close() })
	s := &shop{T: t, witness: witness}
	s.exec("DROP TABLE IF EXISTS records, effects")
	s.exec("CREATE TABLE effects (n integer) ENGINE=InnoDB")
	s.db, s.store = open(t, dsn)
	t.Cleanup(func() {
		if n := s.db.Stats().InUse; n != 0 {
			t.Errorf("%d connections were not given back", n)
		}
	})
	s.work = status(201)
	s.h, err = idempotency.New(idempotency.Global, s.store, http.HandlerFunc(s.serve), idempotency.Config{
		RunnerConfig: idempotency.RunnerConfig{Guarantee: idempotency.GuaranteeTx, Observer: quiet{}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *shop) serve(w http.ResponseWriter, r *http.Request) {
	s.runs.Add(1)
	if err := effect(r.Context()); err != nil {
		s.Errorf("no effect: %v", err)
	}
	s.work(w, r)
}

func effect(ctx context.Context) error { return run(ctx, "INSERT INTO effects VALUES (1)") }

// run runs a statement of the work's.
func run(ctx context.Context, text string) error {
	_, err := sqlstore.TxFrom(ctx).ExecContext(ctx, text)
	return err
}

func (s *shop) exec(text string) {
	s.Helper()
	if _, err := s.witness.ExecContext(context.WithoutCancel(s.Context()), text); err != nil {
		s.Fatalf("%s: %v", text, err)
	}
}

func (s *shop) wantEffects(want int) {
	s.Helper()
	var n int
	if err := s.witness.QueryRowContext(s.Context(), "SELECT count(*) FROM effects").Scan(&n); err != nil || n != want {
		s.Errorf("%d effects, want %d (%v)", n, want, err)
	}
}

func (s *shop) post(key, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(s.Context(), http.MethodPost, "/", strings.NewReader(body))
	r.Header.Set("Idempotency-Key", key)
	w := httptest.NewRecorder()
	s.h.ServeHTTP(w, r)
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

func claim(key string) idempotency.Claim {
	return idempotency.Claim{ID: idempotency.IDOf("test", key), Guarantee: idempotency.GuaranteeTx, Owner: [16]byte{1}, Retention: time.Hour}
}

func hold(key string) idempotency.Claim {
	c := claim(key)
	c.Guarantee, c.Lease = idempotency.GuaranteeHold, time.Minute
	return c
}

// number returns the number of the server's error, zero for another error.
func number(err error) uint16 {
	var e *mysql.MySQLError
	if errors.As(err, &e) {
		return e.Number
	}
	return 0
}
