package gabionsql_test

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/gabionsql"
	"github.com/gabion-go/gabion/policy"

	"database/sql"
)

// scripted is a database that does what a test says, and writes down what it is asked.
type scripted struct {
	shape func(*scriptedConn) driver.Conn // nil: all interfaces
	stmt  func(*scriptedStmt) driver.Stmt // nil: as it is
	rows  func(*scriptedRows) driver.Rows // nil: as it is
	on    func(ctx context.Context, op string) error

	mute bool // writes nothing down

	mu   sync.Mutex
	log  []string
	open int // connections
}

func (f *scripted) note(format string, args ...any) {
	if f.mute {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.log = append(f.log, fmt.Sprintf(format, args...))
}

func (f *scripted) said() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.Join(f.log, "\n")
}

func (f *scripted) conns() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.open
}

func (f *scripted) do(ctx context.Context, op string) error {
	f.note("%s", op)
	if f.on != nil {
		return f.on(ctx, op)
	}
	return nil
}

func (f *scripted) Connect(ctx context.Context) (driver.Conn, error) {
	if err := f.do(ctx, "connect"); err != nil {
		return nil, err
	}
	f.mu.Lock()
	f.open++
	f.mu.Unlock()
	c := &scriptedConn{db: f}
	if f.shape != nil {
		return f.shape(c), nil
	}
	return fullConn{c, c.execerContext(), c.queryerContext(), c.pinger(), c.preparer(), c.beginner(), c.resetter(), c.validator()}, nil
}

func (f *scripted) Driver() driver.Driver { return scriptedDriver{} }

type scriptedDriver struct{}

func (scriptedDriver) Open(string) (driver.Conn, error) { return nil, errors.New("not this way") }

type fullConn struct {
	*scriptedConn
	driver.ExecerContext
	driver.QueryerContext
	driver.Pinger
	driver.ConnPrepareContext
	driver.ConnBeginTx
	driver.SessionResetter
	driver.Validator
}

type scriptedConn struct {
	db   *scripted
	gone bool
}

func (c *scriptedConn) Prepare(query string) (driver.Stmt, error) {
	return c.prepared(context.Background(), "prepare "+query)
}

func (c *scriptedConn) prepared(ctx context.Context, op string) (driver.Stmt, error) {
	if err := c.db.do(ctx, op); err != nil {
		return nil, err
	}
	s := &scriptedStmt{c, strings.Count(op, "?")}
	if c.db.stmt != nil {
		return c.db.stmt(s), nil
	}
	return s, nil
}

func (c *scriptedConn) Close() error {
	c.db.mu.Lock()
	defer c.db.mu.Unlock()
	if !c.gone {
		c.gone = true
		c.db.open--
	}
	return nil
}

func (c *scriptedConn) Begin() (driver.Tx, error) {
	return scriptedTx{c, context.Background()}, c.db.do(context.Background(), "begin")
}

func (c *scriptedConn) query(ctx context.Context, op string) (driver.Rows, error) {
	if err := c.db.do(ctx, op); err != nil {
		return nil, err
	}
	r := &scriptedRows{c: c, ctx: ctx, left: 3}
	if c.db.rows != nil {
		return c.db.rows(r), nil
	}
	return r, nil
}

func (c *scriptedConn) exec(ctx context.Context, op string) (driver.Result, error) {
	return driver.RowsAffected(1), c.db.do(ctx, op)
}

type scriptedTx struct {
	c   *scriptedConn
	ctx context.Context
}

func (t scriptedTx) Commit() error   { return t.c.db.do(t.ctx, "commit") }
func (t scriptedTx) Rollback() error { return t.c.db.do(t.ctx, "rollback") }

type scriptedStmt struct {
	c    *scriptedConn
	want int
}

func (s *scriptedStmt) Close() error  { s.c.db.note("close statement"); return nil }
func (s *scriptedStmt) NumInput() int { return s.want }
func (s *scriptedStmt) Exec(args []driver.Value) (driver.Result, error) {
	return s.c.exec(context.Background(), fmt.Sprint("statement exec ", args))
}

func (s *scriptedStmt) Query(args []driver.Value) (driver.Rows, error) {
	return s.c.query(context.Background(), fmt.Sprint("statement query ", args))
}

type scriptedRows struct {
	c    *scriptedConn
	ctx  context.Context
	left int
}

func (r *scriptedRows) Columns() []string { return []string{"n"} }
func (r *scriptedRows) Close() error      { r.c.db.note("close rows"); return nil }
func (r *scriptedRows) Next(dest []driver.Value) error {
	if err := r.c.db.do(r.ctx, "next"); err != nil {
		return err
	}
	if r.left == 0 {
		return io.EOF
	}
	dest[0] = int64(r.left)
	r.left--
	return nil
}

// The parts of a connection, by the interfaces that database/sql asks for.
type (
	execs1   struct{ c *scriptedConn }
	execs2   struct{ c *scriptedConn }
	queries1 struct{ c *scriptedConn }
	queries2 struct{ c *scriptedConn }
	others   struct{ c *scriptedConn }
)

func (c *scriptedConn) execer() execs1           { return execs1{c} }
func (c *scriptedConn) execerContext() execs2    { return execs2{c} }
func (c *scriptedConn) queryer() queries1        { return queries1{c} }
func (c *scriptedConn) queryerContext() queries2 { return queries2{c} }
func (c *scriptedConn) checker() others          { return others{c} }
func (c *scriptedConn) pinger() others           { return others{c} }
func (c *scriptedConn) preparer() others         { return others{c} }
func (c *scriptedConn) beginner() others         { return others{c} }
func (c *scriptedConn) resetter() others         { return others{c} }
func (c *scriptedConn) validator() others        { return others{c} }

func (e execs1) Exec(query string, args []driver.Value) (driver.Result, error) {
	return e.c.exec(context.Background(), fmt.Sprint("exec1 ", query, args))
}

func (e execs2) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	return e.c.exec(ctx, fmt.Sprint("exec2 ", query, args))
}

func (q queries1) Query(query string, args []driver.Value) (driver.Rows, error) {
	return q.c.query(context.Background(), fmt.Sprint("query1 ", query, args))
}

func (q queries2) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	return q.c.query(ctx, fmt.Sprint("query2 ", query, args))
}

func (o others) CheckNamedValue(v *driver.NamedValue) error {
	if s, ok := v.Value.(special); ok {
		v.Value = "special " + string(s)
		return nil
	}
	return driver.ErrSkip
}

// special is an argument that only some drivers take.
type special string

func (o others) Ping(ctx context.Context) error { return o.c.db.do(ctx, "ping") }
func (o others) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	return o.c.prepared(ctx, "prepare2 "+query)
}

func (o others) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	return scriptedTx{o.c, ctx}, o.c.db.do(ctx, fmt.Sprint("begin2 ", opts))
}
func (o others) ResetSession(ctx context.Context) error { return o.c.db.do(ctx, "reset") }
func (o others) IsValid() bool                          { return o.c.db.do(context.Background(), "valid") == nil }

// dependency has no bounds but what a test sets.
func dependency(t testing.TB, p policy.Policy, opts ...gabion.Option) *gabion.Dependency {
	t.Helper()
	return gabion.New("db", p, opts...)
}

func wrapped(t testing.TB, f *scripted, d *gabion.Dependency) *sql.DB {
	t.Helper()
	db := sql.OpenDB(gabionsql.Connector(f, d))
	t.Cleanup(func() { db.Close() })
	return db
}
