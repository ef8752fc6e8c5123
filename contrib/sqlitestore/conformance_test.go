package sqlitestore

import (
	"database/sql"
	"path/filepath"
	"testing"
	"time"

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
	var file string // of the store that was opened last
	openFile := func(t testing.TB) idempotency.Store {
		db, store, err := Open(t.Context(), file, "records")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { db.Close() })
		return store
	}
	idempotencytest.Run(t, idempotencytest.Config{
		Open: func(t testing.TB) idempotency.Store {
			file = filepath.Join(t.TempDir(), "a b?.db")
			return openFile(t)
		},
		Again: func(t testing.TB, _ idempotency.Store, _ time.Duration) idempotency.Store { return openFile(t) },
	})
}

func TestPostgres(t *testing.T) {
	dsn := testservers.Postgres(t)
	_, store := openPostgres(t, dsn)
	_, other := openPostgres(t, dsn)
	idempotencytest.Run(t, idempotencytest.Config{
		Open:  func(testing.TB) idempotency.Store { return store },
		Again: func(testing.TB, idempotency.Store, time.Duration) idempotency.Store { return other },
	})
}
