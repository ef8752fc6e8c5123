package mysqlstore

import (
	"context"
	"strings"
	"testing"

	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/idempotency/sqlstore"
	"github.com/gabion-go/gabion/internal/testservers"
	"github.com/gabion-go/gabion/internal/testsplit"
)

// H: the network between service and database fails.
func TestPartitions(t *testing.T) {
	server := testservers.StartMariaDB(t, "max-connections=200")
	witness, _ := open(t, server.DSN)
	if _, err := witness.ExecContext(t.Context(), "CREATE TABLE effects (name varchar(40)) ENGINE=InnoDB"); err != nil {
		t.Fatal(err)
	}
	testsplit.Run(t, testsplit.Service{
		Addr: server.Addr,
		Open: func(t *testing.T, addr string) idempotency.TxStore {
			db, store := open(t, strings.Replace(server.DSN, server.Addr, addr, 1))
			db.SetMaxOpenConns(4)
			t.Cleanup(func() {
				if n := db.Stats().InUse; n != 0 {
					t.Errorf("%d connections were not given back", n)
				}
			})
			return store
		},
		Effect: func(ctx context.Context, key string) (err error) {
			const text = "INSERT INTO effects VALUES (?)"
			if tx := sqlstore.TxFrom(ctx); tx != nil {
				_, err = tx.ExecContext(ctx, text, key)
				sqlstore.Failed(ctx, err)
				return err
			}
			_, err = witness.ExecContext(context.WithoutCancel(ctx), text, key)
			return err
		},
		Count: func(ctx context.Context, key string) (n int, err error) {
			err = witness.QueryRowContext(ctx, "SELECT count(*) FROM effects WHERE name = ?", key).Scan(&n)
			return n, err
		},
	})
}
