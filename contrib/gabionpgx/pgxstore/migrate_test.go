package pgxstore

import (
	"fmt"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/stdlib"

	"github.com/gabion-go/gabion/idempotency/sqlstore"
	"github.com/gabion-go/gabion/internal/testservers"
)

// Servers that start together create the table together.
func TestManyServersMigrateAtOnce(t *testing.T) {
	dsn := testservers.Postgres(t)
	pool := connect(t, dsn, 16)
	db := stdlib.OpenDBFromPool(connect(t, dsn, 16))
	t.Cleanup(func() { db.Close() })
	for round := range 5 {
		table := fmt.Sprintf("together_%d", round)
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				store, err := New(pool, table)
				if err == nil {
					err = store.Migrate(t.Context())
				}
				if err != nil {
					t.Errorf("pgxstore: %v", err)
				}
			})
			all.Go(func() {
				store, err := sqlstore.New(db, sqlstore.Postgres, table)
				if err == nil {
					err = store.Migrate(t.Context())
				}
				if err != nil {
					t.Errorf("sqlstore: %v", err)
				}
			})
		}
		all.Wait()
	}
}
