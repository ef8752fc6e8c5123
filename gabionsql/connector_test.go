package gabionsql_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/gabionsql"
	"github.com/gabion-go/gabion/policy"
)

// stuck waits until its context ends.
func stuck(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// fails is a script in which one operation fails.
func fails(which string, err error) func(context.Context, string) error {
	return func(_ context.Context, op string) error {
		if strings.HasPrefix(op, which) {
			return err
		}
		return nil
	}
}

func inUse(d *gabion.Dependency) int { return d.Stats().Bulkhead.InUse }

func state(d *gabion.Dependency) string { return d.Stats().Main.Breaker.State.String() }

// What each operation costs a dependency, and what its failure shows.
func TestOperationsPassTheDependency(t *testing.T) {
	reset := error(syscall.ECONNRESET)
	for _, c := range []struct {
		fact    string
		on      func(context.Context, string) error
		use     func(*testing.T, *sql.DB) error
		want    error         // in the error
		refused policy.Reason // of the error; None: it is the driver's own
		opens   bool          // the breaker, which one failure opens
	}{
		{"a query works", nil, query, nil, policy.None, false},
		{"a connect that fails counts", fails("connect", reset), query, reset, policy.None, true},
		{"a query that fails counts", fails("query2", reset), query, reset, policy.None, true},
		{"an exec that fails counts", fails("exec2", reset), exec, reset, policy.None, true},
		{"a ping that fails counts", fails("ping", reset), (func(_ *testing.T, db *sql.DB) error { return db.Ping() }), reset, policy.None, true},
		{"a prepare that fails counts", fails("prepare", reset), prepared, reset, policy.None, true},
		{"a prepared statement that fails counts", fails("statement", reset), prepared, reset, policy.None, true},
		{"a begin that fails counts", fails("begin", reset), transact, reset, policy.None, true},
		{"a statement of a transaction that fails counts", fails("exec2", reset), transact, reset, policy.None, true},
		{"a commit that fails counts", fails("commit", reset), transact, reset, policy.None, true},
		{"rows that break count", fails("next", reset), query, reset, policy.None, true},
		{"an answer of no does not count", fails("query2", state23505{}), query, state23505{}, policy.None, false},
		{"nor in a transaction", fails("exec2", state23505{}), transact, state23505{}, policy.None, false},
		{"nor in a later row", fails("next", state23505{}), query, state23505{}, policy.None, false},
		{"a bad connection of the pool does not count", fails("query2", driver.ErrBadConn), query, driver.ErrBadConn, policy.None, false},
		{"a query has the attempt's time", late("query2"), query, context.DeadlineExceeded, policy.AttemptTimeout, true},
		{"a connect has the attempt's time", late("connect"), query, context.DeadlineExceeded, policy.AttemptTimeout, true},
		{"a statement of a transaction has the attempt's time", late("exec2"), transact, context.DeadlineExceeded, policy.AttemptTimeout, true},
		{"a row has the idle time", late("next"), query, context.DeadlineExceeded, policy.IdleTimeout, true},
	} {
		t.Run(c.fact, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := dependency(t, policy.Policy{
					Breaker: policy.Breaker{Consecutive: 1},
					Timeout: policy.Timeout{Attempt: time.Second, Idle: time.Second},
				})
				f := &scripted{on: c.on}
				db := sql.OpenDB(gabionsql.Connector(f, d))
				err := c.use(t, db)
				if !errors.Is(err, c.want) || (c.want == nil) != (err == nil) {
					t.Errorf("error %v, want %v", err, c.want)
				}
				if got := gabion.ReasonOf(err); got != c.refused {
					t.Errorf("reason %v, want %v", got, c.refused)
				}
				if opened := state(d) == "open"; opened != c.opens {
					t.Errorf("the breaker is %v", state(d))
				}
				if n := inUse(d); n != 0 {
					t.Errorf("%d slots are left behind", n)
				}
				if n := db.Stats().InUse; n != 0 {
					t.Errorf("%d connections are left behind", n)
				}
				db.Close()
				if n := f.conns(); n != 0 {
					t.Errorf("%d connections were not closed", n)
				}
			})
		})
	}
}

// late is a script in which one operation waits for its context.
func late(which string) func(context.Context, string) error {
	return func(ctx context.Context, op string) error {
		if strings.HasPrefix(op, which) {
			return stuck(ctx)
		}
		return nil
	}
}

type state23505 struct{}

func (state23505) Error() string    { return "duplicate key" }
func (state23505) SQLState() string { return "23505" }

type readOnly struct{}

func (readOnly) Error() string    { return "cannot execute UPDATE in a read-only transaction" }
func (readOnly) SQLState() string { return "25006" }

func query(_ *testing.T, db *sql.DB) error {
	rows, err := db.Query("SELECT n")
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
	}
	return rows.Err()
}

func exec(_ *testing.T, db *sql.DB) error {
	_, err := db.Exec("UPDATE n")
	return err
}

func prepared(_ *testing.T, db *sql.DB) error {
	s, err := db.Prepare("UPDATE n")
	if err != nil {
		return err
	}
	defer s.Close()
	_, err = s.Exec()
	return err
}

func transact(_ *testing.T, db *sql.DB) error {
	tx, err := db.Begin()
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if _, err := tx.Exec("UPDATE n"); err != nil {
		return err
	}
	return tx.Commit()
}

// An open breaker refuses what is new, and nothing that a transaction needs to end.
func TestAnOpenBreaker(t *testing.T) {
	d := dependency(t, policy.Policy{})
	f := &scripted{}
	db := wrapped(t, f, d)
	tx, err := db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	b, _ := d.Breaker("")
	b.Trip()
	if err := exec(t, db); !errors.Is(err, policy.BreakerOpen) {
		t.Errorf("a new statement: %v", err)
	}
	if _, err := tx.Exec("UPDATE n"); err != nil {
		t.Errorf("a statement of a transaction: %v", err)
	}
	rows, err := tx.Query("SELECT n")
	if err != nil {
		t.Fatalf("a query of a transaction: %v", err)
	}
	if err := errors.Join(rows.Close(), rows.Err()); err != nil {
		t.Error(err)
	}
	if err := tx.Commit(); err != nil {
		t.Errorf("its commit: %v", err)
	}
	if got := f.said(); strings.Contains(got, "exec2 UPDATE n[]\nexec2") || !strings.Contains(got, "commit") {
		t.Errorf("the driver was asked for\n%s", got)
	}
}

// Four transactions and a bulkhead of four do not wait for each other, and hold their
// slots for as long as they have their connections.
func TestATransactionHasOneSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := dependency(t, policy.Policy{
			Bulkhead: policy.Bulkhead{Limit: 4, QueueTimeout: time.Second},
			Timeout:  policy.Timeout{Attempt: time.Second},
		})
		db := wrapped(t, &scripted{}, d)
		var open []*sql.Tx
		for range 4 {
			tx, err := db.Begin()
			if err != nil {
				t.Fatal(err)
			}
			open = append(open, tx)
		}
		time.Sleep(10 * time.Second) // the attempts' time is over
		synctest.Wait()
		if n := inUse(d); n != 4 {
			t.Errorf("%d slots are in use, want 4", n)
		}
		for _, tx := range open {
			if _, err := tx.Exec("UPDATE n"); err != nil {
				t.Errorf("a statement waits for a slot: %v", err)
			}
		}
		if err := exec(t, db); !errors.Is(err, policy.QueueTimeout) {
			t.Errorf("another call: %v", err)
		}
		open[0].Commit()
		if err := exec(t, db); err != nil {
			t.Errorf("another call, once one has ended: %v", err)
		}
		for _, tx := range open[1:] {
			tx.Rollback()
		}
		if n := inUse(d); n != 0 {
			t.Errorf("%d slots are left behind", n)
		}
	})
}

// Calls that have all the slots may wait for a connection that is being made.
func TestAConnectNeedsNoSlot(t *testing.T) {
	d := dependency(t, policy.Policy{Bulkhead: policy.Bulkhead{Limit: 1, Queue: policy.Off}})
	db := wrapped(t, &scripted{}, d)
	a, err := gabion.Begin(context.Background(), d)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close(nil)
	c, err := db.Conn(context.Background())
	if err != nil {
		t.Fatalf("no connection: %v", err)
	}
	c.Close()
}

// What is done with the context of an attempt is part of that attempt.
func TestOperationsInAnAttemptOfTheSameDependency(t *testing.T) {
	d := dependency(t, policy.Policy{Bulkhead: policy.Bulkhead{Limit: 1, Queue: policy.Off}, Breaker: policy.Breaker{Consecutive: 2}})
	f := &scripted{on: fails("exec2", syscall.ECONNRESET)}
	db := wrapped(t, f, d)
	err := d.Run(context.Background(), func(ctx context.Context) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		if _, err := tx.ExecContext(context.Background(), "UPDATE n"); err == nil {
			t.Error("the statement worked")
		}
		_, err = tx.ExecContext(ctx, "UPDATE n")
		return err
	}, gabion.WithoutRetry())
	if !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("error %v", err)
	}
	if n := d.Stats().Totals.Calls; n != 1 {
		t.Errorf("%d calls, want 1", n)
	}
	if got := state(d); got != "closed" {
		t.Errorf("one failure counted more than once: %v", got)
	}
}

// Rows that are never closed keep their slot for no longer than an attempt takes.
func TestUnclosedRows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := dependency(t, policy.Policy{Timeout: policy.Timeout{Attempt: time.Second}})
		db := wrapped(t, &scripted{}, d)
		rows, err := db.Query("SELECT n")
		if err != nil {
			t.Fatal(err)
		}
		if n := inUse(d); n != 1 {
			t.Errorf("%d slots are in use", n)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if n := inUse(d); n != 0 {
			t.Errorf("%d slots are in use after the attempt's time", n)
		}
		if !rows.Next() {
			t.Errorf("the rows ended: %v", rows.Err())
		}
		rows.Close()
	})
}

// A server that refuses to write because it is a replica is not asked again on that
// connection.
func TestAConnectionToAReadOnlyServerIsThrownAway(t *testing.T) {
	for _, c := range []struct {
		fact  string
		use   func(*sql.DB) error
		conns string
	}{
		{"a statement", func(db *sql.DB) error { return exec(t, db) }, "connect reset connect"},
		{"a transaction", func(db *sql.DB) error { return transact(t, db) }, "connect reset connect"},
		{"a transaction that asked for it keeps it", func(db *sql.DB) error {
			tx, err := db.BeginTx(context.Background(), &sql.TxOptions{ReadOnly: true})
			if err != nil {
				return err
			}
			defer tx.Rollback()
			_, err = tx.Exec("UPDATE n")
			return err
		}, "connect"},
	} {
		t.Run(c.fact, func(t *testing.T) {
			f := &scripted{on: fails("exec2", readOnly{})}
			db := wrapped(t, f, dependency(t, policy.Policy{}))
			if err := c.use(db); !errors.Is(err, readOnly{}) {
				t.Fatalf("error %v", err)
			}
			f.on = nil
			if err := exec(t, db); err != nil {
				t.Fatal(err)
			}
			if n, want := strings.Count(f.said(), "connect"), strings.Count(c.conns, "connect"); n != want {
				t.Errorf("%d connects, want %d:\n%s", n, want, f.said())
			}
		})
	}
}
