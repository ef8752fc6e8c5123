package mysqlstore

import (
	"database/sql"
	"testing"
	"time"

	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/idempotency/sqlstore"
	"github.com/gabion-go/gabion/idempotencytest"
	"github.com/gabion-go/gabion/internal/testservers"
)

func open(t testing.TB, dsn string) (*sql.DB, *sqlstore.Store) {
	t.Helper()
	db, store, err := Open(t.Context(), dsn, "records")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db, store
}

// ways are how a program's own connections may speak to the server, at an isolation level.
var ways = []struct{ name, params, level string }{
	{"as it is", "", "REPEATABLE READ"},
	{"prepared, rows found, another zone", "?interpolateParams=false&clientFoundRows=true&parseTime=true&time_zone=%27-07:00%27", "READ COMMITTED"},
}

// levels are those that a server may have for its sessions.
var levels = []string{"REPEATABLE READ", "READ COMMITTED", "SERIALIZABLE"}

// setLevel gives the sessions to come an isolation level.
func setLevel(t testing.TB, dsn, level string) {
	t.Helper()
	db, err := sql.Open("mysql", dsn)
	if err == nil {
		defer db.Close()
		_, err = db.ExecContext(t.Context(), "SET GLOBAL TRANSACTION ISOLATION LEVEL "+level)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestConformance has one server for all ways: to start one takes longer than they do.
func TestConformance(t *testing.T) {
	dsn := testservers.MariaDB(t)
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			setLevel(t, dsn, way.level)
			own := func(t testing.TB) idempotency.Store {
				db, err := sql.Open("mysql", dsn+way.params)
				if err != nil {
					t.Fatal(err)
				}
				db.SetMaxOpenConns(16)
				t.Cleanup(func() { db.Close() })
				store, err := New(db, "records")
				if err == nil {
					err = store.Migrate(t.Context())
				}
				if err != nil {
					t.Fatal(err)
				}
				return store
			}
			store, other := own(t), own(t)
			idempotencytest.Run(t, idempotencytest.Config{
				Open:  func(testing.TB) idempotency.Store { return store },
				Again: func(testing.TB, idempotency.Store, time.Duration) idempotency.Store { return other },
			})
		})
	}
}
