package users

import (
	"context"
	"database/sql"
	"math/rand/v2"
	"time"
)

type Repo struct{ db *sql.DB }

func (r *Repo) Name(ctx context.Context, id int64) (name string, err error) {
	for i := 0; i < 5; i++ {
		row := r.db.QueryRowContext(ctx, "SELECT name FROM users WHERE id = $1", id)
		if err = row.Scan(&name); err == nil {
			return name, nil
		}
		if ctx.Err() != nil {
			return "", err
		}
		time.Sleep(rand.N(10 * time.Millisecond << i))
	}
	return "", err
}
