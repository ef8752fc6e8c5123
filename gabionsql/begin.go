package gabionsql

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/internal/adapter"
)

// transaction is one that is open on a connection. It has the slot of its BEGIN until it
// ends, however long that takes: it has the connection for that long.
type transaction struct {
	conn     *conn
	base     driver.Tx
	ctx      context.Context // of BEGIN
	attempt  *gabion.Attempt // of BEGIN; nil where that was part of another attempt
	around   *transaction    // the one that it is in, if the driver allows that
	readOnly bool
	over     bool
}

// Begin implements driver.Conn. database/sql calls BeginTx.
func (c *conn) Begin() (driver.Tx, error) {
	return c.BeginTx(context.Background(), driver.TxOptions{})
}

// BeginTx implements driver.ConnBeginTx.
func (c *conn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	t := &transaction{conn: c, ctx: ctx, around: c.tx, readOnly: opts.ReadOnly}
	var err error
	if c.part(ctx) {
		t.base, err = c.begin(ctx, opts)
		c.learn(err)
	} else {
		err = t.open(ctx, opts)
	}
	if err != nil {
		return nil, err
	}
	c.tx = t
	return t, nil
}

func (t *transaction) open(ctx context.Context, opts driver.TxOptions) error {
	c := t.conn
	var a answer
	base, attempt, err := gabion.Open(ctx, c.of.dep, func(ctx context.Context) (driver.Tx, error) {
		base, err := c.begin(ctx, opts)
		return base, a.hear(ctx, err)
	}, c.call(begins)...)
	c.learn(a.err)
	switch {
	case attempt == nil:
		return a.said(err)
	case err != nil: // a classifier took it for a failure
		rollback(base)
		attempt.Close(nil)
		return err
	}
	adapter.HoldSlot(attempt)
	t.base, t.attempt = base, attempt
	return nil
}

func rollback(t driver.Tx) {
	if t != nil {
		_ = t.Rollback() // the caller gets the error before this one
	}
}

// begin asks the base as database/sql does.
func (c *conn) begin(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	if b, ok := c.base.(driver.ConnBeginTx); ok {
		return b.BeginTx(ctx, opts)
	}
	switch {
	case opts.Isolation != driver.IsolationLevel(sql.LevelDefault):
		return nil, errors.New("sql: driver does not support non-default isolation level")
	case opts.ReadOnly:
		return nil, errors.New("sql: driver does not support read-only transactions")
	}
	t, err := c.base.Begin() //nolint:staticcheck // drivers may have no other
	if err == nil && ctx.Err() != nil {
		rollback(t)
		return nil, ctx.Err()
	}
	return t, err
}

// Rollback implements driver.Tx. It is always sent, and not counted: where it fails, so
// did what came before it.
func (t *transaction) Rollback() error {
	defer t.leave()
	return t.base.Rollback()
}

// Commit implements driver.Tx. It is always sent. The driver's error is returned as it is.
func (t *transaction) Commit() error {
	defer t.leave()
	if t.attempt == nil {
		err := t.base.Commit()
		t.conn.learn(err)
		return err
	}
	var a answer
	sent := false
	_ = t.conn.of.dep.Run(context.WithoutCancel(t.ctx), func(ctx context.Context) error {
		sent = true
		return a.hear(ctx, t.base.Commit())
	}, t.conn.of.inside[commits]...)
	if !sent { // the call is refused, such as by a policy that now requires a key
		a.err = t.base.Commit()
	}
	t.conn.learn(a.err)
	return a.err
}

// leave ends the transaction here. A broken connection may report no end.
func (t *transaction) leave() {
	if t.over {
		return
	}
	t.over = true
	if t.conn.tx == t {
		t.conn.tx = t.around
	}
	if t.attempt != nil {
		t.attempt.Close(nil)
	}
}
