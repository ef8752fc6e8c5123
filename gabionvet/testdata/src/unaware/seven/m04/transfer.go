package m04

import (
	"context"
	"database/sql"
	"time"
)

type Bank struct{ db *sql.DB }

func withRetry(ctx context.Context, n int, f func(context.Context) error) error {
	var err error
	for i := range n {
		if err = f(ctx); err == nil {
			return nil
		}
		t := time.NewTimer(time.Duration(i+1) * 50 * time.Millisecond)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return ctx.Err()
		}
	}
	return err
}

func (b *Bank) Transfer(ctx context.Context, from, to, cents int64) error {
	return withRetry(ctx, 5, func(ctx context.Context) error {
		tx, err := b.db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		if _, err := tx.ExecContext(ctx, "UPDATE accounts SET balance = balance - $1 WHERE id = $2", cents, from); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, "UPDATE accounts SET balance = balance + $1 WHERE id = $2", cents, to); err != nil {
			return err
		}
		return tx.Commit()
	})
}
