package gabionsql_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion/gabionsql"
	"github.com/gabion-go/gabion/policy"
)

// A mysqlLike is a server that answers what a killer asks, and writes down in which order
// connections are closed and killed.
type mysqlLike struct {
	mu      sync.Mutex
	name    string
	began   time.Time
	ids     int
	proxied bool // the one question is answered by something else
	agrees  bool // KILL is answered by something else, which says yes to any id
	mute    bool // it does not say who it is
	away    bool
	log     []string
}

func (m *mysqlLike) note(format string, args ...any) {
	m.log = append(m.log, fmt.Sprintf(format, args...))
}

func (m *mysqlLike) said() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return strings.Join(m.log, ", ")
}

func (m *mysqlLike) set(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f()
}

func (m *mysqlLike) Driver() driver.Driver { return scriptedDriver{} }

func (m *mysqlLike) Connect(context.Context) (driver.Conn, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.away {
		return nil, errors.New("away")
	}
	m.ids++
	return &mysqlLikeConn{m: m, id: m.ids}, nil
}

type mysqlLikeConn struct {
	m     *mysqlLike
	id    int
	broke bool
}

func (c *mysqlLikeConn) Prepare(string) (driver.Stmt, error) { return nil, errors.New("no") }
func (c *mysqlLikeConn) Begin() (driver.Tx, error)           { return nil, errors.New("no") }
func (c *mysqlLikeConn) IsValid() bool                       { return !c.broke }
func (c *mysqlLikeConn) Close() error {
	c.m.set(func() { c.m.note("close %d", c.id) })
	return nil
}

func (c *mysqlLikeConn) ResetSession(context.Context) error {
	if c.broke {
		return driver.ErrBadConn
	}
	return nil
}

func (c *mysqlLikeConn) ExecContext(ctx context.Context, text string, _ []driver.NamedValue) (driver.Result, error) {
	switch {
	case text == "KILL CONNECTION 4294967295" && !c.m.agrees:
		return nil, errors.New("unknown thread id")
	case text == "KILL CONNECTION 4294967295":
	case strings.HasPrefix(text, "KILL"):
		c.m.set(func() { c.m.note("%s", text) })
	case text == "HANG":
		<-ctx.Done()
		c.broke = true // as the driver does
		return nil, ctx.Err()
	case text == "FAIL":
		return nil, errors.New("no")
	}
	return driver.RowsAffected(1), nil
}

func (c *mysqlLikeConn) QueryContext(_ context.Context, text string, _ []driver.NamedValue) (driver.Rows, error) {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	switch text {
	case "SELECT CONNECTION_ID(), @@hostname, @@port, @@server_id":
		if c.m.mute {
			return nil, errors.New("unknown variable")
		}
		return &oneRow{int64(c.id), []byte(c.m.name), []byte("3306"), int64(1)}, nil
	case "SELECT CONNECTION_ID()":
		if c.m.proxied {
			return &oneRow{int64(1000 + c.id)}, nil
		}
		return &oneRow{int64(c.id)}, nil
	}
	return &oneRow{"Uptime", []byte(fmt.Sprint(int(time.Since(c.m.began).Seconds())))}, nil
}

// oneRow are the values of one row, of which nothing is left when it was read.
type oneRow []driver.Value

func (r *oneRow) Columns() []string { return make([]string, len(*r)) }
func (r *oneRow) Close() error      { return nil }
func (r *oneRow) Next(to []driver.Value) error {
	if len(*r) == 0 || len(to) == 0 {
		return io.EOF
	}
	copy(to, *r)
	*r = (*r)[:0]
	return nil
}

// What a broken connection left running is killed, after the connection is closed, and nothing
// else ever is.
func TestWhatABrokenConnectionLeftIsKilled(t *testing.T) {
	hang := func(t *testing.T, db *sql.DB) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := db.ExecContext(ctx, "HANG"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the statement: %v", err)
		}
	}
	for _, c := range []struct {
		fact string
		off  bool
		use  func(t *testing.T, m *mysqlLike, db *sql.DB)
		want string
	}{
		{"a statement whose time is over", false, func(t *testing.T, _ *mysqlLike, db *sql.DB) { hang(t, db) },
			"close 1, KILL CONNECTION 1, close 2"},
		{"where that is not wanted", true, func(t *testing.T, _ *mysqlLike, db *sql.DB) { hang(t, db) }, "close 1"},
		{"a statement that fails", false, func(_ *testing.T, _ *mysqlLike, db *sql.DB) { _, _ = db.Exec("FAIL") }, "close 1"},
		{"a connection that is no longer needed", false, func(_ *testing.T, _ *mysqlLike, db *sql.DB) { _, _ = db.Exec("WORK") }, "close 1"},
		{"a connection that broke while it was idle", false, func(t *testing.T, _ *mysqlLike, db *sql.DB) {
			c, err := db.Conn(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var idle *mysqlLikeConn
			_ = gabionsql.Raw(c, func(c any) error { idle = c.(*mysqlLikeConn); return nil })
			_ = c.Close()
			idle.broke = true
			_, _ = db.Exec("WORK")
		}, "close 1, close 2"},
		{"a server that is away for a while", false, func(t *testing.T, m *mysqlLike, db *sql.DB) {
			time.AfterFunc(10*time.Second, func() { m.set(func() { m.away = false }) })
			time.AfterFunc(time.Millisecond, func() { m.set(func() { m.away = true }) })
			hang(t, db)
			time.Sleep(20 * time.Second)
		}, "close 1, KILL CONNECTION 1, close 2"},
		{"a server that is away for too long", false, func(t *testing.T, m *mysqlLike, db *sql.DB) {
			time.AfterFunc(time.Minute, func() { m.set(func() { m.away = false }) })
			time.AfterFunc(time.Millisecond, func() { m.set(func() { m.away = true }) })
			hang(t, db)
			time.Sleep(2 * time.Minute)
		}, "close 1"},
		{"a server that began anew", false, func(t *testing.T, m *mysqlLike, db *sql.DB) {
			time.AfterFunc(time.Millisecond, func() { m.set(func() { m.began = time.Now() }) })
			hang(t, db)
		}, "close 1, close 2"},
		{"a proxy with ids of its own", false, func(t *testing.T, m *mysqlLike, db *sql.DB) {
			m.set(func() { m.proxied = true })
			hang(t, db)
		}, "close 1, close 2"},
		{"a proxy that takes KILL for its own ids", false, func(t *testing.T, m *mysqlLike, db *sql.DB) {
			m.set(func() { m.agrees = true })
			hang(t, db)
		}, "close 1, close 2"},
		{"a server that does not say who it is", false, func(t *testing.T, m *mysqlLike, db *sql.DB) {
			m.set(func() { m.mute = true })
			hang(t, db)
		}, "close 1"},
		{"several at once", false, func(t *testing.T, m *mysqlLike, db *sql.DB) {
			var all sync.WaitGroup
			for range 2 {
				all.Go(func() { hang(t, db) })
			}
			all.Wait()
		}, "2 killed"},
	} {
		t.Run(c.fact, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &mysqlLike{name: "one", began: time.Now().Add(-time.Hour)}
				db := sql.OpenDB(gabionsql.Connector(gabionsql.WithKill(m, !c.off), dependency(t, policy.Policy{})))
				c.use(t, m, db)
				synctest.Wait()
				if err := db.Close(); err != nil {
					t.Error(err)
				}
				got := m.said()
				if n := strings.Count(got, "KILL"); c.want == fmt.Sprint(n, " killed") {
					got = c.want
				}
				if got != c.want {
					t.Errorf("%s, want %s", got, c.want)
				}
			})
		})
	}
}

// A kill that leads to another server is not sent there.
func TestAKillAtAnotherServerIsNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &mysqlLike{name: "one", began: time.Now().Add(-time.Hour)}
		db := sql.OpenDB(gabionsql.Connector(gabionsql.WithKill(m, true), dependency(t, policy.Policy{})))
		if _, err := db.Exec("WORK"); err != nil {
			t.Fatal(err)
		}
		m.set(func() { m.name = "two" })
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, _ = db.ExecContext(ctx, "HANG")
		synctest.Wait()
		if strings.Contains(m.said(), "KILL") {
			t.Errorf("at the other server: %s", m.said())
		}
		m.set(func() { m.name = "one" })
		time.Sleep(10 * time.Second)
		if n := strings.Count(m.said(), "KILL CONNECTION 1"); n != 1 {
			t.Errorf("at the server itself: %s", m.said())
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
}

// Close of the database does not wait long for what it can't kill.
func TestCloseEndsTheKiller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &mysqlLike{name: "one", began: time.Now().Add(-time.Hour)}
		db := sql.OpenDB(gabionsql.Connector(gabionsql.WithKill(m, true), dependency(t, policy.Policy{})))
		time.AfterFunc(time.Millisecond, func() { m.set(func() { m.away = true }) })
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, _ = db.ExecContext(ctx, "HANG")
		began := time.Now()
		if err := db.Close(); err != nil || time.Since(began) > 2*time.Second {
			t.Errorf("it took %v: %v", time.Since(began), err)
		}
	})
}
