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
	"sync"
	"testing"
	"time"

	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/idempotency/sqlstore"
	"github.com/gabion-go/gabion/internal/testservers"
)

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
		{"24 what a response means for effects and record", responses},
		{"26 a panic rolls back", panics},
		{"48 nothing is seen before COMMIT", heldBack},
		{"3 concurrent duplicates have one effect", duplicates},
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
		sqlstore.From(r.Context()).ExecContext(r.Context(), "INSERT INTO effects VALUES (1)")
		s.work(w, r)
	}), idempotency.Config{Guarantee: idempotency.Tx, Wait: 20 * time.Second, MaxResponseBody: 1000})
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

func responses(s *shop) {
	for _, c := range []struct {
		name          string
		work          http.HandlerFunc
		status        int // of the first request
		effects, runs int // after two requests
		again         int // status of the second request
	}{
		{"2xx commits", status(201), 201, 1, 1, 201},
		{"24 500 rolls back and runs again", status(500), 500, 0, 2, 500},
		{"429 rolls back and runs again", status(429), 429, 0, 2, 429},
		{"4xx rolls back and is kept", status(422), 422, 0, 1, 422},
		{"4xx commits when asked", func(w http.ResponseWriter, r *http.Request) {
			idempotency.CommitError(r.Context())
			status(402)(w, r)
		}, 402, 1, 1, 402},
		{"a body that is not kept commits", func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, strings.Repeat("x", 5000))
		}, 200, 1, 1, 409},
		{"a body beyond all bounds rolls back", func(w http.ResponseWriter, _ *http.Request) {
			for range 20 {
				io.WriteString(w, strings.Repeat("x", 1000))
			}
		}, 503, 0, 2, 503},
	} {
		s.work, s.runs = c.work, 0
		key := strings.ReplaceAll(c.name, " ", "-")
		s.exec("DELETE FROM effects")
		first, second := s.post(key, "x"), s.post(key, "x")
		if first.Code != c.status || second.Code != c.again {
			s.Errorf("%s: %d, then %d: %s", c.name, first.Code, second.Code, second.Body)
		}
		if replayed := second.Header().Get("Idempotent-Replayed") == "true"; replayed != (c.runs == 1 && c.again == c.status) {
			s.Errorf("%s: replayed: %v", c.name, replayed)
		}
		s.wantEffects(c.effects)
		if s.runs != c.runs {
			s.Errorf("%s: ran %d times, want %d", c.name, s.runs, c.runs)
		}
		if got := s.post(key, "other").Code; c.effects == 1 && got != 422 { // 6
			s.Errorf("%s: another request got %d", c.name, got)
		}
	}
}

func panics(s *shop) {
	s.work = func(http.ResponseWriter, *http.Request) { panic("boom") }
	func() {
		defer func() {
			if p := recover(); p != "boom" {
				s.Errorf("panic %v", p)
			}
		}()
		s.post("k", "x")
	}()
	s.wantEffects(0)
	s.work = status(200)
	if got := s.post("k", "x").Code; got != 200 {
		s.Errorf("%d", got)
	}
	s.wantEffects(1)
}

func heldBack(s *shop) {
	w := httptest.NewRecorder()
	s.work = func(inner http.ResponseWriter, r *http.Request) {
		status(201)(inner, r)
		inner.(http.Flusher).Flush()
		if w.Body.Len() > 0 || w.Flushed {
			s.Error("the response left before COMMIT")
		}
	}
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader("x"))
	r.Header.Set("Idempotency-Key", "k")
	s.h.ServeHTTP(w, r)
	if w.Code != 201 || w.Body.String() != "body" {
		s.Errorf("%d %q", w.Code, w.Body)
	}
}

func duplicates(s *shop) {
	s.work = status(201)
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			if w := s.post("k", "x"); w.Code != 201 || w.Body.String() != "body" {
				s.Errorf("%d %s", w.Code, w.Body)
			}
		})
	}
	all.Wait()
	s.wantEffects(1)
}

// serialization is the error by which a database asks for the transaction again.
type serialization struct{ error }

func (serialization) SQLState() string { return "40001" }

func claim(key string) idempotency.Claim {
	return idempotency.Claim{ID: idempotency.IDOf("test", key), Guarantee: idempotency.Tx, Owner: [16]byte{1}, Retention: time.Hour}
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
	for n, want := range []idempotency.Decision{idempotency.Run, idempotency.Replay} {
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
			tx := sqlstore.From(r.Context())
			if s.runs == 1 { // somebody else changes the row that this transaction has seen
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
		if want := [...]idempotency.Decision{idempotency.Run, idempotency.Run, idempotency.Replay}[n]; err != nil || e.Decision != want {
			s.Fatalf("transaction %d: %v, %v", n, e.Decision, err)
		}
		if e.Decision == idempotency.Run {
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
