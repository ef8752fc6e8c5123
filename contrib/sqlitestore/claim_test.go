package sqlitestore

import (
	"context"
	"database/sql"
	"testing"

	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/idempotency/sqlstore"
	"github.com/gabion-go/gabion/internal/testservers"
)

// A record that expires as it is written would let the work run at each call.
func TestClaimWithoutRetentionIsRefused(t *testing.T) {
	check := func(db *sql.DB, store *sqlstore.Store) func(*testing.T) {
		return func(t *testing.T) {
			s := newShop(t, db, store)
			c := claim("k")
			c.Retention = 0
			for range 2 {
				a, err := store.Do(t.Context(), c, func(ctx context.Context, tx *sql.Tx) (idempotency.Result, error) {
					_, err := tx.ExecContext(ctx, "INSERT INTO effects VALUES (1)")
					return idempotency.Result{Status: 201}, err
				})
				if err == nil {
					t.Errorf("%v", a.Decision)
				}
			}
			tx, err := db.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer tx.Rollback()
			if e, err := store.BeginTx(t.Context(), tx, c); err == nil {
				t.Errorf("in a transaction of one's own: %v", e.Decision)
			}
			tx.Rollback()
			s.wantEffects(0)
		}
	}
	t.Run("sqlite", check(openSQLite(t)))
	t.Run("postgres", check(openPostgres(t, testservers.Postgres(t))))
}
