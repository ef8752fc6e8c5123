package m09

import (
	"context"
	"database/sql"
	"fmt"
	"time"
)

type orderLine struct {
	SKU string
	Qty int
}

type rowQuerier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

type orderStore struct{ db *sql.DB }

func newOrderStore(db *sql.DB) *orderStore {
	db.SetMaxOpenConns(8)
	db.SetConnMaxLifetime(30 * time.Minute)
	return &orderStore{db: db}
}

func (s *orderStore) Place(ctx context.Context, id string, lines []orderLine) error {
	return s.withTx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, `INSERT INTO orders (id) VALUES ($1)`, id); err != nil {
			return err
		}
		for _, l := range lines {
			// WRONG: inside the transaction a second connection of the same pool is needed; eight orders at once hold all eight and wait for a ninth: none goes on until the deadline kills them all
			cents, err := s.price(ctx, s.db, l.SKU)
			if err != nil {
				return err
			}
			if err := insertLine(ctx, tx, id, l, cents); err != nil {
				return err
			}
		}
		return nil
	})
}

// RIGHT
func (s *orderStore) PlaceInTx(ctx context.Context, id string, lines []orderLine) error {
	return s.withTx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, `INSERT INTO orders (id) VALUES ($1)`, id); err != nil {
			return err
		}
		for _, l := range lines {
			cents, err := s.price(ctx, tx, l.SKU)
			if err != nil {
				return err
			}
			if err := insertLine(ctx, tx, id, l, cents); err != nil {
				return err
			}
		}
		return nil
	})
}

func insertLine(ctx context.Context, tx *sql.Tx, id string, l orderLine, cents int64) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO order_lines (order_id, sku, qty, cents) VALUES ($1, $2, $3, $4)`,
		id, l.SKU, l.Qty, cents*int64(l.Qty))
	return err
}

func (s *orderStore) price(ctx context.Context, q rowQuerier, sku string) (cents int64, err error) {
	if err = q.QueryRowContext(ctx, `SELECT cents FROM prices WHERE sku = $1`, sku).Scan(&cents); err != nil {
		err = fmt.Errorf("price of %s: %w", sku, err)
	}
	return cents, err
}

func (s *orderStore) withTx(ctx context.Context, fn func(context.Context, *sql.Tx) error) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := fn(ctx, tx); err != nil {
		return err
	}
	return tx.Commit()
}
