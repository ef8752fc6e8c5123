package m23

import (
	"context"
	"database/sql"
	"fmt"
	"time"
)

func Reserve(ctx context.Context, db *sql.DB, sku string, n int) error {
	var err error
	for i := 0; i < 5; i++ {
		var tx *sql.Tx
		tx, err = db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelSerializable})
		if err != nil {
			return err
		}
		if _, err = tx.ExecContext(ctx, "UPDATE stock SET left = left - $1 WHERE sku = $2", n, sku); err != nil {
			time.Sleep(20 * time.Millisecond)
			continue
		}
		if err = tx.Commit(); err == nil {
			return nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	return fmt.Errorf("reserve %s: %w", sku, err)
}
