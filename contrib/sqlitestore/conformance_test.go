package sqlitestore

import (
	"database/sql"
	"path/filepath"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"

	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/idempotency/sqlstore"
	"github.com/gabion-go/gabion/idempotencytest"
	"github.com/gabion-go/gabion/internal/testservers"
)

func openSQLite(t testing.TB) (*sql.DB, *sqlstore.Store) {
	t.Helper()
	db, store, err := Open(t.Context(), filepath.Join(t.TempDir(), "a b?.db"), "records")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db, store
}

func openPostgres(t testing.TB, dsn string) (*sql.DB, *sqlstore.Store) {
	t.Helper()
	db, err := sql.Open("pgx", dsn)
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(16)
	t.Cleanup(func() { db.Close() })
	store, err := sqlstore.New(db, sqlstore.Postgres, "records")
	if err == nil {
		err = store.Migrate(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	return db, store
}

func TestSQLite(t *testing.T) {
	idempotencytest.Run(t, func(t testing.TB) idempotency.Store {
		_, store := openSQLite(t)
		return store
	})
}

func TestPostgres(t *testing.T) {
	_, store := openPostgres(t, testservers.Postgres(t))
	idempotencytest.Run(t, func(testing.TB) idempotency.Store { return store })
}
