package gabionsql

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"

	"github.com/gabion-go/gabion"
)

// conn is a connection whose operations pass the dependency. Like every driver.Conn it is
// used by one goroutine at a time.
//
// database/sql asks a connection for optional interfaces. For all but driver.Execer and
// driver.Queryer it does without them what conn does, so one type serves all drivers. For
// those two there are the types below.
type conn struct {
	of    *connector
	base  driver.Conn
	who   victim       // at the server; zero if that needs not be known
	tx    *transaction // the one that is open; nil outside
	bad   bool         // it leads to a server that can't do the work
	stale bool         // it broke while it was idle

	queryer driver.QueryerContext // what the base has
	execer  driver.ExecerContext
}

type (
	connQueries struct{ *conn }
	connExecs   struct{ *conn }
	connBoth    struct{ *conn }
)

func newConn(of *connector, base driver.Conn, who victim) driver.Conn {
	c := &conn{of: of, base: base, who: who}
	c.queryer, _ = base.(driver.QueryerContext)
	c.execer, _ = base.(driver.ExecerContext)
	old, oldQueries := base.(driver.Queryer) //nolint:staticcheck // drivers may have no other
	older, oldExecs := base.(driver.Execer)  //nolint:staticcheck // the same
	if c.queryer == nil && oldQueries {
		c.queryer = queryerWithout{old}
	}
	if c.execer == nil && oldExecs {
		c.execer = execerWithout{older}
	}
	switch {
	case c.queryer != nil && c.execer != nil:
		return connBoth{c}
	case c.queryer != nil:
		return connQueries{c}
	case c.execer != nil:
		return connExecs{c}
	}
	return c
}

// QueryContext implements driver.QueryerContext.
func (c connQueries) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	return c.query(ctx, query, args)
}

// ExecContext implements driver.ExecerContext.
func (c connExecs) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	return c.exec(ctx, query, args)
}

// QueryContext implements driver.QueryerContext.
func (c connBoth) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	return c.query(ctx, query, args)
}

// ExecContext implements driver.ExecerContext.
func (c connBoth) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	return c.exec(ctx, query, args)
}

func (c *conn) query(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	if c.part(ctx) {
		r, err := c.queryer.QueryContext(ctx, query, args)
		c.partly(ctx, err)
		return r, err
	}
	r := newRows(c)
	r.query, r.args = query, args
	return r.open(ctx, r.ask)
}

func (c *conn) exec(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	if c.part(ctx) {
		r, err := c.execer.ExecContext(ctx, query, args)
		c.partly(ctx, err)
		return r, err
	}
	return do(ctx, c, execs, func(ctx context.Context) (driver.Result, error) { return c.execer.ExecContext(ctx, query, args) })
}

// part reports whether an operation is part of an attempt that began outside this connection.
func (c *conn) part(ctx context.Context) bool {
	return c.of.part(ctx) || c.tx != nil && c.tx.attempt == nil
}

// call returns the options of an operation.
func (c *conn) call(op operation) []gabion.CallOption {
	if c.tx != nil {
		return c.of.inside[op]
	}
	return c.of.calls[op]
}

// learn looks at an error for what it says of the connection.
func (c *conn) learn(err error) {
	if err != nil && !(c.tx != nil && c.tx.readOnly) && wrongServer(c.of.seen.Means(err)) {
		c.bad = true
	}
}

// do makes one attempt of an operation.
func do[T any](ctx context.Context, c *conn, op operation, ask func(context.Context) (T, error)) (T, error) {
	var a answer
	v, err := gabion.Do(ctx, c.of.dep, func(ctx context.Context) (T, error) {
		v, err := ask(ctx)
		return proper(v, err), a.hearOn(ctx, c, err)
	}, c.call(op)...)
	c.learn(a.err)
	return v, a.said(err)
}

// Prepare implements driver.Conn. database/sql calls PrepareContext.
func (c *conn) Prepare(query string) (driver.Stmt, error) {
	return c.PrepareContext(context.Background(), query)
}

// PrepareContext implements driver.ConnPrepareContext.
func (c *conn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	ask := func(ctx context.Context) (driver.Stmt, error) {
		if p, ok := c.base.(driver.ConnPrepareContext); ok {
			return p.PrepareContext(ctx, query)
		}
		s, err := c.base.Prepare(query)
		if err == nil && ctx.Err() != nil {
			_ = s.Close()
			return nil, ctx.Err()
		}
		return s, err
	}
	var s driver.Stmt
	var err error
	if c.part(ctx) {
		s, err = ask(ctx)
		s = proper(s, err)
		c.learn(err)
	} else {
		s, err = do(ctx, c, prepares, ask)
	}
	if err != nil {
		if s != nil {
			_ = s.Close()
		}
		return nil, err
	}
	return newStmt(c, s), nil
}

// Close implements driver.Conn. A connection that broke in use may have left something running.
func (c *conn) Close() error {
	for c.tx != nil {
		c.tx.leave()
	}
	broke := c.who.id != 0 && !c.stale && !valid(c.base)
	err := c.base.Close()
	if broke {
		c.of.killer.kill(c.who)
	}
	return err
}

// Ping implements driver.Pinger. A driver that has none is never asked, as by database/sql.
func (c *conn) Ping(ctx context.Context) error {
	p, ok := c.base.(driver.Pinger)
	switch {
	case !ok:
		reached(ctx)
		return nil
	case c.part(ctx):
		return p.Ping(ctx)
	}
	_, err := do(ctx, c, pings, func(ctx context.Context) (struct{}, error) { return struct{}{}, p.Ping(ctx) })
	return err
}

// ResetSession implements driver.SessionResetter. It passes no layer: most drivers only
// look at the connection, and the operation that follows passes.
func (c *conn) ResetSession(ctx context.Context) error {
	reached(ctx)
	if c.bad {
		return driver.ErrBadConn
	}
	r, ok := c.base.(driver.SessionResetter)
	if !ok {
		return nil
	}
	err := r.ResetSession(ctx)
	c.stale = err != nil
	return err
}

// IsValid implements driver.Validator.
func (c *conn) IsValid() bool {
	if c.bad {
		return false
	}
	if v, ok := c.base.(driver.Validator); ok {
		return v.IsValid()
	}
	return true
}

// CheckNamedValue implements driver.NamedValueChecker.
func (c *conn) CheckNamedValue(v *driver.NamedValue) error {
	if n, ok := c.base.(driver.NamedValueChecker); ok {
		return n.CheckNamedValue(v)
	}
	return driver.ErrSkip
}

// raw returns the driver's own connection, for [Raw].
func (c *conn) raw() driver.Conn { return c.base }

// Raw is [sql.Conn.Raw] for connections of a [Connector]: f gets the driver's own
// connection, as it would without gabion, and nothing of what it does passes the
// dependency. Of another connection f gets what Raw of that gives.
func Raw(c *sql.Conn, f func(driverConn any) error) error {
	if c == nil || f == nil {
		return errors.New("gabionsql: Raw of a nil connection, or with a nil function")
	}
	return c.Raw(func(driverConn any) error {
		if x, ok := driverConn.(interface{ raw() driver.Conn }); ok {
			driverConn = x.raw()
		}
		return f(driverConn)
	})
}

// queryerWithout and execerWithout do what database/sql does for drivers that know no
// contexts.
type queryerWithout struct {
	driver.Queryer
}

func (q queryerWithout) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	plain, err := unnamed(ctx, args)
	if err != nil {
		return nil, err
	}
	return q.Query(query, plain)
}

type execerWithout struct {
	driver.Execer
}

func (e execerWithout) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	plain, err := unnamed(ctx, args)
	if err != nil {
		return nil, err
	}
	return e.Exec(query, plain)
}

var errNamed = errors.New("sql: driver does not support the use of Named Parameters")

func unnamed(ctx context.Context, args []driver.NamedValue) ([]driver.Value, error) {
	plain := make([]driver.Value, len(args))
	for i, a := range args {
		if a.Name != "" {
			return nil, errNamed
		}
		plain[i] = a.Value
	}
	return plain, ctx.Err()
}
