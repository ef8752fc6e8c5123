package gabionsql_test

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/gabionsql"
	"github.com/gabion-go/gabion/policy"
)

// With pgx the driver's connector is stdlib.GetConnector(config).
func ExampleConnector() {
	orders := gabion.New("orders", policy.Policy{})
	db := sql.OpenDB(gabionsql.Connector(driverConnector(), orders))
	defer db.Close()

	tx, err := db.Begin()
	if err != nil {
		fmt.Println(err)
		return
	}
	tx.Exec("UPDATE stock SET n = n - 1")
	fmt.Println("slots of the transaction:", orders.Stats().Bulkhead.InUse)
	tx.Commit()
	fmt.Println("calls:", orders.Stats().Totals.Calls) // connect, begin, exec, commit
	// Output:
	// slots of the transaction: 1
	// calls: 4
}

func ExampleRaw() {
	db := sql.OpenDB(gabionsql.Connector(driverConnector(), gabion.New("orders", policy.Policy{})))
	defer db.Close()
	conn, err := db.Conn(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conn.Close()
	gabionsql.Raw(conn, func(driverConn any) error {
		_, ok := driverConn.(fullConn) // with pgx: driverConn.(*stdlib.Conn).Conn()
		fmt.Println("the driver's own connection:", ok)
		return nil
	})
	// Output: the driver's own connection: true
}

func driverConnector() *scripted { return new(scripted) }
