package mysqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/idempotency/sqlstore"
	"github.com/gabion-go/gabion/idempotencytest"
	"github.com/gabion-go/gabion/internal/testservers"
	"github.com/gabion-go/gabion/internal/testshop"
)

// TestTx has one server for all its cases: to start one takes longer than they do.
func TestTx(t *testing.T) {
	dsn := testservers.MariaDB(t)
	for _, level := range levels {
		setLevel(t, dsn, level)
		for _, c := range []struct {
			name string
			run  func(*shop)
		}{
			{"47 after a deadlock the work runs again", deadlocked},
			{"47 after a wait for a lock all of the work runs again", waitedInVain},
			{"work that goes on after a deadlock leaves nothing", goesOn},
			{"work that ends its transaction is found out", endsTransaction},
			{"a key that is worked on keeps no other waiting", others},
			{"a duplicate learns at once", duplicate},
			{"a transaction of one's own", ownTransaction},
			{"connections are given back as they were", asTheyWere},
		} {
			t.Run(level+": "+c.name, func(t *testing.T) { c.run(newShop(t, dsn)) })
		}
	}
}

func TestEffects(t *testing.T) {
	s := newShop(t, testservers.MariaDB(t))
	idempotencytest.RunTx(t, func(testing.TB) idempotencytest.Effects {
		return idempotencytest.Effects{Store: s.store, Add: effect, Count: s.DB.Count}
	})
}

// deadlock makes a transaction of the work's the one that the server rolls back: the other
// one has changed more.
func (s *shop) deadlock(ctx context.Context) error {
	other, err := s.witness.BeginTx(ctx, nil)
	if err != nil {
		s.Fatal(err)
	}
	defer other.Rollback()
	for n := range 50 {
		if _, err := other.ExecContext(ctx, fmt.Sprintf("INSERT INTO accounts VALUES (%d)", 100+n)); err != nil {
			s.Fatal(err)
		}
	}
	if _, err := other.ExecContext(ctx, "UPDATE accounts SET n = n WHERE n = 1"); err != nil {
		s.Fatal(err)
	}
	if err := run(ctx, "UPDATE accounts SET n = n WHERE n = 2"); err != nil {
		s.Fatal(err)
	}
	done := make(chan error)
	go func() {
		_, err := other.ExecContext(ctx, "UPDATE accounts SET n = n WHERE n = 2")
		done <- err
	}()
	err = run(ctx, "UPDATE accounts SET n = n WHERE n = 1")
	if other := <-done; other != nil || number(err) != 1213 {
		s.Errorf("no deadlock of the work's: %v, the other: %v", err, other)
	}
	return err
}

func (s *shop) accounts() {
	s.Exec("DROP TABLE IF EXISTS accounts")
	s.Exec("CREATE TABLE accounts (n integer PRIMARY KEY) ENGINE=InnoDB")
	s.Exec("INSERT INTO accounts VALUES (1), (2)")
}

func deadlocked(s *shop) {
	s.accounts()
	s.RunsAgain("deadlock", 2, s.deadlock)
	runs := 0
	a, err := s.store.Do(s.Context(), claim("do"), func(ctx context.Context, _ *sql.Tx) (idempotency.Result, error) {
		if runs++; runs == 1 {
			return idempotency.Result{}, fmt.Errorf("transfer: %w", s.deadlock(ctx))
		}
		return idempotency.Result{Status: 201}, effect(ctx)
	})
	if err != nil || a.Decision != idempotency.DecisionRun || runs != 2 {
		s.Errorf("Do: %v after %d runs, %v", a.Decision, runs, err)
	}
	s.WantEffects(2)
}

// After 1205 the server has undone one statement. What came before it must not stay.
func waitedInVain(s *shop) {
	s.accounts()
	other, err := s.witness.BeginTx(s.Context(), nil)
	if err != nil {
		s.Fatal(err)
	}
	defer other.Rollback()
	if _, err := other.ExecContext(s.Context(), "UPDATE accounts SET n = 3 WHERE n = 1"); err != nil {
		s.Fatal(err)
	}
	runs := 0
	a, err := s.store.Do(s.Context(), claim("k"), func(ctx context.Context, _ *sql.Tx) (idempotency.Result, error) {
		if err := effect(ctx); err != nil {
			return idempotency.Result{}, err
		}
		if runs++; runs > 1 {
			other.Rollback()
			return idempotency.Result{Status: 201}, run(ctx, "UPDATE accounts SET n = 4 WHERE n = 1")
		}
		if err := run(ctx, "SET innodb_lock_wait_timeout = 1"); err != nil {
			return idempotency.Result{}, err
		}
		err := run(ctx, "UPDATE accounts SET n = 4 WHERE n = 1")
		if number(err) != 1205 {
			s.Errorf("no wait in vain: %v", err)
		}
		return idempotency.Result{}, err
	})
	if err != nil || a.Decision != idempotency.DecisionRun || runs != 2 {
		s.Errorf("%v after %d runs, %v", a.Decision, runs, err)
	}
	s.WantEffects(1)
}

// The server would make each statement after a deadlock a transaction of its own.
func goesOn(s *shop) {
	s.accounts()
	for answer, sent := range map[int]int{201: 503, 422: 503, 500: 503} {
		s.Exec("DELETE FROM effects")
		s.Work = func(w http.ResponseWriter, r *http.Request) {
			_ = s.deadlock(r.Context())
			if err := effect(r.Context()); err != nil {
				s.Errorf("the statement after: %v", err)
			}
			testshop.Status(answer)(w, r)
		}
		if w := s.Post(fmt.Sprint(answer), "x"); w.Code != sent {
			s.Errorf("the work answered %d, its client got %d %s", answer, w.Code, w.Body)
		}
		s.WantEffects(0)
		s.Work = testshop.Status(201)
		if w := s.Post(fmt.Sprint(answer), "x"); w.Code != 201 || testshop.Replayed(w) {
			s.Errorf("%d: then %d %s", answer, w.Code, w.Body)
		}
		s.WantEffects(1)
	}
}

// What work committed stands. It is recorded as nothing, and the row that kept its key is
// one that expired long ago.
func endsTransaction(s *shop) {
	for _, c := range []struct{ end, then string }{
		{"ROLLBACK", ""}, {"ROLLBACK", "BEGIN"}, {"ROLLBACK AND CHAIN", ""}, {"COMMIT", ""}, {"COMMIT", "START TRANSACTION"}, {"COMMIT AND CHAIN", ""},
		{"CREATE TABLE IF NOT EXISTS x (n integer)", ""}, {"LOCK TABLES effects WRITE", "UNLOCK TABLES"},
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
					for _, text := range []string{c.end, c.then} {
						if err := run(r.Context(), text); text != "" && err != nil {
							s.Errorf("%s: %v", text, err)
						}
					}
					testshop.Status(answer)(w, r)
				}
				if w := s.Post("k", "x"); w.Code != 503 || !strings.Contains(w.Body.String(), "outcome-unknown") || s.Runs.Load() != 1 {
					s.Errorf("%v, %s, %d: %d %s after %d runs", c, before, answer, w.Code, w.Body, s.Runs.Load())
				}
				if strings.HasPrefix(c.end, "ROLLBACK") {
					s.WantEffects(0)
				}
				if answer == 500 { // what is left is swept, or claimed anew
					if _, err := s.store.Sweep(s.Context(), 10); err != nil {
						s.Error(err)
					}
					if r, err := s.store.Get(s.Context(), claim("k").ID); err != nil || r.State != idempotency.StateAbsent {
						s.Errorf("%v: left is %+v, %v", c, r, err)
					}
				}
				s.Work = testshop.Status(201)
				if w := s.Post("k", "x"); w.Code != 201 || testshop.Replayed(w) {
					s.Errorf("%v, %s, %d: then %d %s", c, before, answer, w.Code, w.Body)
				}
			}
		}
	}
}

// hundred claims of other keys, of every kind, come while a key is worked on.
const hundred = 100

func others(s *shop) {
	for _, before := range []string{"no record", "an expired record"} {
		s.Work = testshop.Status(201)
		if before != "no record" {
			s.Post("k", "x")
			s.Exec("UPDATE records SET expires = 1")
		}
		s.Work = func(w http.ResponseWriter, r *http.Request) {
			s.Work = testshop.Status(201)
			ctx, cancel := context.WithTimeout(r.Context(), 20*time.Second)
			defer cancel()
			var all sync.WaitGroup
			for n := range hundred {
				all.Go(func() {
					key := fmt.Sprint(before, n)
					var err error
					if n%2 == 0 {
						_, err = s.store.Begin(ctx, hold(key))
					} else {
						_, err = s.store.Do(ctx, claim(key), func(ctx context.Context, _ *sql.Tx) (idempotency.Result, error) {
							return idempotency.Result{Status: 201}, effect(ctx)
						})
					}
					if err != nil {
						s.Errorf("%s: %v", key, err)
					}
				})
			}
			all.Wait()
			if _, err := s.store.Sweep(ctx, 10); err != nil {
				s.Errorf("sweep: %v", err)
			}
			testshop.Status(201)(w, r)
		}
		if w := s.Post("k", "x"); w.Code != 201 {
			s.Errorf("%s: %d %s", before, w.Code, w.Body)
		}
	}
}

func duplicate(s *shop) {
	s.Work = func(w http.ResponseWriter, r *http.Request) {
		s.Work = testshop.Status(201)
		start := time.Now()
		if again := s.Post("k", "x"); again.Code != 409 {
			s.Errorf("%d %s", again.Code, again.Body)
		}
		if took := time.Since(start); took > 10*time.Second { // and not the server's 50 s
			s.Errorf("told after %v", took)
		}
		testshop.Status(201)(w, r)
	}
	if w := s.Post("k", "x"); w.Code != 201 || s.Runs.Load() != 1 {
		s.Errorf("%d %s after %d runs", w.Code, w.Body, s.Runs.Load())
	}
	if w := s.Post("k", "x"); w.Code != 201 || !testshop.Replayed(w) {
		s.Errorf("%d %s", w.Code, w.Body)
	}
	s.WantEffects(1)
}

func ownTransaction(s *shop) {
	s.accounts()
	ctx := s.Context()
	for n, end := range []func(*sql.Tx) error{(*sql.Tx).Rollback, (*sql.Tx).Commit, (*sql.Tx).Rollback} {
		tx, err := s.db.BeginTx(ctx, nil)
		if err != nil {
			s.Fatal(err)
		}
		e, err := s.store.BeginTx(ctx, tx, claim("k"))
		if want := [...]idempotency.Decision{idempotency.DecisionRun, idempotency.DecisionRun, idempotency.DecisionReplay}[n]; err != nil || e.Decision != want {
			s.Fatalf("transaction %d: %v, %v", n, e.Decision, err)
		}
		if e.Decision == idempotency.DecisionRun {
			tx.ExecContext(ctx, "INSERT INTO effects VALUES (1)")
			if err := s.store.CompleteTx(ctx, tx, e, idempotency.Result{Body: []byte("ok")}); err != nil {
				s.Fatal(err)
			}
		}
		if err := end(tx); err != nil {
			s.Fatal(err)
		}
	}
	s.WantEffects(1)

	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		s.Fatal(err)
	}
	var n int
	tx.QueryRowContext(ctx, "SELECT count(*) FROM accounts").Scan(&n) // REPEATABLE READ sees from now on what is there now
	s.store.Do(ctx, claim("late"), func(context.Context, *sql.Tx) (idempotency.Result, error) { return idempotency.Result{}, nil })
	if e, err := s.store.BeginTx(ctx, tx, claim("late")); err != nil || e.Decision != idempotency.DecisionReplay {
		s.Errorf("a key that was done since the transaction began: %v, %v", e.Decision, err)
	}
	tx.Rollback()

	if tx, err = s.db.BeginTx(ctx, nil); err != nil {
		s.Fatal(err)
	}
	defer tx.Rollback()
	e, err := s.store.BeginTx(ctx, tx, claim("replaced"))
	if err != nil {
		s.Fatal(err)
	}
	tx.ExecContext(ctx, "COMMIT AND CHAIN")
	if err := s.store.CompleteTx(ctx, tx, e, idempotency.Result{}); !errors.Is(err, idempotency.ErrUnknown) {
		s.Errorf("a transaction that was replaced: %v", err)
	}
}

// Whatever becomes of the work, and of its caller, the pool's connection commits each
// statement of the next one, and waits for locks as long as before.
func asTheyWere(s *shop) {
	s.db.SetMaxOpenConns(1)
	var wait int
	if err := s.db.QueryRowContext(s.Context(), "SELECT @@innodb_lock_wait_timeout").Scan(&wait); err != nil {
		s.Fatal(err)
	}
	for name, work := range map[string]func(context.Context, context.CancelFunc) error{
		"it succeeds": func(ctx context.Context, _ context.CancelFunc) error {
			var now int
			err := sqlstore.TxFrom(ctx).QueryRowContext(ctx, "SELECT @@innodb_lock_wait_timeout").Scan(&now)
			if now != wait {
				s.Errorf("work waits %d s for a lock, want %d", now, wait)
			}
			return err
		},
		"it fails":                       func(context.Context, context.CancelFunc) error { return errors.New("no") },
		"it panics":                      func(context.Context, context.CancelFunc) error { panic("boom") },
		"it ends its goroutine":          func(context.Context, context.CancelFunc) error { runtime.Goexit(); return nil },
		"its caller leaves":              func(_ context.Context, cancel context.CancelFunc) error { cancel(); return nil },
		"its caller leaves in between":   func(ctx context.Context, cancel context.CancelFunc) error { cancel(); return effect(ctx) },
		"its transaction is rolled back": func(ctx context.Context, _ context.CancelFunc) error { return sqlstore.TxFrom(ctx).Rollback() },
		"its transaction is committed":   func(ctx context.Context, _ context.CancelFunc) error { return sqlstore.TxFrom(ctx).Commit() },
		"it leaves rows open": func(ctx context.Context, _ context.CancelFunc) error {
			rows, err := sqlstore.TxFrom(ctx).QueryContext(ctx, "SELECT 1 UNION SELECT 2")
			if err == nil {
				s.Cleanup(func() { rows.Close() })
				err = rows.Err()
			}
			return err
		},
	} {
		ctx, cancel := context.WithCancel(s.Context())
		var done sync.WaitGroup
		done.Go(func() {
			defer func() { _ = recover() }()
			s.store.Do(ctx, claim(name), func(ctx context.Context, _ *sql.Tx) (idempotency.Result, error) {
				return idempotency.Result{}, work(ctx, cancel)
			})
		})
		done.Wait()
		cancel()
		s.Exec("DELETE FROM effects")
		if _, err := s.db.ExecContext(s.Context(), "INSERT INTO effects VALUES (1)"); err != nil {
			s.Errorf("%s: then %v", name, err)
		}
		s.WantEffects(1)
		var on, now int
		if err := s.db.QueryRowContext(s.Context(), "SELECT @@autocommit, @@innodb_lock_wait_timeout").Scan(&on, &now); err != nil || on != 1 || now != wait {
			s.Errorf("%s: autocommit %d, wait %d s, %v", name, on, now, err)
		}
	}
}
