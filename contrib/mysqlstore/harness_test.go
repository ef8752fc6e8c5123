package mysqlstore

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"log"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/idempotency/sqlstore"
	"github.com/gabion-go/gabion/internal/testshop"
)

// A shop is a database with effects to count, and a handler in guarantee tx. Its effects
// are counted by another pool than the one that makes them.
type shop struct {
	*testshop.Shop
	db      *sql.DB
	store   *sqlstore.Store
	witness *sql.DB
}

// The driver tells of each connection that breaks.
func init() { mysql.SetLogger(log.New(io.Discard, "", 0)) }

// newShop empties the database, whose servers tests share: to start one takes longer than
// they do.
func newShop(t *testing.T, dsn string) *shop {
	t.Helper()
	witness, err := sql.Open("mysql", dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { witness.Close() })
	s := &shop{witness: witness}
	exec := func(ctx context.Context, text string) error { _, err := witness.ExecContext(ctx, text); return err }
	if err := errors.Join(exec(t.Context(), "DROP TABLE IF EXISTS records, effects"), exec(t.Context(), "CREATE TABLE effects (n integer) ENGINE=InnoDB")); err != nil {
		t.Fatal(err)
	}
	s.db, s.store = open(t, dsn)
	t.Cleanup(func() {
		if n := s.db.Stats().InUse; n != 0 {
			t.Errorf("%d connections were not given back", n)
		}
	})
	s.Shop = testshop.New(t, testshop.Database{Store: s.store, Add: effect, Exec: exec, Failed: sqlstore.Failed, Count: func(ctx context.Context) (n int, err error) {
		err = witness.QueryRowContext(ctx, "SELECT count(*) FROM effects").Scan(&n)
		return n, err
	}})
	return s
}

func effect(ctx context.Context) error { return run(ctx, "INSERT INTO effects VALUES (1)") }

// run runs a statement of the work's.
func run(ctx context.Context, text string) error {
	_, err := sqlstore.TxFrom(ctx).ExecContext(ctx, text)
	return err
}

func claim(key string) idempotency.Claim {
	return idempotency.Claim{ID: idempotency.IDOf("test", key), Guarantee: idempotency.GuaranteeTx, Owner: [16]byte{1}, Retention: time.Hour}
}

func hold(key string) idempotency.Claim {
	c := claim(key)
	c.Guarantee, c.Lease = idempotency.GuaranteeHold, time.Minute
	return c
}

// number returns the number of the server's error, zero for another error.
func number(err error) uint16 {
	var e *mysql.MySQLError
	if errors.As(err, &e) {
		return e.Number
	}
	return 0
}
