package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/idempotency/sqlstore"
	"github.com/gabion-go/gabion/idempotencytest"
	"github.com/gabion-go/gabion/internal/testservers"
	"github.com/gabion-go/gabion/internal/testshop"
)

func TestEffects(t *testing.T) {
	t.Run("sqlite", func(t *testing.T) {
		idempotencytest.RunTx(t, func(tb testing.TB) idempotencytest.Effects {
			db, store := openSQLite(tb)
			if _, err := db.ExecContext(tb.Context(), "CREATE TABLE effects (n integer)"); err != nil {
				tb.Fatal(err)
			}
			of := database(db, store)
			return idempotencytest.Effects{Store: store, Add: of.Add, Count: of.Count}
		})
	})
	t.Run("postgres", func(t *testing.T) {
		s := postgresShop(t, testservers.Postgres(t))
		idempotencytest.RunTx(t, func(testing.TB) idempotencytest.Effects {
			return idempotencytest.Effects{Store: s.store, Add: s.DB.Add, Count: s.DB.Count}
		})
	})
}

// A shop is a database with effects to count, and a handler in guarantee tx.
type shop struct {
	*testshop.Shop
	store *sqlstore.Store
	db    *sql.DB
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
				c.run(sqliteShop(t))
			})
		}
	})
	t.Run("postgres", func(t *testing.T) {
		dsn := testservers.Postgres(t)
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				s := postgresShop(t, dsn)
				c.run(s)
				s.Exec("DROP TABLE records")
			})
		}
	})
}

func newShop(t *testing.T, db *sql.DB, store *sqlstore.Store) *shop {
	t.Helper()
	s := &shop{testshop.New(t, database(db, store)), store, db}
	s.Exec("DROP TABLE IF EXISTS effects")
	s.Exec("CREATE TABLE effects (n integer)")
	return s
}

func sqliteShop(t *testing.T) *shop {
	t.Helper()
	db, store := openSQLite(t)
	return newShop(t, db, store)
}

func postgresShop(t *testing.T, dsn string) *shop {
	t.Helper()
	db, store := openPostgres(t, dsn)
	return newShop(t, db, store)
}

func database(db *sql.DB, store *sqlstore.Store) testshop.Database {
	return testshop.Database{
		Store: store, Wait: 20 * time.Second, Failed: sqlstore.Failed,
		Add: func(ctx context.Context) error {
			_, err := sqlstore.TxFrom(ctx).ExecContext(ctx, "INSERT INTO effects VALUES (1)")
			return err
		},
		Exec: func(ctx context.Context, text string) error { _, err := db.ExecContext(ctx, text); return err },
		Count: func(ctx context.Context) (n int, err error) {
			err = db.QueryRowContext(ctx, "SELECT count(*) FROM effects").Scan(&n)
			return n, err
		},
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
	s.WantEffects(1)
	runs = -10
	if _, err := s.store.Do(s.Context(), claim("other"), work); err == nil || runs != -7 {
		s.Errorf("%d runs: %v", runs+10, err)
	}
	s.WantEffects(1)
}

// A handler has no error to return: it tells the store, and what it answers is dropped.
func TestHandlerIsRunAgain(t *testing.T) { // 47
	s := postgresShop(t, testservers.Postgres(t, "default_transaction_isolation=repeatable read"))
	s.Exec("CREATE TABLE accounts (n integer)")
	s.Exec("INSERT INTO accounts VALUES (0)")
	s.RunsAgain("k", 2, func(ctx context.Context) error { // another transaction changes the row that this one has seen
		tx := sqlstore.TxFrom(ctx)
		tx.ExecContext(ctx, "SELECT n FROM accounts")
		s.Exec("UPDATE accounts SET n = n + 1")
		_, err := tx.ExecContext(ctx, "UPDATE accounts SET n = n + 1")
		return err
	})
	s.Runs.Store(0)
	s.Work = func(w http.ResponseWriter, r *http.Request) {
		sqlstore.Failed(r.Context(), errors.New("not the database's word"))
		testshop.Status(500)(w, r)
	}
	if w := s.Post("other", "x"); w.Code != 500 || s.Runs.Load() != 1 {
		t.Errorf("%d after %d runs", w.Code, s.Runs.Load())
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
	s.WantEffects(1)
}

// 46: the connection breaks while COMMIT is under way, and while it is answered.
func TestCommitAnswerIsLost(t *testing.T) {
	s := postgresShop(t, testservers.Postgres(t))
	s.Exec(`CREATE FUNCTION drop_me() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END $$`)
	s.Exec(`CREATE CONSTRAINT TRIGGER drops AFTER INSERT ON effects DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION drop_me()`)
	s.Work = testshop.Status(201)
	w := s.Post("k", "x")
	if w.Code != 503 || !strings.Contains(w.Body.String(), "outcome-unknown") || w.Header().Get("Retry-After") == "" || w.Header().Get("Location") != "" {
		t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
	}
	s.Exec("DROP TRIGGER drops ON effects")
	if w := s.Post("k", "x"); w.Code != 201 {
		t.Errorf("the retry got %d %s", w.Code, w.Body)
	}
	s.WantEffects(1)
}

func newerRecords(s *shop) {
	s.Work = testshop.Status(201)
	s.Post("k", "x")
	s.Exec("UPDATE records SET version = 2, due = 0")
	w := s.Post("k", "x")
	if w.Code != 503 || !strings.Contains(w.Body.String(), "record-unreadable") {
		s.Errorf("%d %s", w.Code, w.Body)
	}
	if _, err := s.store.Sweep(s.Context(), 10); err != nil {
		s.Errorf("sweep: %v", err)
	}
	s.Exec("UPDATE records SET version = 1")
	if w := s.Post("k", "x"); w.Code != 201 || w.Header().Get("Idempotent-Replayed") != "true" {
		s.Errorf("%d", w.Code)
	}
	s.WantEffects(1)
}

func TestDatabaseThatCannotWrite(t *testing.T) { // down, or read-only
	db, store := openPostgres(t, testservers.Postgres(t, "default_transaction_read_only=off"))
	s := newShop(t, db, store)
	s.Work = testshop.Status(201)
	s.Exec("ALTER ROLE postgres SET default_transaction_read_only = on")
	db.SetMaxIdleConns(0) // new sessions only
	if w := s.Post("k", "x"); w.Code != 503 {
		t.Errorf("read-only: %d %s", w.Code, w.Body)
	}
	if _, err := store.Begin(t.Context(), claim("hold")); err == nil {
		t.Error("a read-only database granted a claim")
	}
	db.Close()
	if w := s.Post("k", "x"); w.Code != 503 || !strings.Contains(w.Body.String(), "store-unavailable") {
		t.Errorf("closed: %d %s", w.Code, w.Body)
	}
}
