package sql

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/gabionsql"
	"github.com/gabion-go/gabion/gabiontest"
	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/idempotency/sqlstore"
	"github.com/gabion-go/gabion/internal/testservers"
	"github.com/gabion-go/gabion/policy"
)

// On each database that has a store a key's transaction happens once, and everybody gets
// its result.
func TestRecordOnEachDatabase(t *testing.T) {
	gabiontest.NoLeaks(t)
	for _, c := range []struct {
		name    string
		driver  string
		dsn     func(*testing.T) string
		dialect sqlstore.Dialect
	}{
		{"PostgreSQL", "pgx", func(t *testing.T) string { return testservers.Postgres(t) }, sqlstore.Postgres},
		{"MariaDB", "mysql", func(t *testing.T) string { return testservers.MariaDB(t) }, sqlstore.MySQL},
		{"SQLite", "sqlite", func(t *testing.T) string {
			return "file:" + filepath.Join(t.TempDir(), "db") + "?_pragma=journal_mode(WAL)&_pragma=busy_timeout(100)"
		}, sqlstore.SQLite},
	} {
		t.Run(c.name, func(t *testing.T) {
			db := open(t, c.driver, c.dsn(t), 8)
			execute(t, db, "CREATE TABLE effects (k varchar(40))")
			store, err := sqlstore.New(db, c.dialect, "records")
			if err == nil {
				err = store.Migrate(t.Context())
			}
			if err != nil {
				t.Fatal(err)
			}
			recordedOnce(t, db, store)
		})
	}
}

func recordedOnce(t *testing.T, db *sql.DB, store *sqlstore.Store) {
	d := patient()
	record := func(key string) *gabionsql.Once {
		return &gabionsql.Once{Store: store, ID: idempotency.IDOf("", key), Retention: time.Hour}
	}
	var first atomic.Int64
	clients(8, func(client int) {
		r := record("k")
		if err := gabionsql.RunTx(t.Context(), d, db, func(ctx context.Context, tx *sql.Tx) error {
			r.Result = idempotency.Result{Body: []byte("made")}
			return insert("k")(ctx, tx)
		}, gabionsql.WithOnce(r)); err != nil || string(r.Result.Body) != "made" {
			t.Errorf("%q: %v", r.Result.Body, err)
		}
		if !r.Replayed {
			first.Add(1)
		}
	})
	if n := count(t, db, "SELECT count(*) FROM effects"); n != 1 || first.Load() != 1 {
		t.Errorf("%d effects, %d first ones", n, first.Load())
	}
	other := record("k")
	other.Fingerprint[0] = 1
	unasked := func(context.Context, *sql.Tx) error { t.Error("it ran"); return nil }
	if err := gabionsql.RunTx(t.Context(), d, db, unasked, gabionsql.WithOnce(other)); !errors.Is(err, gabionsql.ErrMismatch) || said(err) != nothing {
		t.Errorf("another request with the key: %v", err)
	}
	poor := errors.New("not enough money")
	if err := gabionsql.RunTx(t.Context(), d, db, func(ctx context.Context, tx *sql.Tx) error {
		return errors.Join(insert("poor")(ctx, tx), poor)
	}, gabionsql.WithOnce(record("poor"))); !errors.Is(err, poor) || said(err) != nothing {
		t.Errorf("an error of the work's: %v", err)
	}
	if err := gabionsql.RunTx(t.Context(), d, db, insert("poor"), gabionsql.WithOnce(record("poor"))); err != nil {
		t.Errorf("after an error of the work's: %v", err)
	}
	if n := count(t, db, "SELECT count(*) FROM effects WHERE k = 'poor'"); n != 1 {
		t.Errorf("%d effects", n)
	}
}

// Another transaction has the key all the time: what it does is not known.
func TestKeyInProgress(t *testing.T) {
	gabiontest.NoLeaks(t)
	db := open(t, "pgx", testservers.Postgres(t), 4)
	store, err := sqlstore.New(db, sqlstore.Postgres, "records")
	if err == nil {
		err = store.Migrate(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	d := gabion.New("db", policy.Policy{Retry: policy.Retry{Attempts: 2, Contention: policy.ContentionRetry{Attempts: 2}}})
	record := func() gabionsql.TxOption {
		return gabionsql.WithOnce(&gabionsql.Once{Store: store, ID: idempotency.IDOf("", "k"), Retention: time.Hour})
	}
	err = gabionsql.RunTx(t.Context(), d, db, func(context.Context, *sql.Tx) error {
		err := gabionsql.RunTx(t.Context(), d, db, func(context.Context, *sql.Tx) error { t.Error("it ran"); return nil }, record())
		if !errors.Is(err, gabionsql.ErrInProgress) || said(err) != unknown {
			t.Errorf("%v", err)
		}
		return nil
	}, record())
	if err != nil {
		t.Error(err)
	}
}

// A work that ends its transaction by a text is found out by its record, whatever the driver.
func TestRecordFindsOutWorkThatCommits(t *testing.T) {
	gabiontest.NoLeaks(t)
	db := open(t, "pgx", testservers.Postgres(t), 4)
	execute(t, db, "CREATE TABLE effects (k text)")
	store, err := sqlstore.New(db, sqlstore.Postgres, "records")
	if err == nil {
		err = store.Migrate(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	runs := 0
	err = gabionsql.RunTx(t.Context(), patient(), db, func(ctx context.Context, tx *sql.Tx) error {
		runs++
		err := insert("x")(ctx, tx)
		for _, text := range []string{"COMMIT", "BEGIN"} {
			if err == nil {
				_, err = tx.ExecContext(ctx, text)
			}
		}
		return err
	}, gabionsql.WithOnce(&gabionsql.Once{Store: store, ID: idempotency.IDOf("", "k"), Retention: time.Hour}))
	if n := count(t, db, "SELECT count(*) FROM effects"); runs != 1 || n != 1 || !errors.Is(err, gabionsql.ErrEnded) || said(err) != unknown {
		t.Errorf("%d runs, %d effects: %v", runs, n, err)
	}
}
