package gabionsql_test

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/gabionsql"
	"github.com/gabion-go/gabion/policy"
)

func transfer(ctx context.Context, tx *sql.Tx, from, to string, amount int) error {
	if _, err := tx.ExecContext(ctx, "UPDATE accounts SET amount = amount - $1 WHERE id = $2", amount, from); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, "UPDATE accounts SET amount = amount + $1 WHERE id = $2", amount, to)
	return err
}

// A database whose connections pass a dependency, and a transaction that is repeated as a
// whole.
func Example() {
	ctx, from, to, amount := context.Background(), "a", "b", 10
	connector := driverConnector() // with pgx stdlib.GetConnector(config)
	accounts := gabion.New("accounts", policy.Policy{Bulkhead: policy.Bulkhead{Limit: 20}})

	db, err := gabionsql.Open(connector, accounts) // of any driver of database/sql
	if err != nil {
		fmt.Println(err)
		return
	}
	defer db.Close()
	err = gabionsql.RunTx(ctx, accounts, db, func(ctx context.Context, tx *sql.Tx) error {
		return transfer(ctx, tx, from, to, amount)
	})
	fmt.Println(err)
	// Output: <nil>
}
