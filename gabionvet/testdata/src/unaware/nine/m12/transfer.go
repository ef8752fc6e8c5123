package transfer

import (
	"context"
	"database/sql"
	"math/rand/v2"
	"time"
)

func exec(ctx context.Context, tx *sql.Tx, q string, args ...any) (err error) {
	for i := range 3 {
		_, err = tx.ExecContext(ctx, q, args...)
		if err == nil {
			return nil
		}
		time.Sleep(rand.N(20 * time.Millisecond << i))
	}
	return err
}

func Move(ctx context.Context, db *sql.DB, from, to string, cents int64) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := exec(ctx, tx, "UPDATE accounts SET cents = cents - $1 WHERE id = $2", cents, from); err != nil {
		return err
	}
	if err := exec(ctx, tx, "UPDATE accounts SET cents = cents + $1 WHERE id = $2", cents, to); err != nil {
		return err
	}
	return tx.Commit()
}
