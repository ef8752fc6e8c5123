package gabionsql_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"runtime"
	"strings"
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
