package m03

import (
	"context"
	"database/sql"
	"time"
)

type Order struct {
	Customer int64
	Total    int64
}

type Store struct{ db *sql.DB }

func (s *Store) Add(ctx context.Context, o Order) (err error) {
	for i := 0; i < 3; i++ {
		_, err = s.db.ExecContext(ctx, `INSERT INTO orders (customer, total) VALUES ($1, $2)`, o.Customer, o.Total)
		if err == nil {
			return nil
		}
		select {
		case <-time.After(time.Duration(i+1) * 100 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return err
}
