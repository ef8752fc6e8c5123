// Package sqlstore stands in for the real one.
package sqlstore

import (
	"context"
	"database/sql"
)

type Store struct{}

func (*Store) Do(ctx context.Context, claim string, work func(context.Context, *sql.Tx) (int, error)) (int, error) {
	return 0, nil
}
