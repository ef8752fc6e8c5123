package gabionsql_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"testing"

	"github.com/gabion-go/gabion/gabionsql"
	"github.com/gabion-go/gabion/policy"
)

// Whatever a driver offers, a program sees the same with the wrapper and without it, and
// the driver is asked for the same.
func TestADriverIsSeenAsItIs(t *testing.T) {
	errs := map[string]error{"works": nil, "skips": driver.ErrSkip}
	for _, shapes := range [][]shape{sendShapes, otherShapes} {
		for _, s := range shapes {
			for how, err := range errs {
				t.Run(s.name+", "+how, func(t *testing.T) {
					var seen [2]string
					for i, wrap := range []func(*scripted) *sql.DB{
						func(f *scripted) *sql.DB { return sql.OpenDB(f) },
						func(f *scripted) *sql.DB { return wrapped(t, f, dependency(t, policy.Policy{})) },
					} {
						f := &scripted{shape: s.of, on: func(_ context.Context, op string) error {
							if len(op) > 5 && (op[:5] == "exec1" || op[:5] == "exec2" || op[:5] == "query") {
								return err
							}
							return nil
						}}
						db := wrap(f)
						tell := tour(db)
						db.Close()
						seen[i] = fmt.Sprintf("%s\n%s\nconnections: %d", tell, f.said(), f.conns())
					}
					if seen[0] != seen[1] {
						t.Errorf("without the wrapper:\n%s\n\nwith it:\n%s", seen[0], seen[1])
					}
				})
			}
		}
	}
}

// Statements and rows have optional interfaces, too.
func TestStatementsAndRowsAreSeenAsTheyAre(t *testing.T) {
	for sn, s := range stmtShapes {
		for rn, r := range rowsShapes {
			t.Run(sn+", "+rn, func(t *testing.T) {
				var seen [2]string
				for i, wrap := range []func(*scripted) *sql.DB{
					func(f *scripted) *sql.DB { return sql.OpenDB(f) },
					func(f *scripted) *sql.DB { return wrapped(t, f, dependency(t, policy.Policy{})) },
				} {
					f := &scripted{shape: sendShapes[0].of, stmt: s, rows: r}
					db := wrap(f)
					tell := tour(db)
					db.Close()
					seen[i] = fmt.Sprintf("%s\n%s", tell, f.said())
				}
				if seen[0] != seen[1] {
					t.Errorf("without the wrapper:\n%s\n\nwith it:\n%s", seen[0], seen[1])
				}
			})
		}
	}
}

// tour uses what database/sql has, and tells what a program sees.
func tour(db *sql.DB) (seen string) {
	ctx := context.Background()
	tell := func(what string, v any, err error) { seen += fmt.Sprintf("%s: %v %v\n", what, v, err) }
	tell("ping", nil, db.PingContext(ctx))
	for _, arg := range []any{1, "a", special("s"), sql.Named("n", 3), struct{}{}} {
		res, err := db.ExecContext(ctx, "INSERT ?", arg)
		tell(fmt.Sprintf("exec %T", arg), res != nil, err)
		rows, err := db.QueryContext(ctx, "SELECT ?", arg)
		tell(fmt.Sprintf("query %T", arg), read(rows), err)
	}
	for _, opts := range []*sql.TxOptions{nil, {ReadOnly: true}, {Isolation: sql.LevelSerializable}} {
		tx, err := db.BeginTx(ctx, opts)
		tell("begin", nil, err)
		if err == nil {
			_, err = tx.Exec("UPDATE")
			tell("in it", nil, err)
			tell("commit", nil, tx.Commit())
		}
	}
	stmt, err := db.PrepareContext(ctx, "INSERT ? ?")
	tell("prepare", nil, err)
	for _, args := range [][]any{{1, 2}, {1}, {special("x"), "y"}, {int64(1) << 40, 1}, {nil, 1}, {sql.Named("n", 1), 2}} {
		_, err := stmt.Exec(args...)
		tell("statement exec", nil, err)
		rows, err := stmt.Query(args...)
		tell("statement query", read(rows), err)
	}
	stmt.Close()
	canceled, cancel := context.WithCancel(ctx)
	cancel()
	_, err = db.ExecContext(canceled, "LATE")
	tell("canceled", nil, err)
	conn, err := db.Conn(ctx)
	tell("conn", nil, err)
	tell("raw", nil, gabionsql.Raw(conn, func(c any) error {
		seen += fmt.Sprintf("raw is %T\n", c)
		return nil
	}))
	conn.Close()
	return seen
}

func read(rows *sql.Rows) (all string) {
	if rows == nil {
		return "no rows"
	}
	defer rows.Close()
	types, err := rows.ColumnTypes()
	for _, c := range types {
		length, hasLength := c.Length()
		null, hasNull := c.Nullable()
		p, s, hasScale := c.DecimalSize()
		all += fmt.Sprint(c.Name(), c.DatabaseTypeName(), c.ScanType(), length, hasLength, null, hasNull, p, s, hasScale, err)
	}
	for again := true; again; again = rows.NextResultSet() {
		for rows.Next() {
			var n any
			err := rows.Scan(&n)
			all += fmt.Sprint(" ", n, err)
		}
	}
	return all + fmt.Sprint(" ", rows.Err(), errors.Is(rows.Err(), sql.ErrNoRows))
}
