package m08

import (
	"context"
	"database/sql"
	"fmt"
)

func Transfer(ctx context.Context, db *sql.DB, from, to string, cents int64) error {
	var err error
	for try := 0; try < 3; try++ {
		if err = transferOnce(ctx, db, from, to, cents); err == nil {
			return nil
		}
	}
	return fmt.Errorf("transfer: %w", err)
}

func transferOnce(ctx context.Context, db *sql.DB, from, to string, cents int64) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(ctx, "UPDATE accounts SET cents = cents - $1 WHERE id = $2", cents, from); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "UPDATE accounts SET cents = cents + $1 WHERE id = $2", cents, to); err != nil {
		return err
	}
	return tx.Commit()
}
