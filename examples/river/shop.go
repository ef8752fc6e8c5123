package main

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/gabion-go/gabion"
)

// prepare makes River's tables and an empty shop.
func prepare(ctx context.Context, pool *pgxpool.Pool) error {
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), nil)
	if err != nil {
		return err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return err
	}
	_, err = pool.Exec(ctx, `DROP TABLE IF EXISTS shop_orders;
		CREATE TABLE shop_orders (name text PRIMARY KEY, cents bigint NOT NULL, paid boolean NOT NULL DEFAULT false)`)
	return err
}

// place writes an order and the job that charges it: both or neither.
func place(ctx context.Context, pool *pgxpool.Pool, jobs *river.Client[pgx.Tx], order string, cents int) (id int64, err error) {
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		inserted, err := jobs.InsertTx(ctx, tx, Charge{Order: order, Cents: cents, Key: gabion.NewKey()}, nil)
		if err != nil {
			return err
		}
		id = inserted.Job.ID
		_, err = tx.Exec(ctx, "INSERT INTO shop_orders (name, cents) VALUES ($1, $2)", order, cents)
		return err
	})
	return id, err
}
