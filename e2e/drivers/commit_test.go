package drivers

import (
	"context"
	"database/sql"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib"
	_ "github.com/lib/pq"

	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/idempotency/sqlstore"
	"github.com/gabion-go/gabion/internal/testproxy"
	"github.com/gabion-go/gabion/internal/testservers"
)

// quiet keeps the warnings about a server without fsync out of the log.
type quiet struct{}

func (quiet) Observe(context.Context, idempotency.Event) {}

// Whatever the driver under database/sql: a COMMIT without an answer is reported as
// unknown, and the next claim finds out.
func TestCommitWithoutAnswerIsUnknown(t *testing.T) {
	server := testservers.StartPostgres(t)
	for _, d := range []struct{ name, driver, param string }{
		{"lib/pq", "postgres", ""},
		{"lib/pq, binary parameters", "postgres", "binary_parameters=yes"},
		{"pgx", "pgx", ""},
		{"pgx, exec", "pgx", "default_query_exec_mode=exec"},
		{"pgx, simple protocol", "pgx", "default_query_exec_mode=simple_protocol"},
	} {
		for _, l := range []struct {
			name    string
			fault   testproxy.Fault
			effects int // after the first request
		}{
			{"the request is lost", testproxy.Fault{Requests: testproxy.Break, Match: "commit", Once: true}, 0},
			{"the answer is lost", testproxy.Fault{Replies: testproxy.Break, Match: "COMMIT", Once: true}, 1},
		} {
			t.Run(d.name+", "+l.name, func(t *testing.T) {
				if d.driver == "postgres" && l.effects == 0 {
					l.fault.Match = "COMMIT"
				}
				commitUnknown(t, server, d.driver, d.param, l.fault, l.effects)
			})
		}
	}
}

func commitUnknown(t *testing.T, server *testservers.Server, driver, param string, fault testproxy.Fault, effects int) {
	p := testproxy.New(t, server.Addr)
	witness := openSQL(t, "pgx", server.DSN)
	db := openSQL(t, driver, with(strings.Replace(server.DSN, server.Addr, p.Addr, 1), param))
	store, err := sqlstore.New(db, sqlstore.Postgres, "records")
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"DROP TABLE IF EXISTS records", "DROP TABLE IF EXISTS effects", "CREATE TABLE effects (key text)"} {
		if _, err := witness.ExecContext(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
	if err := store.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	breaks := true
	h, err := idempotency.New(idempotency.Global, store, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := sqlstore.TxFrom(r.Context()).ExecContext(r.Context(), "INSERT INTO effects VALUES ('x')"); err != nil {
			t.Error(err)
		}
		if breaks {
			p.Set(fault)
		}
		w.WriteHeader(http.StatusCreated)
	}), idempotency.Config{RunnerConfig: idempotency.RunnerConfig{Guarantee: idempotency.GuaranteeTx, Observer: quiet{}}})
	if err != nil {
		t.Fatal(err)
	}
	post := func() *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader("x"))
		r.Header.Set("Idempotency-Key", "k")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	count := func(want int) {
		t.Helper()
		var n int
		if err := witness.QueryRowContext(t.Context(), "SELECT count(*) FROM effects").Scan(&n); err != nil || n != want {
			t.Errorf("%d effects, want %d (%v)", n, want, err)
		}
	}

	if w := post(); w.Code != 503 || !strings.Contains(w.Body.String(), string("outcome-unknown")) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if n := p.Struck(); n != 1 {
		t.Errorf("%d faults, want 1", n)
	}
	count(effects)
	p.Set(testproxy.Fault{})
	breaks = false
	if w, again := post(), effects == 1; w.Code != 201 || (w.Header().Get("Idempotent-Replayed") == "true") != again {
		t.Errorf("the next claim: %d %s, %v", w.Code, w.Body, w.Header())
	}
	count(1)
}

func with(dsn, param string) string {
	switch {
	case param == "":
		return dsn
	case strings.Contains(dsn, "?"):
		return dsn + "&" + param
	}
	return dsn + "?" + param
}

func openSQL(t *testing.T, driver, dsn string) *sql.DB {
	t.Helper()
	if driver == "postgres" && !strings.Contains(dsn, "sslmode") {
		dsn = with(dsn, "sslmode=disable")
	}
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	db.SetMaxOpenConns(1)
	return db
}
