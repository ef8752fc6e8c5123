package gabionsql_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/gabionsql"
	"github.com/gabion-go/gabion/policy"
)

// The whole transfer runs again if the database could not serialize it with another one.
func ExampleRunTx() {
	db := sql.OpenDB(new(fakeDB)) // a real program: sql.Open
	defer db.Close()
	accounts := gabion.New("accounts", policy.Policy{})
	runs := 0
	err := gabionsql.RunTx(context.Background(), accounts, db, func(ctx context.Context, tx *sql.Tx) error {
		runs++
		if _, err := tx.ExecContext(ctx, "UPDATE accounts SET amount = amount - 10 WHERE id = $1", "a"); err != nil {
			return err
		}
		if runs == 1 {
			return sqlState("40001") // what the database says of a conflict
		}
		_, err := tx.ExecContext(ctx, "UPDATE accounts SET amount = amount + 10 WHERE id = $1", "b")
		return err
	}, gabionsql.WithTxOptions(sql.TxOptions{Isolation: sql.LevelSerializable}))
	switch {
	case errors.Is(err, gabionsql.ErrCommitUnknown):
		fmt.Println("look whether it was done")
	case err != nil:
		fmt.Println("nothing was done:", err)
	default:
		fmt.Println("done after", runs, "runs")
	}
	// Output: done after 2 runs
}

func ExampleTxFrom() {
	db := sql.OpenDB(new(fakeDB))
	defer db.Close()
	withdraw := func(ctx context.Context) error { // from the account, in whatever transaction there is
		_, err := gabionsql.TxFrom(ctx).ExecContext(ctx, "UPDATE accounts SET amount = amount - 10")
		return err
	}
	err := gabionsql.RunTx(context.Background(), gabion.New("accounts", policy.Policy{}), db,
		func(ctx context.Context, _ *sql.Tx) error { return withdraw(ctx) })
	fmt.Println(err)
	// Output: <nil>
}
