package gabionpgx

import (
	"context"
	"database/sql"
	"database/sql/driver"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/gabion-go/gabion/messages/outbox"
)

// Execer returns a transaction of pgx as outbox.Outbox.Enqueue takes it:
//
//	err := box.Enqueue(ctx, gabionpgx.Execer(tx), outbox.Message{Topic: "orders", Payload: order})
//
// A nil tx is an error of Enqueue.
func Execer(tx pgx.Tx) outbox.Execer { return execer{tx} }

type execer struct{ tx pgx.Tx }

// ExecContext implements outbox.Execer.
func (e execer) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	if e.tx == nil {
		return nil, outbox.ErrNoTransaction
	}
	tag, err := e.tx.Exec(ctx, query, args...)
	return result{tag}, err
}

// A result is what a statement did.
type result struct{ pgconn.CommandTag }

// LastInsertId implements sql.Result. PostgreSQL has none.
func (result) LastInsertId() (int64, error) { return driver.ResultNoRows.LastInsertId() }

// RowsAffected implements sql.Result.
func (r result) RowsAffected() (int64, error) { return r.CommandTag.RowsAffected(), nil }
