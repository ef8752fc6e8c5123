package stores

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/gabion-go/gabion/contrib/mysqlstore"
	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/idempotency/sqlstore"
	"github.com/gabion-go/gabion/internal/testservers"
)

// mariadb starts a server of its own for each twin, and returns the store and what its
// table takes on disk.
func mariadb(t testing.TB) (*sql.DB, *sqlstore.Store, func() int64) {
	t.Helper()
	dsn := testservers.MariaDB(t, "innodb-flush-log-at-trx-commit=1", "max-connections=100")
	db, store, err := mysqlstore.Open(t.Context(), dsn, "records")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	db.SetMaxOpenConns(Workers)
	db.SetMaxIdleConns(Workers)
	var version string
	if err := db.QueryRowContext(t.Context(), "SELECT VERSION()").Scan(&version); err != nil {
		t.Fatal(err)
	}
	tell("MariaDB " + version)
	durable(t, store)
	return db, store, func() (n int64) {
		const text = "SELECT data_length + index_length FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = 'records'"
		if err := db.QueryRowContext(context.Background(), text).Scan(&n); err != nil {
			t.Error(err)
		}
		return n
	}
}

func makeMySQLStore(t testing.TB) contestant {
	_, store, size := mariadb(t)
	return ofStore(store, size)
}

// makeMariaDBBare writes what the store writes, into the same table, with the two
// statements that one would write by hand. Times are the client's.
func makeMariaDBBare(t testing.TB) contestant {
	db, _, size := mariadb(t)
	const insert = `INSERT IGNORE INTO records (id, rev, version, state, guarantee, token, attempt, fingerprint, owner, lease_until, created, finished, expires, retention, due)
		VALUES (?, 1, 1, 1, 0, ?, 1, ?, ?, ?, ?, 0, 0, ?, ?)`
	const update = `UPDATE records SET rev = 2, state = 3, lease_until = 0, finished = ?, expires = ?, due = ?, payload = ?
		WHERE id = ? AND rev = 1 AND token = ?`
	pair := func(ctx context.Context, id idempotency.ID, body []byte) error {
		now := time.Now().UnixNano()
		lease, expires := now+int64(time.Minute), now+int64(time.Hour)
		err := once(db.ExecContext(ctx, insert, id[:], now, id[:], id[:16], lease, now, int64(time.Hour), lease))
		if err == nil {
			err = once(db.ExecContext(ctx, update, now, expires, expires, body, id[:], now))
		}
		return err
	}
	return contestant{pair, size}
}

// once says that one row was changed.
func once(res sql.Result, err error) error {
	if err != nil {
		return err
	}
	if n, err := res.RowsAffected(); err != nil || n != 1 {
		return errors.Join(errors.New("nothing was changed"), err)
	}
	return nil
}
