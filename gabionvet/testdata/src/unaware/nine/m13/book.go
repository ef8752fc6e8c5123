package book

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"time"
)

type Bookings struct{ db *sql.DB }

func (b *Bookings) inTx(ctx context.Context, fn func(*sql.Tx) error) error {
	tx, err := b.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := fn(tx); err != nil {
		_ = tx.Rollback()
		return err
	}
	return tx.Commit()
}

func (b *Bookings) retried(ctx context.Context, fn func(*sql.Tx) error) error {
	var last error
	for i := 0; i < 5; i++ {
		if err := b.inTx(ctx, fn); err != nil {
			last = err
			time.Sleep(rand.N(50 * time.Millisecond << i))
			continue
		}
		return nil
	}
	return fmt.Errorf("booking: %w", last)
}

func (b *Bookings) Book(ctx context.Context, room, guest string, nights int) error {
	return b.retried(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO bookings (room, guest, nights) VALUES ($1, $2, $3)", room, guest, nights)
		return err
	})
}
