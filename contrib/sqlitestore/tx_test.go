package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/idempotency/sqlstore"
	"github.com/gabion-go/gabion/idempotencytest"
	"github.com/gabion-go/gabion/internal/testservers"
)

func TestEffects(t *testing.T) {
	effects := func(t testing.TB, db *sql.DB, store *sqlstore.Store) idempotencytest.Effects {
		if _, err := db.ExecContext(t.Context(), "CREATE TABLE IF NOT EXISTS effects (n integer)"); err != nil {
			t.Fatal(err)
		}
		return idempotencytest.Effects{
			Store: store,
			Add: func(ctx context.Context) error {
				_, err := sqlstore.TxFrom(ctx).ExecContext(ctx, "INSERT INTO effects VALUES (1)")
				return err
			},
			Count: func(ctx context.Context) (n int, err error) {
				err = db.QueryRowContext(ctx, "SELECT count(*) FROM effects").Scan(&n)
				return n, err
			},
		}
	}
	t.Run("sqlite", func(t *testing.T) {
		idempotencytest.RunTx(t, func(t testing.TB) idempotencytest.Effects {
			db, store := openSQLite(t)
			return effects(t, db, store)
		})
	})
	t.Run("postgres", func(t *testing.T) {
		db, store := openPostgres(t, testservers.Postgres(t))
		shared := effects(t, db, store)
		idempotencytest.RunTx(t, func(testing.TB) idempotencytest.Effects { return shared })
	})
}

// A shop is a database with effects to count, and a handler in guarantee tx.
type shop struct {
	*testing.T
	db    *sql.DB
	store *sqlstore.Store
	h     http.Handler
	work  http.HandlerFunc
	runs  int
}

// TestTx has one server for all its cases: to start one takes longer than they do.
func TestTx(t *testing.T) {
	cases := []struct {
		name string
		run  func(*shop)
	}{
		{"47 the closure is run again", closureAgain},
		{"a transaction of one's own", ownTransaction},
		{"newer records are left alone", newerRecords},
	}
	t.Run("sqlite", func(t *testing.T) {
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				db, store := openSQLite(t)
				c.run(newShop(t, db, store))
			})
		}
	})
	t.Run("postgres", func(t *testing.T) {
		dsn := testservers.Postgres(t)
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				db, store := openPostgres(t, dsn)
				s := newShop(t, db, store)
				c.run(s)
				s.exec("DROP TABLE records")
			})
		}
	})
}

func newShop(t *testing.T, db *sql.DB, store *sqlstore.Store) *shop {
	t.Helper()
	s := &shop{T: t, db: db, store: store}
	s.exec("DROP TABLE IF EXISTS effects")
	s.exec("CREATE TABLE effects (n integer)")
	h, err := idempotency.New(idempotency.Global, store, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.runs++
		sqlstore.TxFrom(r.Context()).ExecContext(r.Context(), "INSERT INTO effects VALUES (1)")
		s.work(w, r)
	}), idempotency.Config{
		RunnerConfig: idempotency.RunnerConfig{Guarantee: idempotency.GuaranteeTx, Wait: 20 * time.Second}, MaxRequestBody: 1 << 10, MaxStreamedBody: 1 << 20, MaxResponseBody: 1000,
	})
	if err != nil {
		t.Fatal(err)
	}
	s.h = h
	return s
}

func (s *shop) exec(text string) {
	s.Helper()
	if _, err := s.db.ExecContext(s.Context(), text); err != nil {
		s.Fatal(err)
	}
}

func (s *shop) wantEffects(want int) {
	s.Helper()
	var n int
	if err := s.db.QueryRowContext(s.Context(), "SELECT count(*) FROM effects").Scan(&n); err != nil || n != want {
		s.Errorf("%d effects, want %d (%v)", n, want, err)
	}
}

func (s *shop) post(key, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
	r.Header.Set("Idempotency-Key", key)
	w := httptest.NewRecorder()
	s.h.ServeHTTP(w, r)
	return w
}

func status(n int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", "/1")
		w.WriteHeader(n)
		io.WriteString(w, "body")
	}
}

// serialization is the error by which a database asks for the transaction again.
type serialization struct{ error }

func (serialization) SQLState() string { return "40001" }

func claim(key string) idempotency.Claim {
	return idempotency.Claim{ID: idempotency.IDOf("test", key), Guarantee: idempotency.GuaranteeTx, Owner: [16]byte{1}, Retention: time.Hour}
}

func closureAgain(s *shop) {
	runs := 0
	work := func(ctx context.Context, tx *sql.Tx) (idempotency.Result, error) {
		runs++
		if _, err := tx.ExecContext(ctx, "INSERT INTO effects VALUES (1)"); err != nil {
			return idempotency.Result{}, err
		}
		if runs < 3 {
			return idempotency.Result{}, serialization{errors.New("again")}
		}
		return idempotency.Result{Body: []byte("ok")}, nil
	}
	for n, want := range []idempotency.Decision{idempotency.DecisionRun, idempotency.DecisionReplay} {
		a, err := s.store.Do(s.Context(), claim("k"), work)
		if err != nil || a.Decision != want || string(a.Record.Result.Body) != "ok" {
			s.Errorf("call %d: %v %q, %v", n, a.Decision, a.Record.Result.Body, err)
		}
	}
	s.wantEffects(1)
	runs = -10
	if _, err := s.store.Do(s.Context(), claim("other"), work); err == nil || runs != -7 {
		s.Errorf("%d runs: %v", runs+10, err)
	}
	s.wantEffects(1)
}

// A handler has no error to return: it tells the store, and what it answers is dropped.
func TestHandlerIsRunAgain(t *testing.T) { // 47
	db, store := openPostgres(t, testservers.Postgres(t, "default_transaction_isolation=repeatable read"))
	s := newShop(t, db, store)
	s.exec("CREATE TABLE accounts (n integer)")
	s.exec("INSERT INTO accounts VALUES (0)")
	for _, answer := range []int{500, 409, 201} { // forgotten, kept, committed
		s.runs = 0
		s.exec("DELETE FROM effects")
		s.work = func(w http.ResponseWriter, r *http.Request) {
			tx := sqlstore.TxFrom(r.Context())
			if s.runs == 1 { // another transaction changes the row that this one has seen
				tx.ExecContext(r.Context(), "SELECT n FROM accounts")
				s.exec("UPDATE accounts SET n = n + 1")
			}
			if _, err := tx.ExecContext(r.Context(), "UPDATE accounts SET n = n + 1"); err != nil {
				sqlstore.Failed(r.Context(), err)
				w.Header().Set("Leak", "yes")
				http.Error(w, "leak", answer)
				return
			}
			status(201)(w, r)
		}
		w := s.post(strconv.Itoa(answer), "x")
		if w.Code != 201 || w.Body.String() != "body" || w.Header().Get("Leak") != "" || s.runs != 2 {
			t.Errorf("%d after %d runs: %q %v", w.Code, s.runs, w.Body, w.Header())
		}
		s.wantEffects(1)
	}
	s.runs = 0
	s.work = func(w http.ResponseWriter, r *http.Request) {
		sqlstore.Failed(r.Context(), errors.New("not the database's word"))
		status(500)(w, r)
	}
	if w := s.post("other", "x"); w.Code != 500 || s.runs != 1 {
		t.Errorf("%d after %d runs", w.Code, s.runs)
	}
	sqlstore.Failed(t.Context(), errors.New("outside of work"))
}

func ownTransaction(s *shop) {
	for n, end := range []func(*sql.Tx) error{(*sql.Tx).Rollback, (*sql.Tx).Commit, (*sql.Tx).Rollback} {
		tx, err := s.db.BeginTx(s.Context(), nil)
		if err != nil {
			s.Fatal(err)
		}
		e, err := s.store.BeginTx(s.Context(), tx, claim("k"))
		if want := [...]idempotency.Decision{idempotency.DecisionRun, idempotency.DecisionRun, idempotency.DecisionReplay}[n]; err != nil || e.Decision != want {
			s.Fatalf("transaction %d: %v, %v", n, e.Decision, err)
		}
		if e.Decision == idempotency.DecisionRun {
			tx.ExecContext(s.Context(), "INSERT INTO effects VALUES (1)")
			if err := s.store.CompleteTx(s.Context(), tx, e, idempotency.Result{Body: []byte("ok")}); err != nil {
				s.Fatal(err)
			}
		}
		if err := end(tx); err != nil {
			s.Fatal(err)
		}
	}
	s.wantEffects(1)
}

// 46: the connection breaks while COMMIT is under way, and while it is answered.
func TestCommitAnswerIsLost(t *testing.T) {
	db, store := openPostgres(t, testservers.Postgres(t))
	s := newShop(t, db, store)
	s.exec(`CREATE FUNCTION drop_me() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END $$`)
	s.exec(`CREATE CONSTRAINT TRIGGER drops AFTER INSERT ON effects DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION drop_me()`)
	s.work = status(201)
	w := s.post("k", "x")
	if w.Code != 503 || !strings.Contains(w.Body.String(), "outcome-unknown") || w.Header().Get("Retry-After") == "" || w.Header().Get("Location") != "" {
		t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
	}
	s.exec("DROP TRIGGER drops ON effects")
	if w := s.post("k", "x"); w.Code != 201 {
		t.Errorf("the retry got %d %s", w.Code, w.Body)
	}
	s.wantEffects(1)
}

func newerRecords(s *shop) {
	s.work = status(201)
	s.post("k", "x")
	s.exec("UPDATE records SET version = 2, due = 0")
	w := s.post("k", "x")
	if w.Code != 503 || !strings.Contains(w.Body.String(), "record-unreadable") {
		s.Errorf("%d %s", w.Code, w.Body)
	}
	if _, err := s.store.Sweep(s.Context(), 10); err != nil {
		s.Errorf("sweep: %v", err)
	}
	s.exec("UPDATE records SET version = 1")
	if w := s.post("k", "x"); w.Code != 201 || w.Header().Get("Idempotent-Replayed") != "true" {
		s.Errorf("%d", w.Code)
	}
	s.wantEffects(1)
}

func TestDatabaseThatCannotWrite(t *testing.T) { // down, or read-only
	db, store := openPostgres(t, testservers.Postgres(t, "default_transaction_read_only=off"))
	s := newShop(t, db, store)
	s.work = status(201)
	s.exec("ALTER ROLE postgres SET default_transaction_read_only = on")
	db.SetMaxIdleConns(0) // new sessions only
	if w := s.post("k", "x"); w.Code != 503 {
		t.Errorf("read-only: %d %s", w.Code, w.Body)
	}
	if _, err := store.Begin(t.Context(), claim("hold")); err == nil {
		t.Error("a read-only database granted a claim")
	}
	db.Close()
	if w := s.post("k", "x"); w.Code != 503 || !strings.Contains(w.Body.String(), "store-unavailable") {
		t.Errorf("closed: %d %s", w.Code, w.Body)
	}
}
