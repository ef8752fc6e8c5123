package m10

import (
	"context"
	"database/sql"
	"fmt"
)

func try(n int, f func() error) (err error) {
	for ; n > 0; n-- {
		if err = f(); err == nil {
			break
		}
	}
	return err
}

func Reserve(ctx context.Context, db *sql.DB, sku string, qty int) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	err = try(3, func() error {
		_, err := tx.ExecContext(ctx, `UPDATE stock SET free = free - $1 WHERE sku = $2`, qty, sku)
		return err
	})
	if err != nil {
		return fmt.Errorf("reserve %s: %w", sku, err)
	}
	return tx.Commit()
}
