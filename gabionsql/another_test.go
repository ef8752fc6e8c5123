package gabionsql_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/gabionsql"
	"github.com/gabion-go/gabion/policy"
)

// In the work of a RunTx only what would bypass its transaction is refused: another database is
// not that one's.
func TestAnotherDatabaseInTheWork(t *testing.T) {
	send := map[string]func(ctx context.Context, d *gabion.Dependency, db *sql.DB, args ...any) error{
		"RunTx": func(ctx context.Context, d *gabion.Dependency, db *sql.DB, _ ...any) error {
			return gabionsql.RunTx(ctx, d, db, func(_ context.Context, tx *sql.Tx) error { _, err := tx.Exec("UPDATE"); return err })
		},
	}
	for op, f := range sendRows {
		send[op] = f
	}
	for op, send := range send {
		here, there := gabion.New("here", policy.Policy{}), gabion.New("there", policy.Policy{})
		db, other := openFake(t, new(fakeDB)), openFake(t, new(fakeDB))
		conn := func(t *testing.T) *sql.Conn {
			c, err := db.Conn(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { c.Close() })
			return c
		}
		for _, c := range []struct {
			fact    string
			conn    bool // RunTx is given a single connection
			d       *gabion.Dependency
			db      *sql.DB
			between bool // the work is that of another database's transaction in this one's
			refused bool
		}{
			{"the same database", false, here, db, false, true},
			{"the same database by another name", false, there, db, false, true},
			{"another database", false, there, other, false, false},
			{"another database of the same dependency", false, here, other, false, false},
			{"another dependency, and a single connection", true, there, other, false, false},
			{"the same dependency, and a single connection", true, here, db, false, true},
			{"the outer database in the work of another one", false, here, db, true, true},
		} {
			t.Run(op+", "+c.fact, func(t *testing.T) {
				var got error
				inner := func(ctx context.Context, tx *sql.Tx) error {
					if gabionsql.TxFrom(ctx) != tx {
						t.Error("the context has another transaction")
					}
					got = send(ctx, c.d, c.db)
					return nil
				}
				work := inner
				if c.between {
					work = func(ctx context.Context, _ *sql.Tx) error { return gabionsql.RunTx(ctx, there, other, inner) }
				}
				var begins gabionsql.Beginner = db
				if c.conn {
					begins = conn(t)
				}
				if err := gabionsql.RunTx(t.Context(), here, begins, work); err != nil {
					t.Fatal(err)
				}
				refused := errors.Is(got, gabionsql.ErrInTransaction) || errors.Is(got, gabionsql.ErrNested)
				if refused != c.refused || refused != (got != nil) {
					t.Errorf("it returned %v", got)
				}
			})
		}
	}
}

// sendRows are the verbs, with rows that are not read.
var sendRows = map[string]func(ctx context.Context, d *gabion.Dependency, db *sql.DB, args ...any) error{
	"Exec": send["exec2"],
	"Query": func(ctx context.Context, d *gabion.Dependency, db *sql.DB, args ...any) error {
		rows, err := gabionsql.Query(ctx, d, db, "SELECT n", args...)
		if err != nil {
			return err
		}
		return rows.Close()
	},
	"QueryRow": send["query2 "],
}
