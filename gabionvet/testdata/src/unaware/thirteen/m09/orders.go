package m09

import (
	"context"
	"database/sql"
	"fmt"
)

type Line struct {
	SKU string
	Qty int
}

type Order struct {
	ID       int64
	Customer string
	Lines    []Line
}

type Repo struct{ db *sql.DB }

func (r *Repo) Create(ctx context.Context, o *Order) error {
	tx, err := r.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	err = tx.QueryRowContext(ctx, `INSERT INTO orders (customer) VALUES ($1) RETURNING id`, o.Customer).Scan(&o.ID)
	if err != nil {
		return fmt.Errorf("order: %w", err)
	}
	for _, l := range o.Lines {
		if err := r.reserve(ctx, o.ID, l); err != nil {
			return err
		}
	}
	return tx.Commit()
}

func (r *Repo) reserve(ctx context.Context, order int64, l Line) error {
	res, err := r.db.ExecContext(ctx, `UPDATE stock SET count = count - $1 WHERE sku = $2 AND count >= $1`, l.Qty, l.SKU)
	if err != nil {
		return err
	}
	if n, err := res.RowsAffected(); err != nil || n == 0 {
		return fmt.Errorf("order %d: not enough of %s: %v", order, l.SKU, err)
	}
	return nil
}
