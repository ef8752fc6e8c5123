package bench

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/cockroachdb/cockroach-go/v2/crdb"
	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/gabionsql"
	"github.com/gabion-go/gabion/internal/testservers"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
)

// rowsOf is how many rows the table has: one for each goroutine, so that no two
// transactions meet.
const rowsOf = 256

// aDatabase is a PostgreSQL server that all entries of a contest use.
type aDatabase struct{ dsn string }

// prepare starts the server.
func (d *aDatabase) prepare(t testing.TB) {
	d.dsn = testservers.Postgres(t)
	db := d.open(t, nil)
	if _, err := db.Exec("CREATE TABLE accounts (id int PRIMARY KEY, cents bigint NOT NULL)"); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec("INSERT INTO accounts SELECT id, 0 FROM generate_series(0, $1) id", rowsOf-1); err != nil {
		t.Fatal(err)
	}
}

// open returns a pool whose calls pass a dependency, if that is not nil.
func (d *aDatabase) open(t testing.TB, through *gabion.Dependency) *sql.DB {
	conf, err := pgx.ParseConfig(d.dsn)
	if err != nil {
		t.Fatal(err)
	}
	c := stdlib.GetConnector(*conf)
	if through != nil {
		c = gabionsql.Connector(c, through)
	}
	db := sql.OpenDB(c)
	db.SetMaxOpenConns(slots)
	db.SetMaxIdleConns(slots)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func databases() []*Contest {
	query, tx := new(aDatabase), new(aDatabase)
	return []*Contest{
		{
			Name: "sql-query", Title: "A point query of PostgreSQL", Runs: 1, Headline: true, CPU: true, Prepare: query.prepare,
			About:   "SELECT of one row by its key over loopback, through pgx's driver for database/sql with its prepared statements. Every caller's context has a deadline.",
			Floor:   "bare",
			Modes:   []Mode{{"1", 1}, {"16", 16}},
			Entries: queryEntries(query),
		},
		{
			Name: "sql-tx", Title: "A transaction of PostgreSQL without conflict", Runs: 1, Headline: true, CPU: true, Prepare: tx.prepare,
			About:   "BEGIN, UPDATE of one row by its key, COMMIT, the same way; the server does not wait for its disk. No two goroutines change the same row.",
			Floor:   "bare",
			Modes:   []Mode{{"1", 1}, {"16", 16}},
			Entries: txEntries(tx),
		},
	}
}

const (
	selectText = "SELECT cents FROM accounts WHERE id = $1"
	updateText = "UPDATE accounts SET cents = cents + 1 WHERE id = $1"
)

// A query reads the cents of an account.
type query func(ctx context.Context, d *gabion.Dependency, db *sql.DB, id uint32) (cents int64, err error)

func queryEntries(on *aDatabase) []Entry {
	entry := func(name string, kind Kind, note string, wrapped bool, do query) Entry {
		return on.entry(name, kind, note, wrapped, func(ctx context.Context, d *gabion.Dependency, db *sql.DB, w *Worker) error {
			cents, err := do(ctx, d, db, w.ID%rowsOf)
			w.Ran++
			if err == nil && cents != 0 {
				err = errWrong
			}
			return err
		})
	}
	alone := func(ctx context.Context, _ *gabion.Dependency, db *sql.DB, id uint32) (cents int64, err error) {
		err = db.QueryRowContext(ctx, selectText, id).Scan(&cents)
		return cents, err
	}
	return []Entry{
		entry("bare", Floor, "database/sql alone", false, alone),
		entry("gabion", Gabion, "gabionsql.Connector", true, alone),
		entry("gabion-do", Gabion, "gabion.Do around database/sql", false, func(ctx context.Context, d *gabion.Dependency, db *sql.DB, id uint32) (int64, error) {
			return gabion.Do(ctx, d, func(ctx context.Context) (cents int64, err error) {
				err = db.QueryRowContext(ctx, selectText, id).Scan(&cents)
				return cents, err
			})
		}),
	}
}

var errWrong = errors.New("that is not what the row has")

func txEntries(on *aDatabase) []Entry {
	update := func(ctx context.Context, tx *sql.Tx, w *Worker) error {
		w.Ran++
		_, err := tx.ExecContext(ctx, updateText, w.ID%rowsOf)
		return err
	}
	return []Entry{
		on.entry("bare", Floor, "BeginTx, ExecContext, Commit", false, func(ctx context.Context, _ *gabion.Dependency, db *sql.DB, w *Worker) error {
			tx, err := db.BeginTx(ctx, nil)
			if err != nil {
				return err
			}
			if err := update(ctx, tx, w); err != nil {
				return errors.Join(err, tx.Rollback())
			}
			return tx.Commit()
		}),
		on.entry("gabion", Gabion, "gabionsql.RunTx", false, func(ctx context.Context, d *gabion.Dependency, db *sql.DB, w *Worker) error {
			return gabionsql.RunTx(ctx, d, db, func(ctx context.Context, tx *sql.Tx) error { return update(ctx, tx, w) })
		}),
		on.entry("gabion-connector", Gabion, "the same on a gabionsql.Connector", true, func(ctx context.Context, d *gabion.Dependency, db *sql.DB, w *Worker) error {
			return gabionsql.RunTx(ctx, d, db, func(ctx context.Context, tx *sql.Tx) error { return update(ctx, tx, w) })
		}),
		on.entry("crdb", Peer, "crdb.ExecuteTx, which sets savepoints for CockroachDB", false, func(ctx context.Context, _ *gabion.Dependency, db *sql.DB, w *Worker) error {
			return crdb.ExecuteTx(ctx, db, nil, func(tx *sql.Tx) error { return update(ctx, tx, w) })
		}),
	}
}

// entry makes an entry whose calls go to a pool of its own.
func (d *aDatabase) entry(name string, kind Kind, note string, wrapped bool, do func(context.Context, *gabion.Dependency, *sql.DB, *Worker) error) Entry {
	return Entry{Name: name, Kind: kind, Note: note, Start: func(r *Run) func(*Worker) func() bool {
		dep := gabion.New("db", whole())
		var through *gabion.Dependency
		if wrapped {
			through = dep
		}
		db := d.open(r, through)
		return func(w *Worker) func() bool {
			return func() bool {
				ctx, cancel := context.WithTimeout(context.Background(), limit)
				defer cancel()
				err := do(ctx, dep, db, w)
				if err != nil {
					r.Error(err)
				}
				return err == nil
			}
		}
	}}
}
