package m04

import (
	"context"
	"database/sql"
	"time"
)

type Repo struct{ db *sql.DB }

type Order struct {
	ID    string
	Total int64
}

func (r *Repo) Load(ctx context.Context, id string) (*Order, error) {
	qctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	o := &Order{ID: id}
	row := r.db.QueryRowContext(qctx, `SELECT total FROM orders WHERE id = $1`, id)
	if err := row.Scan(&o.Total); err != nil {
		return nil, err
	}
	return o, nil
}
