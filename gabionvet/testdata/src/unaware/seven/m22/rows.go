package m22

import (
	"context"
	"database/sql"
)

type User struct {
	ID   int64
	Name string
}

func Members(ctx context.Context, db *sql.DB, teams []int64) (map[int64][]User, error) {
	out := map[int64][]User{}
	for _, t := range teams {
		rows, err := db.QueryContext(ctx, "SELECT id, name FROM users WHERE team = $1", t)
		if err != nil {
			return nil, err
		}
		for rows.Next() {
			var u User
			if err := rows.Scan(&u.ID, &u.Name); err != nil {
				return nil, err
			}
			out[t] = append(out[t], u)
		}
	}
	return out, nil
}
