package gabionpgx_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/contrib/gabionpgx"
	"github.com/gabion-go/gabion/internal/testservers"
	"github.com/gabion-go/gabion/policy"
)

// lost returns a Pool whose server does not listen.
func lost(t testing.TB) *gabionpgx.Pool {
	t.Helper()
	d := gabion.New("pg", policy.Policy{Bulkhead: policy.Bulkhead{Limit: 2}, Retry: policy.Retry{Attempts: 1}})
	return open(t, "postgres://127.0.0.1:1/none?connect_timeout=2", d)
}

// readers are the ways to read rows that pgx offers, each without a look at Query's own error.
var readers = map[string]func(pgx.Rows) error{
	"CollectRows":          func(r pgx.Rows) error { _, err := pgx.CollectRows(r, pgx.RowTo[int]); return err },
	"CollectOneRow":        func(r pgx.Rows) error { _, err := pgx.CollectOneRow(r, pgx.RowTo[int]); return err },
	"CollectExactlyOneRow": func(r pgx.Rows) error { _, err := pgx.CollectExactlyOneRow(r, pgx.RowTo[int]); return err },
	"AppendRows":           func(r pgx.Rows) error { _, err := pgx.AppendRows([]int{1}, r, pgx.RowTo[int]); return err },
	"ForEachRow": func(r pgx.Rows) error {
		_, err := pgx.ForEachRow(r, []any{new(int)}, func() error { return nil })
		return err
	},
	"RowToStructByName": func(r pgx.Rows) error {
		_, err := pgx.CollectRows(r, pgx.RowToStructByName[struct{ N int }])
		return err
	},
}

// The idiom that pgx documents leaves out the error of Query: the rows tell it, whatever the
// reason, and through every reader.
func TestRowsCarryTheErrorOfQuery(t *testing.T) {
	dsn := testservers.Postgres(t)
	refused := func(t *testing.T) *gabionpgx.Pool {
		d := guarded()
		b, _ := d.Breaker("")
		b.ForceOpen(time.Hour)
		return open(t, dsn, d)
	}
	begun := func(t *testing.T, p *gabionpgx.Pool) pgx.Tx {
		tx, err := p.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { tx.Rollback(context.Background()) })
		return tx
	}
	for fact, query := range map[string]func(t *testing.T) (pgx.Rows, error){
		"a server that is away": func(t *testing.T) (pgx.Rows, error) { return lost(t).Query(t.Context(), "SELECT 1") },
		"an open breaker":       func(t *testing.T) (pgx.Rows, error) { return refused(t).Query(t.Context(), "SELECT 1") },
		"a taken pool": func(t *testing.T) (pgx.Rows, error) {
			p := open(t, dsn, gabion.New("pg", policy.Policy{Bulkhead: policy.Bulkhead{Limit: 2}})) // which gives a busy machine time to connect
			for range 2 {
				c, err := p.Acquire(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(c.Release)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			t.Cleanup(cancel)
			return p.Query(ctx, "SELECT 1")
		},
		"an answer of no": func(t *testing.T) (pgx.Rows, error) {
			return open(t, dsn, guarded()).Query(t.Context(), "SELECT 1/0")
		},
		"a context that has ended": func(t *testing.T) (pgx.Rows, error) {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			return open(t, dsn, guarded()).Query(ctx, "SELECT 1")
		},
		"an argument behind an option": func(t *testing.T) (pgx.Rows, error) {
			return open(t, dsn, guarded()).Query(t.Context(), "SELECT $1", gabion.WithIdempotent(), 1)
		},
		"a part of an attempt": func(t *testing.T) (r pgx.Rows, err error) {
			d := guarded()
			p := open(t, dsn, d)
			_ = d.Run(t.Context(), func(ctx context.Context) error { r, err = p.Query(ctx, "SELECT 1/0"); return nil })
			return r, err
		},
		"a statement of a transaction": func(t *testing.T) (pgx.Rows, error) {
			return begun(t, open(t, dsn, guarded())).Query(t.Context(), "SELECT 1/0")
		},
		"a transaction that is over": func(t *testing.T) (pgx.Rows, error) {
			tx := begun(t, open(t, dsn, guarded()))
			if err := tx.Rollback(t.Context()); err != nil {
				t.Fatal(err)
			}
			return tx.Query(t.Context(), "SELECT 1")
		},
		"a transaction of RunTx": func(t *testing.T) (r pgx.Rows, err error) {
			d := guarded()
			_ = gabionpgx.RunTx(t.Context(), d, open(t, dsn, d), func(ctx context.Context, tx pgx.Tx) error {
				r, err = tx.Query(ctx, "SELECT 1/0")
				return err
			})
			return r, err
		},
		"a batch that was not sent": func(t *testing.T) (pgx.Rows, error) {
			return lost(t).SendBatch(t.Context(), new(pgx.Batch)).Query()
		},
		"a batch that is refused": func(t *testing.T) (pgx.Rows, error) {
			return refused(t).SendBatch(t.Context(), new(pgx.Batch)).Query()
		},
		"a batch whose statement fails": func(t *testing.T) (pgx.Rows, error) {
			b := new(pgx.Batch)
			b.Queue("SELECT 1/0")
			results := open(t, dsn, guarded()).SendBatch(t.Context(), b)
			t.Cleanup(func() { results.Close() })
			return results.Query()
		},
	} {
		t.Run(fact, func(t *testing.T) {
			r, want := query(t)
			if want == nil || r == nil {
				t.Fatalf("rows %v, error %v", r, want)
			}
			for name, read := range readers {
				if err := read(r); !errors.Is(err, want) {
					t.Errorf("%s: %v, and Query says %v", name, err, want)
				}
			}
		})
	}
}

// What else returns something beside an error does as pgxpool does.
func TestWhatIsReturnedBesideAnError(t *testing.T) {
	p := lost(t)
	config, err := pgxpool.ParseConfig("postgres://127.0.0.1:1/none?connect_timeout=2")
	if err != nil {
		t.Fatal(err)
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	type database interface {
		Query(context.Context, string, ...any) (pgx.Rows, error)
		QueryRow(context.Context, string, ...any) pgx.Row
		SendBatch(context.Context, *pgx.Batch) pgx.BatchResults
		CopyFrom(context.Context, pgx.Identifier, []string, pgx.CopyFromSource) (int64, error)
		Begin(context.Context) (pgx.Tx, error)
		Acquire(context.Context) (*pgxpool.Conn, error)
	}
	for name, db := range map[string]database{"pgxpool": pool, "gabionpgx": p} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			if err := db.QueryRow(ctx, "SELECT 1").Scan(new(int)); err == nil {
				t.Error("QueryRow has no error")
			}
			b := new(pgx.Batch)
			called := false
			b.Queue("SELECT 1").QueryRow(func(pgx.Row) error { called = true; return nil })
			results := db.SendBatch(ctx, b)
			_, err := results.Exec()
			if err == nil || results.QueryRow().Scan(new(int)) == nil || results.Close() == nil || results.Close() == nil || called {
				t.Errorf("the batch: %v, its callback ran: %v", err, called)
			}
			rows, err := db.Query(ctx, "SELECT 1")
			_, values := rows.Values()
			if err == nil || rows.Next() || !errors.Is(rows.Err(), err) || !errors.Is(rows.Scan(new(int)), err) || !errors.Is(values, err) {
				t.Errorf("the rows: %v, %v, %v", err, rows.Err(), values)
			}
			if rows.Close(); rows.RawValues() != nil || rows.FieldDescriptions() != nil || rows.Conn() != nil || rows.TypeMap() != nil || rows.CommandTag().String() != "" {
				t.Error("the rows have something beside the error")
			}
			if n, err := db.CopyFrom(ctx, pgx.Identifier{"t"}, []string{"n"}, pgx.CopyFromRows(nil)); n != 0 || err == nil {
				t.Errorf("the copy: %d, %v", n, err)
			}
			if tx, err := db.Begin(ctx); tx != nil || err == nil {
				t.Errorf("the transaction: %v, %v", tx, err)
			}
			if c, err := db.Acquire(ctx); c != nil || err == nil {
				t.Errorf("the connection: %v, %v", c, err)
			}
		})
	}
}
