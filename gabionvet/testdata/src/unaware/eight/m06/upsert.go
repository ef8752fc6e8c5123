package m06

import (
	"context"
	"database/sql"
	"fmt"
	"time"
)

type Ledger struct{ db *sql.DB }

type entry struct {
	account string
	cents   int64
}

func (l *Ledger) do(op func() error) error {
	err := op()
	for n := 1; err != nil && n < 4; n++ {
		time.Sleep(time.Duration(n) * 50 * time.Millisecond)
		err = op()
	}
	return err
}

func (l *Ledger) Book(ctx context.Context, e entry) error {
	err := l.do(func() error {
		_, err := l.db.ExecContext(ctx, "UPDATE accounts SET cents = cents + $1 WHERE name = $2", e.cents, e.account)
		return err
	})
	if err != nil {
		return fmt.Errorf("book: %w", err)
	}
	return nil
}
