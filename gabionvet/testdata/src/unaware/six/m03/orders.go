// Package m03 books orders.
//
// Mistake: the transaction stays open, with its locks and its connection,
// while a remote server is asked. A slow server empties the pool of
// connections.
package m03

import (
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"time"
)

type Orders struct {
	db     *sql.DB
	client *http.Client
	base   string
}

func (o *Orders) Book(ctx context.Context, order string) error {
	tx, err := o.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	var sku string
	if err := tx.QueryRowContext(ctx, "SELECT sku FROM orders WHERE id = $1 FOR UPDATE", order).Scan(&sku); err != nil {
		return err
	}
	if err := o.reserve(ctx, order, sku); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "UPDATE orders SET state = 'booked' WHERE id = $1", order); err != nil {
		return err
	}
	return tx.Commit()
}

func (o *Orders) reserve(ctx context.Context, order, sku string) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, o.base+"/reservations/"+order+"/"+sku, nil)
	if err != nil {
		return err
	}
	resp, err := o.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode >= 300 {
		return fmt.Errorf("reserve: %s", resp.Status)
	}
	return nil
}
