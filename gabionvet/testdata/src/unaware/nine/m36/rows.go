package rows

import (
	"context"
	"database/sql"
	"math/rand/v2"
	"time"
)

type Row struct {
	ID   int64
	Name string
}

func retry(n int, f func() error) (err error) {
	for i := 0; i < n; i++ {
		if err = f(); err == nil {
			return nil
		}
		time.Sleep(rand.N(50 * time.Millisecond << i))
	}
	return err
}

func All(ctx context.Context, db *sql.DB) ([]Row, error) {
	var out []Row
	err := retry(3, func() error {
		rows, err := db.QueryContext(ctx, "SELECT id, name FROM customers")
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var r Row
			if err := rows.Scan(&r.ID, &r.Name); err != nil {
				return err
			}
			out = append(out, r)
		}
		return rows.Err()
	})
	return out, err
}
