package gabionsql_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"io"
	"sync"
	"testing"
)

// A fakeDB is a database whose answers are functions. A nil one answers well.
type fakeDB struct {
	begin, commit, rollback func(context.Context) error
	exec                    func(ctx context.Context, text string) error

	mu                             sync.Mutex
	begun, committed, rolled, open int
}

// openFake returns the database. At the end of the test no connection is in use and no
// transaction open.
func openFake(t testing.TB, f *fakeDB) *sql.DB {
	t.Helper()
	db := sql.OpenDB(f)
	t.Cleanup(func() {
		db.Close()
		f.wantClean(t, db)
	})
	return db
}

func (f *fakeDB) wantClean(t testing.TB, db *sql.DB) {
	t.Helper()
	if n := db.Stats().InUse; n != 0 {
		t.Errorf("%d connections are in use", n)
	}
	if n := f.count(&f.open); n != 0 {
		t.Errorf("%d transactions are open", n)
	}
}

func (f *fakeDB) count(what *int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return *what
}

func (f *fakeDB) add(what *int, n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	*what += n
}

func (f *fakeDB) Connect(context.Context) (driver.Conn, error) { return &fakeConn{f: f}, nil }

func (f *fakeDB) Driver() driver.Driver { return nil }

// A fakeConn keeps the context of its transaction, as pgx does.
type fakeConn struct {
	f   *fakeDB
	ctx context.Context
}

func answer(f func(context.Context) error, ctx context.Context) error {
	if f == nil {
		return nil
	}
	return f(ctx)
}

func (c *fakeConn) BeginTx(ctx context.Context, _ driver.TxOptions) (driver.Tx, error) {
	if err := answer(c.f.begin, ctx); err != nil {
		return nil, err
	}
	c.ctx = ctx
	c.f.add(&c.f.begun, 1)
	c.f.add(&c.f.open, 1)
	return c, nil
}

func (c *fakeConn) Begin() (driver.Tx, error) { return nil, driver.ErrSkip }

func (c *fakeConn) Commit() error {
	err := answer(c.f.commit, c.ctx)
	c.f.add(&c.f.open, -1)
	if err == nil {
		c.f.add(&c.f.committed, 1)
	}
	return err
}

func (c *fakeConn) Rollback() error {
	err := answer(c.f.rollback, c.ctx)
	c.f.add(&c.f.open, -1)
	if err == nil {
		c.f.add(&c.f.rolled, 1)
	}
	return err
}

func (c *fakeConn) ExecContext(ctx context.Context, text string, _ []driver.NamedValue) (driver.Result, error) {
	if c.f.exec != nil {
		if err := c.f.exec(ctx, text); err != nil {
			return nil, err
		}
	}
	return driver.RowsAffected(1), nil
}

func (c *fakeConn) QueryContext(context.Context, string, []driver.NamedValue) (driver.Rows, error) {
	return fakeRows{}, nil
}

func (c *fakeConn) Prepare(string) (driver.Stmt, error) { return nil, driver.ErrSkip }

func (c *fakeConn) ResetSession(context.Context) error { return nil }

func (c *fakeConn) IsValid() bool { return true }

func (c *fakeConn) Close() error { return nil }

// fakeRows are a million rows.
type fakeRows struct{}

func (fakeRows) Columns() []string { return []string{"n"} }

func (fakeRows) Close() error { return nil }

func (fakeRows) Next(to []driver.Value) error {
	if len(to) == 0 {
		return io.EOF
	}
	to[0] = int64(1)
	return nil
}
