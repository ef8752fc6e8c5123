package sqliteletters

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"

	"github.com/gabion-go/gabion/internal/testservers"
	"github.com/gabion-go/gabion/messages/deadletter"
	"github.com/gabion-go/gabion/messages/deadletter/deadlettertest"
	"github.com/gabion-go/gabion/messages/deadletter/sqlletters"
)

func openFile(t testing.TB, file string, o deadletter.Options) *Store {
	t.Helper()
	s, err := Open(t.Context(), file, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func TestSQLite(t *testing.T) {
	deadlettertest.Run(t, func(t testing.TB, o deadletter.Options) (deadletter.Store, func(testing.TB) deadletter.Store) {
		file := filepath.Join(t.TempDir(), "a b?.db")
		return openFile(t, file, o), func(t testing.TB) deadletter.Store { return openFile(t, file, o) }
	})
}

var tables atomic.Int64

func openPostgres(t testing.TB, dsn, table string, o deadletter.Options) (*sql.DB, *sqlletters.Store) {
	t.Helper()
	db, err := sql.Open("pgx", dsn)
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(8)
	t.Cleanup(func() { db.Close() })
	s, err := sqlletters.New(db, sqlletters.Postgres, table, o)
	if err == nil {
		err = s.Migrate(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	return db, s
}

func TestPostgres(t *testing.T) {
	dsn := testservers.Postgres(t)
	deadlettertest.Run(t, func(t testing.TB, o deadletter.Options) (deadletter.Store, func(testing.TB) deadletter.Store) {
		table := fmt.Sprint("letters", tables.Add(1))
		_, first := openPostgres(t, dsn, table, o)
		return first, func(t testing.TB) deadletter.Store {
			_, other := openPostgres(t, dsn, table, o)
			return other
		}
	})
}
