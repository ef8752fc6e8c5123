package gabionsql

import (
	"context"
	"database/sql/driver"
	"io"
	"reflect"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/internal/adapter"
	"github.com/gabion-go/gabion/policy"
)

// rows are an open result: their attempt ends when they are closed. The methods beyond
// driver.Rows do what database/sql does where the base lacks them.
//
// driver.RowsColumnScanner of Go 1.27 is not among them: database/sql then asks Next for
// whole rows, as it does of drivers that lack it.
type rows struct {
	base    driver.Rows
	conn    *conn
	attempt *gabion.Attempt
	timed   bool  // the policy bounds the wait for a row
	broke   error // what ended them too early

	// How they are asked for. One piece of memory serves the whole of a query.
	query  string
	args   []driver.NamedValue
	answer answer
}

func newRows(c *conn) *rows {
	return &rows{conn: c, timed: c.of.seen.PolicyInForce().Timeout.Idle > 0}
}

// ask is the attempt of a query that is not prepared.
func (r *rows) ask(ctx context.Context) (driver.Rows, error) {
	base, err := r.conn.queryer.QueryContext(ctx, r.query, r.args)
	return base, r.answer.hearOn(ctx, r.conn, err)
}

// open makes one attempt, which leaves what the driver said in r.answer.
func (r *rows) open(ctx context.Context, ask func(context.Context) (driver.Rows, error)) (driver.Rows, error) {
	base, attempt, err := gabion.Open(ctx, r.conn.of.dep, ask, r.conn.call(queries)...)
	r.conn.learn(r.answer.err)
	switch {
	case attempt == nil:
		return nil, r.answer.said(err)
	case err != nil: // a classifier took the rows for a failure
		if base != nil {
			_ = base.Close()
		}
		attempt.Close(nil)
		return nil, err
	}
	r.base, r.attempt, r.args = base, attempt, nil
	return r, nil
}

// Columns implements driver.Rows.
func (r *rows) Columns() []string { return r.base.Columns() }

// Next implements driver.Rows.
func (r *rows) Next(dest []driver.Value) error {
	if !r.timed {
		return r.heard(r.base.Next(dest))
	}
	r.attempt.Expect()
	err := r.base.Next(dest)
	r.attempt.Arrived()
	return r.heard(err)
}

// HasNextResultSet implements driver.RowsNextResultSet.
func (r *rows) HasNextResultSet() bool {
	x, ok := r.base.(driver.RowsNextResultSet)
	return ok && x.HasNextResultSet()
}

// NextResultSet implements driver.RowsNextResultSet.
func (r *rows) NextResultSet() error {
	x, ok := r.base.(driver.RowsNextResultSet)
	if !ok {
		return io.EOF
	}
	r.attempt.Expect()
	err := x.NextResultSet()
	r.attempt.Arrived()
	return r.heard(err)
}

// heard looks at what ended the rows, and says which limit did.
func (r *rows) heard(err error) error {
	if err == nil || err == io.EOF {
		return err
	}
	err = limited(r.conn.of.dep, r.attempt, err)
	if r.broke == nil {
		r.broke = err
	}
	return err
}

// Close implements driver.Rows. It frees the connection before the slot, because the next holder
// of the slot may need the connection.
func (r *rows) Close() error {
	defer r.end()
	return r.base.Close()
}

func (r *rows) end() {
	if r.broke == nil || counts(r.conn.of.seen.Means(r.broke)) {
		r.attempt.Close(r.broke)
		return
	}
	r.attempt.Close(nil) // an answer, such as a division by zero in a later row
}

func means(dep *gabion.Dependency, err error) policy.Outcome { return adapter.Of(dep).Means(err) }

// counts reports whether an outcome is a failure of the database.
func counts(o policy.Outcome) bool {
	switch o.Class {
	case policy.ClassNetwork, policy.ClassTimeout, policy.ClassServer, policy.ClassUnclassified:
		return true
	}
	return false
}

// ColumnTypeScanType implements driver.RowsColumnTypeScanType.
func (r *rows) ColumnTypeScanType(index int) reflect.Type {
	if x, ok := r.base.(driver.RowsColumnTypeScanType); ok {
		return x.ColumnTypeScanType(index)
	}
	return reflect.TypeFor[any]()
}

// ColumnTypeDatabaseTypeName implements driver.RowsColumnTypeDatabaseTypeName.
func (r *rows) ColumnTypeDatabaseTypeName(index int) string {
	if x, ok := r.base.(driver.RowsColumnTypeDatabaseTypeName); ok {
		return x.ColumnTypeDatabaseTypeName(index)
	}
	return ""
}

// ColumnTypeLength implements driver.RowsColumnTypeLength.
func (r *rows) ColumnTypeLength(index int) (length int64, ok bool) {
	if x, has := r.base.(driver.RowsColumnTypeLength); has {
		return x.ColumnTypeLength(index)
	}
	return 0, false
}

// ColumnTypeNullable implements driver.RowsColumnTypeNullable.
func (r *rows) ColumnTypeNullable(index int) (nullable, ok bool) {
	if x, has := r.base.(driver.RowsColumnTypeNullable); has {
		return x.ColumnTypeNullable(index)
	}
	return false, false
}

// ColumnTypePrecisionScale implements driver.RowsColumnTypePrecisionScale.
func (r *rows) ColumnTypePrecisionScale(index int) (precision, scale int64, ok bool) {
	if x, has := r.base.(driver.RowsColumnTypePrecisionScale); has {
		return x.ColumnTypePrecisionScale(index)
	}
	return 0, 0, false
}
