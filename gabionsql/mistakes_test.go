package gabionsql_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/gabionsql"
	"github.com/gabion-go/gabion/policy"
)

// A wrong use is an error, and nothing stays behind.
func TestMistakes(t *testing.T) {
	for _, c := range []struct {
		fact string
		make func() driver.Connector
	}{
		{"a nil driver", func() driver.Connector { return gabionsql.Connector(nil, dependency(t, policy.Policy{})) }},
		{"a nil dependency", func() driver.Connector { return gabionsql.Connector(&scripted{}, nil) }},
		{"a call option that can't be meant", func() driver.Connector {
			return gabionsql.Connector(&scripted{}, dependency(t, policy.Policy{}), gabion.WithTimeout(-1))
		}},
	} {
		t.Run(c.fact, func(t *testing.T) {
			db := sql.OpenDB(c.make())
			defer db.Close()
			if err := db.Ping(); !errors.Is(err, policy.Invalid) {
				t.Errorf("error %v", err)
			}
			if n := db.Stats().OpenConnections; n != 0 {
				t.Errorf("%d connections", n)
			}
		})
	}
	t.Run("a driver that panics", func(t *testing.T) {
		d := dependency(t, policy.Policy{})
		db := wrapped(t, &scripted{on: func(_ context.Context, op string) error {
			if strings.HasPrefix(op, "exec2") {
				panic("driver")
			}
			return nil
		}}, d)
		func() {
			defer func() { _ = recover() }()
			_ = exec(t, db)
		}()
		if n := inUse(d); n != 0 {
			t.Errorf("%d slots are left behind", n)
		}
	})
	t.Run("work that ends its goroutine in a transaction", func(t *testing.T) {
		d := dependency(t, policy.Policy{})
		db := wrapped(t, &scripted{}, d)
		done := make(chan bool)
		go func() {
			defer close(done)
			tx, err := db.Begin()
			if err != nil {
				t.Error(err)
				return
			}
			defer tx.Rollback()
			runtime.Goexit()
		}()
		<-done
		if n := inUse(d) + db.Stats().InUse; n != 0 {
			t.Errorf("%d slots and connections are left behind", n)
		}
	})
	t.Run("closing twice", func(t *testing.T) {
		d := dependency(t, policy.Policy{})
		db := wrapped(t, &scripted{}, d)
		rows, err := db.Query("SELECT n")
		if err != nil {
			t.Fatal(err)
		}
		rows.Close()
		if err := errors.Join(rows.Close(), rows.Err()); err != nil {
			t.Error(err)
		}
		tx, _ := db.Begin()
		tx.Rollback()
		if err := tx.Rollback(); !errors.Is(err, sql.ErrTxDone) {
			t.Error(err)
		}
		if n := inUse(d); n != 0 {
			t.Errorf("%d slots are left behind", n)
		}
	})
}

// A text beside a connection that is good is about what the program handed over, such as an
// argument that can't be encoded. All else that is not known is a failure of the database.
func TestMistakesOfTheProgramAreNoFailuresOfTheDatabase(t *testing.T) {
	text := fmt.Errorf("encode args[0]: %w", &strconv.NumError{Func: "ParseInt", Num: "x", Err: strconv.ErrSyntax})
	direct := map[string]func(context.Context, *gabion.Dependency, *sql.DB) error{
		"exec": func(ctx context.Context, _ *gabion.Dependency, db *sql.DB) error {
			_, err := db.ExecContext(ctx, "UPDATE n")
			return err
		},
		"query": func(ctx context.Context, _ *gabion.Dependency, db *sql.DB) error {
			return db.QueryRowContext(ctx, "SELECT n").Scan(new(int))
		},
	}
	for name, call := range send {
		direct[name] = func(ctx context.Context, d *gabion.Dependency, db *sql.DB) error { return call(ctx, d, db) }
	}
	for _, c := range []struct {
		fact    string
		err     error
		invalid bool // the connection
		shape   func(*scriptedConn) driver.Conn
		opens   bool
	}{
		{"a text beside a good connection", text, false, nil, false},
		{"texts that are joined", errors.Join(text, errors.New("x")), false, nil, false},
		{"a text beside a broken connection", text, true, nil, true},
		{"a text of a driver that can't tell", text, false, func(c *scriptedConn) driver.Conn {
			return struct {
				driver.Conn
				driver.ExecerContext
				driver.QueryerContext
			}{c, c.execerContext(), c.queryerContext()}
		}, true},
		{"an error with a type", sqlError("53100"), false, nil, true},
		{"a text with an error that has a type", fmt.Errorf("read: %w", sqlError("XX000")), false, nil, true},
		{"a network error", syscall.ECONNRESET, false, nil, true},
	} {
		for name, call := range direct {
			t.Run(c.fact+", "+name, func(t *testing.T) {
				d := dependency(t, policy.Policy{Breaker: policy.Breaker{Consecutive: 1}, Bulkhead: policy.Bulkhead{Limit: 1}})
				f := &scripted{shape: c.shape, on: func(_ context.Context, op string) error {
					switch {
					case strings.HasPrefix(op, "exec2"), strings.HasPrefix(op, "query2"):
						return c.err
					case op == "valid" && c.invalid:
						return driver.ErrBadConn
					}
					return nil
				}}
				db, err := gabionsql.Open(f, d)
				if err != nil {
					t.Fatal(err)
				}
				defer db.Close()
				if err := call(t.Context(), d, db); !errors.Is(err, c.err) {
					t.Errorf("error %v", err)
				}
				if open := d.Stats().Main.Breaker.State.String() == "open"; open != c.opens {
					t.Errorf("the breaker is open: %v, want %v", open, c.opens)
				}
			})
		}
	}
	for name, call := range send {
		t.Run("an argument that database/sql can't convert, "+name, func(t *testing.T) {
			d := dependency(t, policy.Policy{Breaker: policy.Breaker{Consecutive: 1}})
			db := wrapped(t, &scripted{}, d)
			if err := call(t.Context(), d, db, make(chan int)); gabion.ReasonOf(err) != policy.NotRetryable {
				t.Errorf("error %v", err)
			}
			if got := d.Stats().Main.Breaker.State.String(); got != "closed" {
				t.Errorf("the breaker is %s", got)
			}
		})
	}
}
