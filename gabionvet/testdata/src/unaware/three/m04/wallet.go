package m04

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"time"
)

type Wallet struct{ db *sql.DB }

func (w *Wallet) debit(ctx context.Context, user string, cents int64) error {
	_, err := w.db.ExecContext(ctx, "UPDATE wallets SET balance = balance - ? WHERE user = ?", cents, user)
	return err
}

func (w *Wallet) Debit(ctx context.Context, user string, cents int64) error {
	var err error
	for i := 1; ; i++ {
		err = w.debit(ctx, user, cents)
		if err == nil || i == 4 {
			break
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(rand.N(time.Duration(i) * 20 * time.Millisecond)):
		}
	}
	if err != nil {
		return fmt.Errorf("debit %s: %w", user, err)
	}
	return nil
}
