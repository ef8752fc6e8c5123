package gabionpgx

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/internal/adapter"
)

// Begin begins a transaction with the server's isolation level. See [Pool.BeginTx].
func (p *Pool) Begin(ctx context.Context) (pgx.Tx, error) { return p.BeginTx(ctx, pgx.TxOptions{}) }

// BeginTx begins a transaction, which must be ended with Commit or Rollback. It has one slot
// and one connection until then. Exec, Query and QueryRow of it have the attempt's time and
// their failures count, but nothing refuses or repeats them. To repeat the whole
// transaction, call [RunTx], which takes a Pool for its database.
func (p *Pool) BeginTx(ctx context.Context, o pgx.TxOptions) (pgx.Tx, error) {
	begin := func(ctx context.Context) (*transaction, error) { return p.begin(ctx, o) }
	if p.part(ctx) {
		t, err := begin(ctx)
		if err != nil {
			return nil, err
		}
		return t, nil
	}
	t, attempt, err := gabion.Open(ctx, p.dep, begin, p.call("begin", gabion.WithoutHedge(), gabion.WithDiscard(abandon))...)
	if attempt == nil {
		return nil, err
	}
	if err != nil { // a classifier took it for a failure
		abandon(t)
		attempt.Close(nil)
		return nil, err
	}
	adapter.HoldSlot(attempt)
	t.attempt = attempt
	return t, nil
}

func (p *Pool) begin(ctx context.Context, o pgx.TxOptions) (*transaction, error) {
	c, err := p.acquire(ctx)
	if err != nil {
		return nil, err
	}
	t := &transaction{pool: p, readOnly: o.AccessMode == pgx.ReadOnly}
	defer func() {
		if t.release == nil { // an error, or a panic of a tracer
			c.Release()
		}
	}()
	if t.Tx, err = c.BeginTx(ctx, o); err != nil {
		return nil, err
	}
	t.release = c.Release
	return t, nil
}

func abandon(result any) {
	if t, ok := result.(*transaction); ok && t != nil {
		_ = t.Rollback(context.Background())
	}
}

// transaction has the slot of its BEGIN until it ends.
type transaction struct {
	pgx.Tx
	pool     *Pool
	attempt  *gabion.Attempt // nil where it is part of another one
	release  func()          // nil once it is over
	readOnly bool            // as was asked for
}

// on lends the transaction to a statement.
func (t *transaction) on(context.Context) (target, func(error), error) {
	return t.Tx, t.learn, nil
}

// learn closes the connection after the transaction if it leads to a server that refuses to
// write, unless that was asked for.
func (t *transaction) learn(err error) {
	var state *pgconn.PgError
	if t.release == nil || t.readOnly || !errors.As(err, &state) || state.Code != "25006" {
		return
	}
	conn, release := t.Conn(), t.release
	t.release = func() {
		end, cancel := context.WithTimeout(context.Background(), closing)
		defer cancel()
		_ = conn.Close(end)
		release()
	}
}

func (t *transaction) options(operation string) []gabion.CallOption {
	return t.pool.call(operation, gabion.WithoutRetry(), gabion.WithoutHedge(), adapter.Inside.(gabion.CallOption))
}

// Exec implements pgx.Tx.
func (t *transaction) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	return exec(ctx, t.pool, t.on, t.options("exec"), sql, args)
}

// Query implements pgx.Tx.
func (t *transaction) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	return query(ctx, t.pool, t.on, t.options("query"), sql, args)
}

// QueryRow implements pgx.Tx.
func (t *transaction) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	return &row{ctx: ctx, pool: t.pool, from: t.on, opts: t.options("query"), sql: sql, args: args}
}

// Commit implements pgx.Tx. It is always sent, and its error is pgx's.
func (t *transaction) Commit(ctx context.Context) error {
	defer t.leave()
	err := t.Tx.Commit(ctx)
	if t.attempt != nil && err != nil && !errors.Is(err, pgx.ErrTxClosed) && counts(t.pool.seen.Means(err)) {
		t.attempt.Close(err)
	}
	return err
}

// Rollback implements pgx.Tx. It is always sent.
func (t *transaction) Rollback(ctx context.Context) error {
	defer t.leave()
	return t.Tx.Rollback(ctx)
}

// leave lets the connection go before the slot.
func (t *transaction) leave() {
	if t.release != nil {
		t.release()
		t.release = nil
	}
	if t.attempt != nil {
		t.attempt.Close(nil)
	}
}
