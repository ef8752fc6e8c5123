package sqlitestore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/idempotency/sqlstore"
	"github.com/gabion-go/gabion/internal/testservers"
	"github.com/gabion-go/gabion/internal/testshop"
	"modernc.org/sqlite"
)

// onBegun is what SQL's begun() does: a statement says that it is under way.
var onBegun atomic.Pointer[context.CancelFunc]

func init() {
	sqlite.MustRegisterScalarFunction("begun", 0, func(*sqlite.FunctionContext, []driver.Value) (driver.Value, error) {
		(*onBegun.Load())()
		return int64(1), nil
	})
}

// SQLite ends a transaction by itself after some errors, and would then commit each
// further statement of the work at once. Work may end it too.
func TestWorkWhoseTransactionHasEnded(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(context.Context, *sql.Tx) error
	}{
		{"a statement was interrupted", func(ctx context.Context, tx *sql.Tx) error {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			onBegun.Store(&cancel)
			_, err := tx.ExecContext(ctx, "INSERT INTO noise WITH RECURSIVE c(x) AS (SELECT begun() UNION ALL SELECT x+1 FROM c WHERE x < 50000000) SELECT x FROM c")
			return err
		}},
		{"OR ROLLBACK", func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "INSERT OR ROLLBACK INTO taken VALUES (1)")
			return err
		}},
		{"the work commits", func(_ context.Context, tx *sql.Tx) error { return tx.Commit() }},
		{"the work says COMMIT", func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "COMMIT")
			return err
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := sqliteShop(t)
			s.Exec("CREATE TABLE noise (n integer)")
			s.Exec("CREATE TABLE taken (n integer PRIMARY KEY)")
			s.Exec("INSERT INTO taken VALUES (1)")
			for answer, sent := range map[int]int{201: 503, 422: 503, 500: 500} {
				s.Work = func(w http.ResponseWriter, r *http.Request) {
					tx := sqlstore.TxFrom(r.Context())
					if err := c.end(r.Context(), tx); err == nil {
						t.Error("the transaction has not ended")
					}
					tx.ExecContext(r.Context(), "INSERT INTO effects VALUES (2)")
					testshop.Status(answer)(w, r)
				}
				if got := s.Post(strconv.Itoa(answer), "x").Code; got != sent {
					t.Errorf("the work answered %d, its client got %d", answer, got)
				}
				s.WantEffects(0)
				s.Exec("INSERT INTO noise VALUES (1)") // the connection commits again
			}
			s.Work = testshop.Status(201)
			if got := s.Post("after", "x").Code; got != 201 {
				t.Errorf("afterwards: %d", got)
			}
			s.WantEffects(1)
		})
	}
}

// Work that ends its transaction and begins another in its place is found out, in whatever
// words it does so.
func TestWorkThatBeginsAnotherTransaction(t *testing.T) {
	unguarded := func(t *testing.T) (*sql.DB, *sqlstore.Store) {
		db, err := sql.Open("sqlite", filepath.Join(t.TempDir(), "db")+"?_pragma=journal_mode(WAL)")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { db.Close() })
		store, err := sqlstore.New(db, sqlstore.SQLite, "records")
		if err == nil {
			err = store.Migrate(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		return db, store
	}
	for _, texts := range [][]string{
		{"ROLLBACK; BEGIN"}, {"ROLLBACK", "BEGIN"}, {"rollback transaction; begin immediate"}, {"ROLLBACK", "SAVEPOINT a"},
		{"COMMIT", "BEGIN"}, {"COMMIT; BEGIN"}, {"END; BEGIN"}, {"END TRANSACTION", "BEGIN EXCLUSIVE"},
		{"SAVEPOINT a; ROLLBACK; BEGIN; SAVEPOINT a"}, {"ROLLBACK; BEGIN; INSERT INTO effects VALUES (2)"},
	} {
		for _, guarded := range []bool{true, false} {
			for _, answer := range []int{201, 422, 500} {
				t.Run(fmt.Sprint(texts, answer, ", guarded: ", guarded), func(t *testing.T) {
					open := unguarded
					if guarded {
						open = func(t *testing.T) (*sql.DB, *sqlstore.Store) { return openSQLite(t) }
					}
					db, store := open(t)
					s := newShop(t, db, store)
					ended := true
					s.Work = func(w http.ResponseWriter, r *http.Request) {
						for _, text := range texts {
							_, err := sqlstore.TxFrom(r.Context()).ExecContext(r.Context(), text)
							ended = ended && (err == nil || guarded)
						}
						testshop.Status(answer)(w, r)
					}
					w := s.Post("k", "x")
					if unknown := w.Code == 503 && strings.Contains(w.Body.String(), string("outcome-unknown")); !ended || !unknown && !(guarded && answer != 201 && (w.Code == answer || w.Code == 503)) {
						t.Errorf("%d %s, ended: %v", w.Code, w.Body, ended)
					}
					if guarded {
						s.WantEffects(0)
					}
					s.Exec("DELETE FROM effects")
					s.Work = testshop.Status(201)
					first := w.Code
					w = s.Post("k", "x")
					if kept := first == 422; !kept && (w.Code != 201 || w.Header().Get("Idempotent-Replayed") != "") {
						t.Errorf("then %d %s", w.Code, w.Body)
					} else if !kept {
						s.WantEffects(1)
					}
				})
			}
		}
	}
}

// Savepoints of the work are its own business, also those that it leaves open.
func TestWorkWithSavepoints(t *testing.T) {
	s := sqliteShop(t)
	for n, text := range []string{
		"SAVEPOINT a; RELEASE a", "SAVEPOINT a", "SAVEPOINT a; INSERT INTO effects VALUES (2); ROLLBACK TO a",
		"SAVEPOINT a; SAVEPOINT b; RELEASE a", "SAVEPOINT a; ROLLBACK TO a; RELEASE a; SAVEPOINT a",
	} {
		s.Exec("DELETE FROM effects")
		s.Work = func(w http.ResponseWriter, r *http.Request) {
			if _, err := sqlstore.TxFrom(r.Context()).ExecContext(r.Context(), text); err != nil {
				t.Error(err)
			}
			testshop.Status(201)(w, r)
		}
		if w := s.Post(strconv.Itoa(n), "x"); w.Code != 201 {
			t.Errorf("%s: %d %s", text, w.Code, w.Body)
		}
		s.WantEffects(1)
	}
}

// The store notices it in a transaction of the caller's own, too.
func TestOwnTransactionThatWasReplaced(t *testing.T) {
	db, store := openSQLite(t)
	s := newShop(t, db, store)
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	e, err := store.BeginTx(t.Context(), tx, claim("k"))
	if err != nil || e.Decision != idempotency.DecisionRun {
		t.Fatalf("%v, %v", e.Decision, err)
	}
	tx.ExecContext(t.Context(), "INSERT INTO effects VALUES (1)")
	tx.ExecContext(t.Context(), "ROLLBACK; BEGIN")
	if err := store.CompleteTx(t.Context(), tx, e, idempotency.Result{}); !errors.Is(err, idempotency.ErrUnknown) {
		t.Errorf("%v", err)
	}
	tx.Rollback()
	s.WantEffects(0)
}

// PostgreSQL does as the text says. What work committed or rolled back by itself is
// recorded as nothing.
func TestWorkThatEndsItsTransactionOnPostgres(t *testing.T) {
	s := postgresShop(t, testservers.Postgres(t))
	for _, end := range []string{
		"ROLLBACK", "ROLLBACK AND CHAIN", "ROLLBACK; BEGIN", "ABORT; START TRANSACTION",
		"COMMIT", "COMMIT AND CHAIN", "COMMIT; BEGIN", "END; BEGIN", "SAVEPOINT a; COMMIT; BEGIN; SAVEPOINT a",
	} {
		for _, before := range []string{"no record", "an expired record"} {
			for _, answer := range []int{201, 422, 500} {
				s.Exec("DELETE FROM records")
				s.Work = testshop.Status(201)
				if before != "no record" {
					s.Post("k", "x")
					s.Exec("UPDATE records SET expires = 1")
				}
				s.Exec("DELETE FROM effects")
				s.Runs.Store(0)
				s.Work = func(w http.ResponseWriter, r *http.Request) {
					sqlstore.TxFrom(r.Context()).ExecContext(r.Context(), end)
					testshop.Status(answer)(w, r)
				}
				if w := s.Post("k", "x"); w.Code != 503 || !strings.Contains(w.Body.String(), string("outcome-unknown")) || s.Runs.Load() != 1 {
					t.Errorf("%s, %s, %d: %d %s after %d runs", end, before, answer, w.Code, w.Body, s.Runs.Load())
				}
				if strings.HasPrefix(end, "ROLLBACK") {
					s.WantEffects(0)
				}
				s.Work = testshop.Status(201)
				if w := s.Post("k", "x"); w.Code != 201 || w.Header().Get("Idempotent-Replayed") != "" {
					t.Errorf("%s, %s, %d: then %d %s", end, before, answer, w.Code, w.Body)
				}
			}
		}
	}
}
