package pgxstore

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/gabion-go/gabion/gabiontest"
	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/idempotencytest"
	"github.com/gabion-go/gabion/internal/testservers"
	"github.com/gabion-go/gabion/internal/testshop"
)

func TestEffects(t *testing.T) {
	gabiontest.NoLeaks(t)
	pool := connect(t, testservers.Postgres(t), 20)
	s := newShop(t, connect(t, pool.Config().ConnString(), 1), open(t, pool, "records"))
	idempotencytest.RunTx(t, func(testing.TB) idempotencytest.Effects {
		return idempotencytest.Effects{Store: s.store, Add: s.DB.Add, Count: s.DB.Count}
	})
}

func TestTx(t *testing.T) {
	gabiontest.NoLeaks(t)
	pool := connect(t, testservers.Postgres(t), 20)
	for _, c := range []struct {
		name string
		run  func(*shop)
	}{
		{"24 an error of the database that went unnoticed rolls back", unnoticed},
		{"7 a duplicate learns at once that the first runs", inProgress},
		{"an expired record gives way to a new run", expiredRecord},
		{"a transaction of one's own", ownTransaction},
		{"a snapshot taken too early ends in a conflict", earlySnapshot},
		{"a claim outside of transactions wins, and the effects go", claimMeanwhile},
		{"work cannot end its transaction, nor outlive it", endings},
		{"rows that work left open roll back", openRows},
		{"what a savepoint caught is the work's own business", savepoint},
		{"a context that ends rolls back", cancelled},
		{"47 every form of 40001 is repeated", everyForm},
		{"47 three runs are enough", threeRuns},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := pool.Exec(t.Context(), "DROP TABLE IF EXISTS records"); err != nil {
				t.Fatal(err)
			}
			unlocked(t, pool)
			c.run(newShop(t, pool, open(t, pool, "records")))
		})
	}
}

// unlocked waits until no transaction of an earlier test holds a key: a server takes
// its time to notice that a connection has gone.
func unlocked(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		var n int
		if err := pool.QueryRow(t.Context(), "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'").Scan(&n); err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%d keys are held for ever", n)
		}
	}
}

func unnoticed(s *shop) {
	s.Work = func(w http.ResponseWriter, r *http.Request) {
		TxFrom(r.Context()).Exec(r.Context(), "SELECT 1/0")
		testshop.Status(201)(w, r)
	}
	for n := range 2 { // the second runs again
		if w := s.Post("k", "x"); w.Code != 503 {
			s.Errorf("%d %s", w.Code, w.Body)
		}
		s.WantRuns(int64(n + 1))
	}
	s.WantEffects(0)
}

func inProgress(s *shop) {
	a, err := s.store.Do(s.Context(), claimOf("k"), func(ctx context.Context, tx pgx.Tx) (idempotency.Result, error) {
		other := claimOf("k")
		other.Fingerprint[0]++ // there is no row yet to tell that it is another request
		a, err := s.store.Tx(ctx, other, nil)
		if err != nil || a.Decision != idempotency.DecisionInProgress {
			s.Errorf("%v, %v", a.Decision, err)
		}
		return idempotency.Result{}, add(ctx, tx)
	})
	if err != nil || a.Decision != idempotency.DecisionRun {
		s.Errorf("%v, %v", a.Decision, err)
	}
	s.WantEffects(1)
}

func expiredRecord(s *shop) {
	for n, end := range []string{"released", "expired", "replayed"} {
		a, err := s.store.Do(s.Context(), claimOf("k"), func(ctx context.Context, tx pgx.Tx) (idempotency.Result, error) {
			return idempotency.Result{Body: []byte(end)}, add(ctx, tx)
		})
		if want := [...]string{"released", "expired", "expired"}[n]; err != nil || string(a.Record.Result.Body) != want {
			s.Errorf("%s: %v %q, %v", end, a.Decision, a.Record.Result.Body, err)
		}
		if n == 0 {
			s.Exec("UPDATE records SET expires = 1")
		}
	}
	s.WantEffects(2)
	s.Exec("DELETE FROM records")
	ref := idempotency.Ref{ID: claimOf("k").ID, Token: begin(s.T, s.store, hold("k"), idempotency.DecisionRun).Record.Token}
	if err := s.store.Apply(s.Context(), ref, idempotency.Change{State: idempotency.StateRetryable}); err != nil {
		s.Fatal(err)
	}
	a, err := s.store.Do(s.Context(), claimOf("k"), func(ctx context.Context, tx pgx.Tx) (idempotency.Result, error) {
		return idempotency.Result{}, add(ctx, tx)
	})
	if err != nil || a.Record.Attempt != 2 || a.Record.Token <= ref.Token {
		s.Errorf("after a release: %+v, %v", a.Record, err)
	}
	s.WantEffects(3)
}

func ownTransaction(s *shop) {
	for n, end := range []func(pgx.Tx, context.Context) error{pgx.Tx.Rollback, pgx.Tx.Commit, pgx.Tx.Rollback} {
		tx, err := s.witness.Begin(s.Context())
		if err != nil {
			s.Fatal(err)
		}
		e, err := s.store.BeginTx(s.Context(), tx, claimOf("k"))
		if want := [...]idempotency.Decision{idempotency.DecisionRun, idempotency.DecisionRun, idempotency.DecisionReplay}[n]; err != nil || e.Decision != want {
			s.Fatalf("transaction %d: %v, %v", n, e.Decision, err)
		}
		if e.Decision == idempotency.DecisionRun {
			add(s.Context(), tx)
			if err := s.store.CompleteTx(s.Context(), tx, e, idempotency.Result{Body: []byte("ok")}); err != nil {
				s.Fatal(err)
			}
		}
		if err := end(tx, s.Context()); err != nil {
			s.Fatal(err)
		}
	}
	s.WantEffects(1)
}

// The primary key is the backstop: a transaction that sees the past finds no record.
func earlySnapshot(s *shop) {
	done := func(ctx context.Context, tx pgx.Tx) (idempotency.Result, error) {
		return idempotency.Result{Body: []byte("first")}, add(ctx, tx)
	}
	for _, begun := range []string{"", "UPDATE records SET expires = 1"} { // inserted, and updated
		tx, err := s.witness.BeginTx(s.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
		if err == nil {
			_, err = tx.Exec(s.Context(), "SELECT 1")
		}
		if err != nil {
			s.Fatal(err)
		}
		if a, err := s.store.Do(s.Context(), claimOf("k"), done); err != nil || a.Decision != idempotency.DecisionRun {
			s.Fatalf("%v, %v", a.Decision, err)
		}
		e, err := s.store.BeginTx(s.Context(), tx, claimOf("k"))
		if err != nil || e.Decision != idempotency.DecisionRun {
			s.Fatalf("%v, %v", e.Decision, err)
		}
		add(s.Context(), tx)
		if err := s.store.CompleteTx(s.Context(), tx, e, idempotency.Result{Body: []byte("second")}); !repeatable(err) {
			s.Errorf("%v", err)
		}
		tx.Rollback(s.Context())
		if a, err := s.store.Do(s.Context(), claimOf("k"), done); err != nil || a.Decision != idempotency.DecisionReplay || string(a.Record.Result.Body) != "first" {
			s.Errorf("%v, %v", a.Decision, err)
		}
		if begun == "" {
			s.Exec("UPDATE records SET expires = 1")
		}
	}
	s.WantEffects(2)
}

// Such a claim takes no lock: only the primary key stands between it and a COMMIT that
// is on its way together with the record.
func claimMeanwhile(s *shop) {
	runs := 0
	a, err := s.store.Do(s.Context(), claimOf("k"), func(ctx context.Context, tx pgx.Tx) (idempotency.Result, error) {
		runs++
		other := hold("k")
		other.Owner[0]++
		begin(s.T, s.store, other, idempotency.DecisionRun)
		return idempotency.Result{}, add(ctx, tx)
	})
	if err != nil || a.Decision != idempotency.DecisionInProgress || runs != 1 {
		s.Errorf("%d runs: %v, %v", runs, a.Decision, err)
	}
	s.WantEffects(0)
}

func endings(s *shop) {
	var outlived []pgx.Tx
	var result pgx.Tx
	a, err := s.store.Do(s.Context(), claimOf("k"), func(ctx context.Context, tx pgx.Tx) (idempotency.Result, error) {
		if err := tx.Commit(ctx); !errors.Is(err, ErrNotYours) {
			s.Errorf("commit: %v", err)
		}
		if err := tx.Rollback(ctx); !errors.Is(err, ErrNotYours) {
			s.Errorf("rollback: %v", err)
		}
		nested, err := tx.Begin(ctx)
		if err != nil {
			return idempotency.Result{}, err
		}
		if err := errors.Join(add(ctx, nested), nested.Commit(ctx)); err != nil {
			s.Errorf("a savepoint: %v", err)
		}
		result, _ = tx.Begin(ctx)
		outlived = append(outlived, tx, result)
		return idempotency.Result{}, nil
	})
	if err != nil || a.Decision != idempotency.DecisionRun {
		s.Errorf("%v, %v", a.Decision, err)
	}
	for _, tx := range outlived {
		var n int
		_, queried := tx.Query(s.Context(), "SELECT 1")
		for what, err := range map[string]error{
			"exec": add(s.Context(), tx), "row": tx.QueryRow(s.Context(), "SELECT 1").Scan(&n), "query": queried,
			"batch": tx.SendBatch(s.Context(), new(pgx.Batch)).Close(),
		} {
			if !errors.Is(err, pgx.ErrTxClosed) {
				s.Errorf("%s after the end: %v", what, err)
			}
		}
	}
	if TxFrom(s.Context()) != nil {
		s.Error("a transaction outside of work")
	}
	s.WantEffects(1)
}

func openRows(s *shop) {
	_, err := s.store.Do(s.Context(), claimOf("k"), func(ctx context.Context, tx pgx.Tx) (idempotency.Result, error) {
		add(ctx, tx)
		tx.Query(ctx, "SELECT generate_series(1, 100000)")
		return idempotency.Result{}, nil
	})
	if err == nil || errors.Is(err, idempotency.ErrUnknown) {
		s.Errorf("%v", err)
	}
	s.WantEffects(0)
}

func savepoint(s *shop) {
	runs := 0
	a, err := s.store.Tx(s.Context(), claimOf("savepoint"), func(ctx context.Context, _ idempotency.Record) (idempotency.Result, idempotency.Ending, error) {
		runs++
		nested, err := TxFrom(ctx).Begin(ctx)
		if err != nil {
			return idempotency.Result{}, 0, err
		}
		_, err = nested.Exec(ctx, raise)
		if stateOf(err) != "40001" {
			s.Errorf("%v", err)
		}
		return idempotency.Result{Status: 422}, idempotency.EndingRejected, nested.Rollback(ctx)
	})
	if err != nil || a.Decision != idempotency.DecisionRun || runs != 1 {
		s.Errorf("%d runs: %v, %v", runs, a.Decision, err)
	}
}

// raise is what a serialization failure looks like.
const raise = `DO $$ BEGIN RAISE EXCEPTION 'again' USING ERRCODE = '40001'; END $$`

func cancelled(s *shop) {
	ctx, cancel := context.WithCancel(s.Context())
	a, err := s.store.Do(ctx, claimOf("k"), func(ctx context.Context, tx pgx.Tx) (idempotency.Result, error) {
		err := add(ctx, tx)
		cancel()
		return idempotency.Result{}, err
	})
	if !errors.Is(err, context.Canceled) {
		s.Errorf("%v, %v", a.Decision, err)
	}
	s.WantEffects(0)
}

// Every way in which work can hear that its transaction has to be repeated, and what it
// may then make of it.
func everyForm(s *shop) {
	s.Exec("CREATE OR REPLACE FUNCTION again() RETURNS int LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'again' USING ERRCODE = '40001'; END $$")
	s.Exec("CREATE TABLE IF NOT EXISTS refuses (n int CHECK (again() > n))")
	for name, fail := range map[string]func(context.Context, pgx.Tx) error{
		"exec": func(ctx context.Context, tx pgx.Tx) error { _, err := tx.Exec(ctx, raise); return err },
		"row":  func(ctx context.Context, tx pgx.Tx) error { return tx.QueryRow(ctx, "SELECT again()").Scan(nil) },
		"copy": func(ctx context.Context, tx pgx.Tx) error { return copyInto(ctx, tx) },
		"rows": func(ctx context.Context, tx pgx.Tx) error { return drain(tx.Query(ctx, "SELECT again()")) },
		"close": func(ctx context.Context, tx pgx.Tx) error {
			rows, _ := tx.Query(ctx, "SELECT again()")
			rows.Close()
			return rows.Err()
		},
		"batch": func(ctx context.Context, tx pgx.Tx) error {
			b := new(pgx.Batch)
			b.Queue("SELECT again()")
			return tx.SendBatch(ctx, b).Close()
		},
		"nested": func(ctx context.Context, tx pgx.Tx) error {
			nested, err := tx.Begin(ctx)
			if err == nil {
				_, err = nested.Exec(ctx, raise)
			}
			return err
		},
	} {
		s.RunsAgain(name, 3, func(ctx context.Context) error {
			if err := fail(ctx, TxFrom(ctx)); stateOf(err) != "40001" {
				s.Errorf("%s: %v", name, err)
			}
			return nil
		})
	}
}

func drain(rows pgx.Rows, err error) error {
	for rows.Next() {
	}
	return rows.Err()
}

func copyInto(ctx context.Context, tx pgx.Tx) error {
	_, err := tx.CopyFrom(ctx, pgx.Identifier{"refuses"}, []string{"n"}, pgx.CopyFromRows([][]any{{1}}))
	return err
}

func threeRuns(s *shop) {
	s.Work = func(w http.ResponseWriter, r *http.Request) {
		TxFrom(r.Context()).Exec(r.Context(), raise)
		testshop.Status(500)(w, r)
	}
	if w := s.Post("k", "x"); w.Code != 500 || w.Body.String() != "body" {
		s.Errorf("%d %q", w.Code, w.Body)
	}
	s.WantRuns(3)
	s.WantEffects(0)
	var answer *pgconn.PgError
	_, err := s.store.Do(s.Context(), claimOf("d"), func(ctx context.Context, tx pgx.Tx) (idempotency.Result, error) {
		tx.Exec(ctx, raise)
		return idempotency.Result{}, nil
	})
	if !errors.As(err, &answer) || answer.Code != "40001" {
		s.Errorf("%v", err)
	}
}

// 47 for real: two transactions that can't both be, and the database says so at an
// UPDATE (repeatable read), at COMMIT or before (serializable), or as a deadlock.
func TestConflictingTransactions(t *testing.T) {
	dsn := testservers.Postgres(t)
	for _, c := range []struct {
		level, left, right string
	}{
		{"repeatable read", "UPDATE accounts SET n = n + 1 WHERE id = 1", "UPDATE accounts SET n = n + 1 WHERE id = 1"},
		{"serializable", "INSERT INTO accounts SELECT 10, sum(n) FROM accounts", "INSERT INTO accounts SELECT 11, sum(n) FROM accounts"},
		{"read committed", "UPDATE accounts SET n = n + 1 WHERE id = 2", "UPDATE accounts SET n = n + 1 WHERE id = 1"},
	} {
		t.Run(c.level, func(t *testing.T) {
			pool := connect(t, dsn, 8, "default_transaction_isolation", c.level, "deadlock_timeout", "10ms")
			if _, err := pool.Exec(t.Context(), "DROP TABLE IF EXISTS records, accounts; CREATE TABLE accounts (id int, n int); INSERT INTO accounts VALUES (1, 0), (2, 0)"); err != nil {
				t.Fatal(err)
			}
			s := newShop(t, pool, open(t, pool, "records"))
			var both sync.WaitGroup // have begun: only then do they conflict
			both.Add(2)
			var once [2]sync.Once
			var again sync.Once
			done := [2]chan struct{}{make(chan struct{}), make(chan struct{})} // answered
			lost := make(chan struct{})                                        // by the right one
			s.Work = func(w http.ResponseWriter, r *http.Request) {
				side, text := 0, c.left
				if r.Header.Get("Idempotency-Key") == "right" {
					side, text = 1, c.right
				}
				first := false
				once[side].Do(func() { first = true })
				// Who lost lets the other one end, or they meet again. Where both lost, left is first.
				if !first && side == 1 {
					again.Do(func() { close(lost) })
					<-done[0]
				} else if !first {
					select {
					case <-done[1]:
					case <-lost:
					}
				}
				tx := TxFrom(r.Context())
				_, err := tx.Exec(r.Context(), "SELECT sum(n) FROM accounts")
				if err == nil && c.level == "read committed" { // each takes the row that the other wants
					_, err = tx.Exec(r.Context(), fmt.Sprintf("UPDATE accounts SET n = n + 1 WHERE id = %d", side+1))
				}
				if first {
					both.Done()
					both.Wait()
				}
				if err == nil {
					_, err = tx.Exec(r.Context(), text)
				}
				if err != nil {
					w.Header().Set("Leak", "yes")
					http.Error(w, err.Error(), 500)
					return
				}
				testshop.Status(201)(w, r)
			}
			var all sync.WaitGroup
			for side, key := range []string{"left", "right"} {
				all.Go(func() {
					defer close(done[side])
					if w := s.Post(key, "x"); w.Code != 201 || w.Body.String() != "body" || w.Header().Get("Leak") != "" {
						t.Errorf("%s: %d %q %v", key, w.Code, w.Body, w.Header())
					}
				})
			}
			all.Wait()
			s.WantEffects(2)
			if n := s.Runs.Load(); n < 3 {
				t.Errorf("%d runs: they did not conflict", n)
			}
		})
	}
}

// 37: PostgreSQL dies between the effect and COMMIT, and takes all sessions along.
func TestBackendIsKilled(t *testing.T) {
	pool := connect(t, testservers.Postgres(t), 4)
	s := newShop(t, pool, open(t, pool, "records"))
	first := checkpointer(pool)
	s.Work = func(w http.ResponseWriter, r *http.Request) {
		if s.Runs.Load() == 1 {
			if err := kill(int(TxFrom(r.Context()).Conn().PgConn().PID())); err != nil {
				testservers.Missing(t, "the right to kill the server's process: %v", err)
			}
			TxFrom(r.Context()).Exec(r.Context(), "SELECT pg_sleep(60)") // until the server notices
		}
		testshop.Status(201)(w, r)
	}
	if w := s.Post("k", "x"); w.Code != 503 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	for range 3000 { // it ends all its processes and recovers from its log
		if now := checkpointer(pool); now != 0 && now != first {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	s.WantEffects(0)
	if w := s.Post("k", "x"); w.Code != 201 || testshop.Replayed(w) {
		t.Errorf("the retry: %d %s", w.Code, w.Body)
	}
	s.WantEffects(1)
	if w := s.Post("k", "x"); w.Code != 201 || !testshop.Replayed(w) {
		t.Errorf("the third: %d %s", w.Code, w.Body)
	}
}

// kill ends a process without a goodbye, on every system.
func kill(pid int) error {
	p, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	return p.Kill()
}

// checkpointer returns the id of a process that lives as long as the others do, or zero.
func checkpointer(pool *pgxpool.Pool) (pid int) {
	pool.QueryRow(context.Background(), "SELECT pid FROM pg_stat_activity WHERE backend_type = 'checkpointer'").Scan(&pid)
	return pid
}
