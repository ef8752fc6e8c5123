package pgxstore

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/internal/testshop"
)

// connect returns a pool that is gone with the test, together with its goroutines.
func connect(t testing.TB, dsn string, conns int32, params ...string) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	config.MaxConns = conns
	for i := 0; i < len(params); i += 2 {
		config.ConnConfig.RuntimeParams[params[i]] = params[i+1]
	}
	return connectTo(t, config)
}

func connectTo(t testing.TB, config *pgxpool.Config) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for limit := time.Now().Add(30 * time.Second); pool.Stat().AcquiredConns() != 0 && !t.Failed(); time.Sleep(time.Millisecond) {
			if time.Now().After(limit) { // a broken one is closed on a goroutine of the pool's
				t.Errorf("%d connections were not given back", pool.Stat().AcquiredConns())
			}
		}
		pool.Close()
	})
	return pool
}

func open(t testing.TB, pool *pgxpool.Pool, table string) *Store {
	t.Helper()
	store, err := New(pool, table)
	if err == nil {
		err = store.Migrate(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func claimOf(key string) idempotency.Claim {
	return idempotency.Claim{ID: idempotency.IDOf("test", key), Guarantee: idempotency.GuaranteeTx, Owner: [16]byte{1}, Lease: time.Minute, Retention: time.Hour}
}

// A shop is a store with effects to count, and a handler in guarantee tx. Its effects
// are counted by another pool than the one that makes them.
type shop struct {
	*testshop.Shop
	store   *Store
	witness *pgxpool.Pool
}

func newShop(t *testing.T, witness *pgxpool.Pool, store *Store) *shop {
	t.Helper()
	s := &shop{store: store, witness: witness}
	s.Shop = testshop.New(t, testshop.Database{
		Store: store, Wait: 20 * time.Second,
		Add:  func(ctx context.Context) error { return add(ctx, TxFrom(ctx)) },
		Exec: func(ctx context.Context, text string) error { _, err := witness.Exec(ctx, text); return err },
		Count: func(ctx context.Context) (n int, err error) {
			err = witness.QueryRow(ctx, "SELECT count(*) FROM effects").Scan(&n)
			return n, err
		},
	})
	s.Exec("DROP TABLE IF EXISTS effects")
	s.Exec("CREATE TABLE effects (key text)")
	return s
}

func add(ctx context.Context, tx pgx.Tx) error {
	_, err := tx.Exec(ctx, "INSERT INTO effects VALUES ('x')")
	return err
}
