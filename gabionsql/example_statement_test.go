package gabionsql_test

import (
	"context"
	"fmt"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/gabionsql"
	"github.com/gabion-go/gabion/policy"
)

func ExampleOpen() {
	orders := gabion.New("orders", policy.Policy{Bulkhead: policy.Bulkhead{Limit: 20}})
	db, err := gabionsql.Open(driverConnector(), orders)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer db.Close()
	fmt.Println("connections:", db.Stats().MaxOpenConnections)
	// Output: connections: 20
}

func ExampleCheckPool() {
	orders := gabion.New("orders", policy.Policy{Bulkhead: policy.Bulkhead{Limit: 20}})
	db, err := gabionsql.Open(driverConnector(), orders)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer db.Close()
	db.SetMaxOpenConns(5)
	fmt.Println(gabionsql.CheckPool(db, orders) != nil)
	// Output: true
}

func ExampleQuery() {
	ctx := context.Background()
	orders := gabion.New("orders", policy.Policy{})
	db, _ := gabionsql.Open(driverConnector(), orders)
	defer db.Close()

	rows, err := gabionsql.Query(ctx, orders, db, "SELECT n FROM stock WHERE shop = $1", 7, gabion.WithIdempotent())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer rows.Close()
	for rows.Next() {
		var n int
		rows.Scan(&n)
		fmt.Println(n)
	}
	fmt.Println(rows.Err())
	// Output:
	// 3
	// 2
	// 1
	// <nil>
}

func ExampleExec() {
	orders := gabion.New("orders", policy.Policy{})
	db, _ := gabionsql.Open(driverConnector(), orders)
	defer db.Close()

	// The same value twice is the same as once, so it is safe to repeat.
	res, err := gabionsql.Exec(context.Background(), orders, db, "UPDATE orders SET state = $1 WHERE id = $2", "paid", 7, gabion.WithIdempotent())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(res.RowsAffected())
	// Output: 1 <nil>
}

func ExampleQueryRow() {
	orders := gabion.New("orders", policy.Policy{})
	db, _ := gabionsql.Open(driverConnector(), orders)
	defer db.Close()

	var n int
	err := gabionsql.QueryRow(context.Background(), orders, db, "SELECT n FROM stock", gabion.WithIdempotent()).Scan(&n)
	fmt.Println(n, err)
	// Output: 3 <nil>
}
