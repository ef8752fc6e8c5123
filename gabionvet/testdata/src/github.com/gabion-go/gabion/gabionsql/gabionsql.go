// Package gabionsql stands in for the real one.
package gabionsql

import (
	"context"
	"database/sql"
	"database/sql/driver"

	"github.com/gabion-go/gabion"
)

type TxOption struct{}

func WithTxOptions(o sql.TxOptions) TxOption { return TxOption{} }

func Open(base driver.Connector, dep *gabion.Dependency, opts ...gabion.CallOption) (*sql.DB, error) {
	return nil, nil
}

func RunTx(ctx context.Context, d *gabion.Dependency, db *sql.DB, work func(ctx context.Context, tx *sql.Tx) error, opts ...TxOption) error {
	return nil
}
