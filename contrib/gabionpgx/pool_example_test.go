package gabionpgx_test

import (
	"context"
	"fmt"
	"log"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/contrib/gabionpgx"
	"github.com/gabion-go/gabion/policy"
)

func ExampleOpen() {
	ctx := context.Background()
	orders := gabion.New("orders", policy.Policy{Bulkhead: policy.Bulkhead{Limit: 20}})
	config, err := pgxpool.ParseConfig("postgres://127.0.0.1/orders")
	if err != nil {
		log.Fatal(err)
	}
	pool, err := gabionpgx.Open(ctx, config, orders) // with 20 connections
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()

	rows, err := pool.Query(ctx, "SELECT id FROM orders WHERE state = $1", "open", gabion.WithIdempotent())
	if err != nil {
		log.Fatal(err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[int])
	fmt.Println(ids, err)
}

func ExamplePool_BeginTx() {
	ctx := context.Background()
	var pool *gabionpgx.Pool // of Open
	tx, err := pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.Serializable})
	if err != nil {
		log.Fatal(err)
	}
	defer tx.Rollback(ctx)
	if _, err := tx.Exec(ctx, "UPDATE stock SET n = n - 1 WHERE id = $1", 7); err != nil {
		log.Fatal(err)
	}
	fmt.Println(tx.Commit(ctx))
}
