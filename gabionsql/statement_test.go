package gabionsql_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/gabionsql"
	"github.com/gabion-go/gabion/internal/sqltx"
	"github.com/gabion-go/gabion/policy"
)

// failsFirst is a script in which the first of these operations fail.
func failsFirst(n int, which string, err error) func(context.Context, string) error {
	return func(_ context.Context, op string) error {
		if n > 0 && strings.HasPrefix(op, which) {
			n--
			return err
		}
		return nil
	}
}

// send calls each of the verbs for the same statement.
var send = map[string]func(ctx context.Context, d *gabion.Dependency, db *sql.DB, args ...any) error{
	"exec2": func(ctx context.Context, d *gabion.Dependency, db *sql.DB, args ...any) error {
		_, err := gabionsql.Exec(ctx, d, db, "UPDATE n", args...)
		return err
	},
	"query2": func(ctx context.Context, d *gabion.Dependency, db *sql.DB, args ...any) error {
		rows, err := gabionsql.Query(ctx, d, db, "SELECT n", args...)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
		}
		return rows.Err()
	},
	"query2 ": func(ctx context.Context, d *gabion.Dependency, db *sql.DB, args ...any) error {
		var n int
		return gabionsql.QueryRow(ctx, d, db, "SELECT n", args...).Scan(&n)
	},
}

// A statement is repeated if that was declared safe, or if it was provably not sent.
func TestWhatIsSentAgain(t *testing.T) {
	for _, c := range []struct {
		fact  string
		fails int
		err   error
		args  []any
		sent  int
		want  policy.Reason
	}{
		{"a statement that works is sent once", 0, nil, nil, 1, policy.None},
		{"one that was declared safe is sent again", 1, syscall.ECONNRESET, []any{gabion.WithIdempotent()}, 2, policy.None},
		{"one that was not declared safe is not", 1, syscall.ECONNRESET, nil, 1, policy.NotSafe},
		{"one that the server has undone is sent again", 1, sqlError("40001"), nil, 2, policy.None},
		{"one that a replica refused is sent again", 1, readOnly{}, nil, 2, policy.None},
		{"bad connections are database/sql's to try again", 2, driver.ErrBadConn, nil, 3, policy.None},
		{"and then not ours, for that proves nothing", 4, driver.ErrBadConn, nil, 3, policy.NotSafe},
		{"unless it was declared safe", 4, driver.ErrBadConn, []any{gabion.WithIdempotent()}, 5, policy.None},
		{"an answer of no is final", 1, state23505{}, []any{gabion.WithIdempotent()}, 1, policy.NotRetryable},
	} {
		for op, send := range send {
			t.Run(c.fact+", "+op, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					d := dependency(t, policy.Policy{Retry: policy.Retry{Budget: policy.Budget{Off: true}, Hold: policy.Off}})
					f := &scripted{on: failsFirst(c.fails, op, c.err)}
					db, err := gabionsql.Open(f, d)
					if err != nil {
						t.Fatal(err)
					}
					defer db.Close()
					err = send(context.Background(), d, db, c.args...)
					if got := gabion.ReasonOf(err); got != c.want || (err == nil) != (c.want == policy.None) {
						t.Errorf("%v, want %v", err, c.want)
					}
					if n := strings.Count(f.said(), op); n != c.sent {
						t.Errorf("sent %d times, want %d:\n%s", n, c.sent, f.said())
					}
					if n := inUse(d) + db.Stats().InUse; n != 0 {
						t.Errorf("%d slots and connections are left behind", n)
					}
					if n := d.Stats().Totals.Calls; n != 1 {
						t.Errorf("%d calls, want 1", n)
					}
				})
			})
		}
	}
}

type sqlError string

func (e sqlError) Error() string    { return "SQLSTATE " + string(e) }
func (e sqlError) SQLState() string { return string(e) }

// A call that waits for a connection of the pool fails with that reason, and the database is not
// blamed; one that waits for the database is a timeout.
func TestAnExhaustedPool(t *testing.T) {
	for _, c := range []struct {
		fact  string
		taken bool // all connections
		on    func(context.Context, string) error
		ctx   func() (context.Context, func())
		want  policy.Reason
		opens bool
	}{
		{"no connection comes free", true, nil, nil, policy.PoolExhausted, false},
		{"nor until the caller's deadline", true, nil, deadlineIn(time.Second), policy.PoolExhausted, false},
		{"the caller leaves", true, nil, leavesIn(time.Second), policy.Canceled, false},
		{"a transaction finds none", true, nil, nil, policy.PoolExhausted, false},
		{"the database does not answer", false, late("exec2"), nil, policy.CallTimeout, true},
		{"it does not let connections in", false, late("connect"), nil, policy.CallTimeout, true},
	} {
		t.Run(c.fact, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := dependency(t, policy.Policy{
					Bulkhead: policy.Bulkhead{Limit: 2},
					Timeout:  policy.Timeout{Attempt: 5 * time.Second, Call: 5 * time.Second},
					Breaker:  policy.Breaker{Consecutive: 1},
				})
				db, err := gabionsql.Open(&scripted{on: c.on}, d)
				if err != nil {
					t.Fatal(err)
				}
				defer db.Close()
				if c.taken {
					for range 2 {
						conn, err := db.Conn(context.Background())
						if err != nil {
							t.Fatal(err)
						}
						defer conn.Close()
					}
				}
				ctx, cancel := context.Background(), func() {}
				if c.ctx != nil {
					ctx, cancel = c.ctx()
				}
				defer cancel()
				_, err = gabionsql.Exec(ctx, d, db, "UPDATE n")
				if strings.HasPrefix(c.fact, "a transaction") {
					err = gabionsql.RunTx(ctx, d, db, func(context.Context, *sql.Tx) error { return nil })
				}
				if got := gabion.ReasonOf(err); got != c.want {
					t.Errorf("%v, want %v", err, c.want)
				}
				if c.want == policy.PoolExhausted {
					if gabion.EffectOf(err) != policy.NoEffect || !strings.Contains(err.Error(), "nothing sent: no connection of the pool came free in time (2 of 2 in use)") {
						t.Errorf("it reads %v", err)
					}
				}
				if opened := state(d) == "open"; opened != c.opens {
					t.Errorf("the breaker is %v", state(d))
				}
			})
		})
	}
}

func deadlineIn(d time.Duration) func() (context.Context, func()) {
	return func() (context.Context, func()) { return context.WithTimeout(context.Background(), d) }
}

func leavesIn(d time.Duration) func() (context.Context, func()) {
	return func() (context.Context, func()) {
		ctx, cancel := context.WithCancel(context.Background())
		time.AfterFunc(d, cancel)
		return ctx, cancel
	}
}

// Calls on the DB itself and calls of this package share one pool, and do not wait for
// each other's slots and connections in a circle.
func TestCallsOfBothKinds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := dependency(t, policy.Policy{Bulkhead: policy.Bulkhead{Limit: 2, Queue: 100, QueueTimeout: time.Minute}})
		db, err := gabionsql.Open(&scripted{on: func(_ context.Context, op string) error {
			time.Sleep(time.Millisecond)
			return nil
		}}, d)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		began := time.Now()
		for range 50 {
			go func() {
				if err := exec(t, db); err != nil {
					t.Error(err)
				}
			}()
			go func() {
				if _, err := gabionsql.Exec(context.Background(), d, db, "UPDATE n"); err != nil {
					t.Error(err)
				}
			}()
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if s := db.Stats(); s.InUse != 0 || inUse(d) != 0 || d.Stats().Bulkhead.Queued != 0 {
			t.Errorf("after %v: %d connections, %d slots, %d queued", time.Since(began), s.InUse, inUse(d), d.Stats().Bulkhead.Queued)
		}
	})
}

// What can't be meant is said before anything is sent.
func TestMistakesWithStatements(t *testing.T) {
	d := dependency(t, policy.Policy{})
	f := &scripted{}
	db, err := gabionsql.Open(f, d)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	ctx := context.Background()
	for op, send := range send {
		for _, c := range []struct {
			fact string
			err  error
		}{
			{"in the work of a transaction", send(sqltx.Within(ctx, sqltx.Scope{Tx: "tx", Pool: db, Dependency: d}), d, db)},
			{"a nil database", send(ctx, d, nil)},
			{"a nil dependency", send(ctx, nil, db)},
			{"an argument behind an option", send(ctx, d, db, gabion.WithIdempotent(), 1)},
		} {
			t.Run(c.fact+", "+op, func(t *testing.T) {
				if !errors.Is(c.err, policy.Invalid) {
					t.Errorf("error %v", c.err)
				}
			})
		}
	}
	if got := f.said(); got != "" {
		t.Errorf("the driver was asked for %s", got)
	}
}

// A row that can't be read into dest is the program's mistake, and none of the database's.
func TestScan(t *testing.T) {
	for _, c := range []struct {
		fact string
		on   func(context.Context, string) error
		dest any
		is   error
		why  policy.Reason
	}{
		{"a row", nil, new(int), nil, policy.None},
		{"no row", fails("next", io.EOF), new(int), sql.ErrNoRows, policy.None},
		{"a destination of another type", nil, new(time.Time), nil, policy.NotRetryable},
		{"one that the driver may use again", nil, new(sql.RawBytes), nil, policy.NotRetryable},
	} {
		t.Run(c.fact, func(t *testing.T) {
			d := dependency(t, policy.Policy{Breaker: policy.Breaker{Consecutive: 1}})
			db, err := gabionsql.Open(&scripted{on: c.on}, d)
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			err = gabionsql.QueryRow(context.Background(), d, db, "SELECT n").Scan(c.dest)
			if c.is != nil && err != c.is || gabion.ReasonOf(err) != c.why {
				t.Errorf("error %v", err)
			}
			if state(d) != "closed" || inUse(d)+db.Stats().InUse != 0 {
				t.Errorf("breaker %v, %d slots, %d connections", state(d), inUse(d), db.Stats().InUse)
			}
		})
	}
}

// Rows of several sets are one result, and are closed when the last one is read.
func TestRowsOfSeveralSets(t *testing.T) {
	d := dependency(t, policy.Policy{})
	db, err := gabionsql.Open(&scripted{rows: func(r *scriptedRows) driver.Rows { return &sets{scriptedRows: r, left: 1} }}, d)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rows, err := gabionsql.Query(context.Background(), d, db, "SELECT n; SELECT n")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for more := true; more; more = rows.NextResultSet() {
		for rows.Next() {
			n++
		}
		if more := inUse(d); n == 3 && more != 1 {
			t.Errorf("%d slots between the sets", more)
		}
	}
	if err := rows.Err(); n != 5 || err != nil || inUse(d)+db.Stats().InUse != 0 {
		t.Errorf("%d rows, %v; %d slots, %d connections", n, err, inUse(d), db.Stats().InUse)
	}
	if rows.Close() != nil || rows.Close() != nil {
		t.Error("closing again is an error")
	}
}
