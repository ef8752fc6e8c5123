package m12

import (
	"context"
	"database/sql"

	"github.com/gabion-go/gabion"
)

type Signup struct {
	db  *sql.DB
	dep *gabion.Dependency
}

func (s *Signup) Add(ctx context.Context, email string) (int64, error) {
	return gabion.Do(ctx, s.dep, func(ctx context.Context) (id int64, err error) {
		row := s.db.QueryRowContext(ctx, "INSERT INTO signups (email) VALUES ($1) RETURNING id", email)
		err = row.Scan(&id)
		return id, err
	}, gabion.WithIdempotent())
}
