// Package gabionsql stands in for the real one.
package gabionsql

import (
	"context"
	"database/sql"

	"github.com/gabion-go/gabion"
)

func RunTx(ctx context.Context, d *gabion.Dependency, db *sql.DB, work func(ctx context.Context, tx *sql.Tx) error) error {
	return nil
}
