package gabionsql

import (
	"context"
	"database/sql/driver"
)

// stmt is a prepared statement whose operations pass the dependency.
type stmt struct {
	conn *conn
	base driver.Stmt
}

// stmtConverts is a stmt whose base converts arguments by their columns. Without that,
// database/sql does something else. The converter has a name of its own, since a field that is
// called like its method hides it.
type stmtConverts struct {
	*stmt
	by driver.ColumnConverter //nolint:staticcheck // drivers may have no other
}

// ColumnConverter implements driver.ColumnConverter.
func (s stmtConverts) ColumnConverter(column int) driver.ValueConverter {
	return s.by.ColumnConverter(column)
}

func newStmt(c *conn, base driver.Stmt) driver.Stmt {
	s := &stmt{c, base}
	if by, ok := base.(driver.ColumnConverter); ok { //nolint:staticcheck // the same
		return stmtConverts{s, by}
	}
	return s
}

// Close implements driver.Stmt.
func (s *stmt) Close() error { return s.base.Close() }

// NumInput implements driver.Stmt.
func (s *stmt) NumInput() int { return s.base.NumInput() }

// Exec implements driver.Stmt. database/sql calls ExecContext.
func (s *stmt) Exec(args []driver.Value) (driver.Result, error) {
	return s.ExecContext(context.Background(), named(args))
}

// Query implements driver.Stmt. database/sql calls QueryContext.
func (s *stmt) Query(args []driver.Value) (driver.Rows, error) {
	return s.QueryContext(context.Background(), named(args))
}

func named(args []driver.Value) []driver.NamedValue {
	all := make([]driver.NamedValue, len(args))
	for i, v := range args {
		all[i] = driver.NamedValue{Ordinal: i + 1, Value: v}
	}
	return all
}

// ExecContext implements driver.StmtExecContext.
func (s *stmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	ask := func(ctx context.Context) (driver.Result, error) {
		if x, ok := s.base.(driver.StmtExecContext); ok {
			return x.ExecContext(ctx, args)
		}
		plain, err := unnamed(ctx, args)
		if err != nil {
			return nil, err
		}
		return s.base.Exec(plain) //nolint:staticcheck // drivers may have no other
	}
	if s.conn.part(ctx) {
		r, err := ask(ctx)
		s.conn.partly(ctx, err)
		return r, err
	}
	return do(ctx, s.conn, execs, ask)
}

// QueryContext implements driver.StmtQueryContext.
func (s *stmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	ask := func(ctx context.Context) (driver.Rows, error) {
		if x, ok := s.base.(driver.StmtQueryContext); ok {
			return x.QueryContext(ctx, args)
		}
		plain, err := unnamed(ctx, args)
		if err != nil {
			return nil, err
		}
		return s.base.Query(plain) //nolint:staticcheck // drivers may have no other
	}
	if s.conn.part(ctx) {
		r, err := ask(ctx)
		s.conn.partly(ctx, err)
		return r, err
	}
	r := newRows(s.conn)
	return r.open(ctx, func(ctx context.Context) (driver.Rows, error) {
		base, err := ask(ctx)
		return base, r.answer.hearOn(ctx, s.conn, err)
	})
}

// CheckNamedValue implements driver.NamedValueChecker. database/sql asks the connection
// where the statement has none.
func (s *stmt) CheckNamedValue(v *driver.NamedValue) error {
	if n, ok := s.base.(driver.NamedValueChecker); ok {
		return n.CheckNamedValue(v)
	}
	return s.conn.CheckNamedValue(v)
}
