package gabionpgx_test

import (
	"context"
	"database/sql/driver"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/contrib/gabionpgx"
	"github.com/gabion-go/gabion/internal/testservers"
	"github.com/gabion-go/gabion/policy"
)

// bomb is an argument that panics when it is encoded.
type bomb struct{}

func (bomb) Value() (driver.Value, error) { panic("bomb") }

// A panic in the middle of a call leaves neither a connection nor a slot behind.
func TestAPanicInACallOfAPool(t *testing.T) {
	d := gabion.New("pg", policy.Policy{Bulkhead: policy.Bulkhead{Limit: 1}})
	p := open(t, testservers.Postgres(t), d)
	for name, do := range map[string]func(context.Context){
		"exec":  func(ctx context.Context) { p.Exec(ctx, "SELECT $1::text", bomb{}) },
		"query": func(ctx context.Context) { p.Query(ctx, "SELECT $1::text", bomb{}) },
		"row":   func(ctx context.Context) { p.QueryRow(ctx, "SELECT $1::text", bomb{}).Scan(new(string)) },
		"batch": func(ctx context.Context) {
			b := new(pgx.Batch)
			b.Queue("SELECT $1::text", bomb{})
			p.SendBatch(ctx, b).Close()
		},
		"a callback of a batch": func(ctx context.Context) {
			b := new(pgx.Batch)
			b.Queue("SELECT 1").QueryRow(func(pgx.Row) error { panic("callback") })
			p.SendBatch(ctx, b).Close()
		},
		"a batch that is nil": func(ctx context.Context) { p.SendBatch(ctx, nil).Close() },
	} {
		for _, part := range []bool{false, true} {
			func() {
				defer func() {
					if recover() == nil {
						t.Errorf("%s: no panic", name)
					}
				}()
				if part {
					_ = d.Run(t.Context(), func(ctx context.Context) error { do(ctx); return nil })
				} else {
					do(t.Context())
				}
			}()
			if _, err := p.Exec(t.Context(), "SELECT 1", gabion.WithTimeout(5*time.Second)); err != nil {
				t.Fatalf("after a panic in %s, part %v: %v", name, part, err)
			}
		}
	}
}

// All that is done with the context of an attempt is part of it, so that it needs no other
// slot.
func TestPartsOfAnAttempt(t *testing.T) {
	d := gabion.New("pg", policy.Policy{Bulkhead: policy.Bulkhead{Limit: 1}})
	p := open(t, testservers.Postgres(t), d)
	if _, err := p.Exec(t.Context(), "CREATE TABLE copied (n int)"); err != nil {
		t.Fatal(err)
	}
	for name, do := range map[string]func(context.Context) error{
		"exec": func(ctx context.Context) error { _, err := p.Exec(ctx, "SELECT 1"); return err },
		"copy": func(ctx context.Context) error {
			_, err := p.CopyFrom(ctx, pgx.Identifier{"copied"}, []string{"n"}, pgx.CopyFromRows([][]any{{1}}))
			return err
		},
		"batch": func(ctx context.Context) error {
			b := new(pgx.Batch)
			b.Queue("SELECT 1")
			return p.SendBatch(ctx, b).Close()
		},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		if err := d.Run(ctx, do); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		cancel()
	}
}

// The repetition of a transaction goes to another server if the first one refuses to write.
func TestRunTxAfterAFailover(t *testing.T) {
	d := gabion.New("pg", policy.Policy{Bulkhead: policy.Bulkhead{Limit: 1}})
	p := open(t, testservers.Postgres(t), d)
	for _, text := range []string{"CREATE TABLE written (n int)", "SET default_transaction_read_only = on"} {
		if _, err := p.Exec(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
	runs := 0
	err := gabionpgx.RunTx(t.Context(), d, p, func(ctx context.Context, tx pgx.Tx) error {
		runs++
		_, err := tx.Exec(ctx, "INSERT INTO written VALUES (1)")
		return err
	})
	if err != nil || runs != 2 {
		t.Errorf("%d runs: %v", runs, err)
	}
}

// A transaction that was to be read-only and writes is no reason to change the server.
func TestAReadOnlyTransactionKeepsItsConnection(t *testing.T) {
	d := gabion.New("pg", policy.Policy{Bulkhead: policy.Bulkhead{Limit: 1}})
	p := open(t, testservers.Postgres(t), d)
	var before, after uint32
	for _, to := range []*uint32{&before, &after} {
		if err := p.QueryRow(t.Context(), "SELECT pg_backend_pid()").Scan(to); err != nil {
			t.Fatal(err)
		}
		tx, err := p.BeginTx(t.Context(), pgx.TxOptions{AccessMode: pgx.ReadOnly})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(t.Context(), "CREATE TABLE written (n int)"); err == nil {
			t.Error("it wrote")
		}
		_ = tx.Rollback(t.Context())
	}
	if before != after {
		t.Error("the connection is another one")
	}
}

// A RunTx that gets no connection has not reached the database.
func TestRunTxWithoutAConnection(t *testing.T) {
	d := guarded()
	p := open(t, testservers.Postgres(t), d)
	for range 2 {
		c, err := p.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Release()
	}
	err := gabionpgx.RunTx(t.Context(), d, p, func(context.Context, pgx.Tx) error { t.Error("it ran"); return nil })
	if gabion.ReasonOf(err) != policy.PoolExhausted {
		t.Errorf("%v", err)
	}
}
