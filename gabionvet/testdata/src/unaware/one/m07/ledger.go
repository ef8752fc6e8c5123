package m07

import (
	"context"
	"database/sql"
	"log/slog"
	"math/rand/v2"
	"time"
)

type Ledger struct {
	DB *sql.DB
}

func (l *Ledger) Book(ctx context.Context, account string, cents int64) (err error) {
	const q = `INSERT INTO bookings (account, cents) VALUES ($1, $2)`
	for n := 1; n <= 3; n++ {
		_, err = l.DB.ExecContext(ctx, q, account, cents)
		if err == nil {
			return nil
		}
		slog.Warn("booking failed", "attempt", n, "err", err)
		t := time.NewTimer(time.Duration(n)*50*time.Millisecond + rand.N(50*time.Millisecond))
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return ctx.Err()
		}
	}
	return err
}
