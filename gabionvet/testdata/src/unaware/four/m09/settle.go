// Package p09 settles what merchants have sold.
package m09

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/gabionsql"
	"github.com/gabion-go/gabion/policy"
)

// Payout is what a merchant gets. The bank's file of the next morning is made of them.
type Payout struct {
	Merchant string
	Day      time.Time
	Orders   []int64
	Cents    int64
}

type Settler struct {
	db  *sql.DB
	dep *gabion.Dependency
}

func New(connector driver.Connector) (*Settler, error) {
	p, _ := policy.Preset("database")
	dep := gabion.New("orders-db", p)
	db, err := gabionsql.Open(connector, dep)
	if err != nil {
		return nil, err
	}
	return &Settler{db, dep}, nil
}

var serializable = gabionsql.WithTxOptions(sql.TxOptions{Isolation: sql.LevelSerializable})

// Settle makes one payout of all orders of a merchant that are due.
func (s *Settler) Settle(ctx context.Context, merchant string, day time.Time) (Payout, error) {
	payout := Payout{Merchant: merchant, Day: day}
	err := gabionsql.RunTx(ctx, s.dep, s.db, func(ctx context.Context, tx *sql.Tx) error {
		err := each(ctx, tx, func(id, cents int64) {
			payout.Orders = append(payout.Orders, id)
			payout.Cents += cents
		}, `UPDATE orders SET settled = $2 WHERE merchant = $1 AND due <= $2 AND settled IS NULL RETURNING id, cents`, merchant, day)
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `INSERT INTO payouts (merchant, day, cents) VALUES ($1, $2, $3)`, merchant, day, payout.Cents)
		return err
	}, serializable)
	if err != nil {
		return Payout{}, fmt.Errorf("settle %s: %w", merchant, err)
	}
	return payout, nil
}

// Preview returns what Settle would pay at that day.
func (s *Settler) Preview(ctx context.Context, merchant string, day time.Time) (Payout, error) {
	var payout Payout
	err := gabionsql.RunTx(ctx, s.dep, s.db, func(ctx context.Context, tx *sql.Tx) error {
		payout = Payout{Merchant: merchant, Day: day}
		return each(ctx, tx, func(id, cents int64) {
			payout.Orders = append(payout.Orders, id)
			payout.Cents += cents
		}, `SELECT id, cents FROM orders WHERE merchant = $1 AND due <= $2 AND settled IS NULL`, merchant, day)
	}, gabionsql.WithTxOptions(sql.TxOptions{ReadOnly: true}))
	if err != nil {
		return Payout{}, fmt.Errorf("preview %s: %w", merchant, err)
	}
	return payout, nil
}

// Reopen takes a payout back that the bank refused, and returns how many orders are due again.
func (s *Settler) Reopen(ctx context.Context, merchant string, day time.Time) (orders int64, err error) {
	err = gabionsql.RunTx(ctx, s.dep, s.db, func(ctx context.Context, tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, `DELETE FROM payouts WHERE merchant = $1 AND day = $2`, merchant, day); err != nil {
			return err
		}
		res, err := tx.ExecContext(ctx, `UPDATE orders SET settled = NULL WHERE merchant = $1 AND settled = $2`, merchant, day)
		if err != nil {
			return err
		}
		orders, err = res.RowsAffected()
		return err
	}, serializable)
	return orders, err
}

func each(ctx context.Context, tx *sql.Tx, f func(id, cents int64), query string, args ...any) error {
	rows, err := tx.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var id, cents int64
		if err := rows.Scan(&id, &cents); err != nil {
			return err
		}
		f(id, cents)
	}
	return rows.Err()
}
