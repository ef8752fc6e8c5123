package gabionpgx_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/contrib/gabionpgx"
	"github.com/gabion-go/gabion/gabionsql"
	"github.com/gabion-go/gabion/internal/testservers"
	"github.com/gabion-go/gabion/policy"
)

// In the work of a RunTx only what would bypass its transaction is refused: another database is
// not that one's, through whatever library.
func TestAnotherDatabaseInTheWork(t *testing.T) {
	dsn := testservers.Postgres(t)
	here := gabion.New("here", policy.Policy{Bulkhead: policy.Bulkhead{Limit: 4}})
	there := gabion.New("there", policy.Policy{Bulkhead: policy.Bulkhead{Limit: 4}})
	pool, other := open(t, dsn, here), open(t, dsn, there)
	db := stdlib.OpenDBFromPool(other.Raw())
	t.Cleanup(func() { db.Close() })
	single := func(t *testing.T, p *pgxpool.Pool) *pgxpool.Conn {
		c, err := p.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Release)
		return c
	}
	exec := func(p *gabionpgx.Pool) func(context.Context) error {
		return func(ctx context.Context) error { _, err := p.Exec(ctx, "SELECT 1"); return err }
	}
	runTx := func(d *gabion.Dependency, p gabionpgx.Beginner) func(context.Context) error {
		return func(ctx context.Context) error {
			return gabionpgx.RunTx(ctx, d, p, func(context.Context, pgx.Tx) error { return nil })
		}
	}
	viaSQL := func(d *gabion.Dependency) func(context.Context) error {
		return func(ctx context.Context) error { _, err := gabionsql.Exec(ctx, d, db, "SELECT 1"); return err }
	}
	for _, c := range []struct {
		fact    string
		begins  func(t *testing.T) gabionpgx.Beginner
		use     func(context.Context) error
		refused bool
	}{
		{"the same pool", func(*testing.T) gabionpgx.Beginner { return pool }, exec(pool), true},
		{"what is in the same pool", func(*testing.T) gabionpgx.Beginner { return pool.Raw() }, exec(pool), true},
		{"another pool", func(*testing.T) gabionpgx.Beginner { return pool }, exec(other), false},
		{"a connection of the same pool", func(t *testing.T) gabionpgx.Beginner { return single(t, pool.Raw()) }, exec(pool), true},
		{"a connection, and another dependency", func(t *testing.T) gabionpgx.Beginner { return single(t, pool.Raw()) }, exec(other), false},
		{"a transaction of the same pool", func(*testing.T) gabionpgx.Beginner { return pool }, runTx(there, pool), true},
		{"a transaction of another pool", func(*testing.T) gabionpgx.Beginner { return pool }, runTx(there, other), false},
		{"database/sql, and another dependency", func(*testing.T) gabionpgx.Beginner { return pool }, viaSQL(there), false},
		{"database/sql, and the same dependency", func(*testing.T) gabionpgx.Beginner { return pool }, viaSQL(here), true},
	} {
		t.Run(c.fact, func(t *testing.T) {
			var got error
			err := gabionpgx.RunTx(t.Context(), here, c.begins(t), func(ctx context.Context, tx pgx.Tx) error {
				if gabionpgx.TxFrom(ctx) != tx || gabionsql.TxFrom(ctx) != (*sql.Tx)(nil) {
					t.Error("the context has another transaction")
				}
				got = c.use(ctx)
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			refused := errors.Is(got, gabionpgx.ErrInTransaction) || errors.Is(got, gabionpgx.ErrNested) || errors.Is(got, gabionsql.ErrInTransaction)
			if refused != c.refused || refused != (got != nil) {
				t.Errorf("it returned %v", got)
			}
		})
	}
}
