package sql

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/gabionsql"
	"github.com/gabion-go/gabion/gabiontest"
	"github.com/gabion-go/gabion/internal/testservers"
	"github.com/gabion-go/gabion/policy"
)

// A mariaDB is a server, a witness that is no part of the test, and pools over connectors.
type mariaDB struct {
	*testing.T
	*testservers.Server
	witness *sql.DB
}

func startMariaDB(t *testing.T) *mariaDB {
	t.Helper()
	m := &mariaDB{T: t, Server: testservers.StartMariaDB(t, "innodb_lock_wait_timeout=60")}
	m.witness = open(t, "mysql", m.DSN, 8)
	execute(t, m.witness, "CREATE TABLE numbers (id integer PRIMARY KEY, n integer NOT NULL) ENGINE=InnoDB", "INSERT INTO numbers VALUES (1, 0), (2, 0)")
	m.until("the server is some seconds old", func() bool {
		var name string
		var seconds int
		if err := m.witness.QueryRow("SHOW GLOBAL STATUS LIKE 'Uptime'").Scan(&name, &seconds); err != nil {
			t.Fatal(err)
		}
		return seconds >= 2
	})
	return m
}

// until waits for a fact, however long that takes on a busy machine.
func (m *mariaDB) until(fact string, is func() bool) {
	m.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(time.Minute); !is(); <-tick.C {
		if time.Now().After(end) {
			m.Fatalf("never: %s", fact)
		}
	}
}

// running counts the statements of others with a text.
func (m *mariaDB) running(text string) int {
	m.Helper()
	var n int
	err := m.witness.QueryRow("SELECT count(*) FROM information_schema.PROCESSLIST WHERE ID <> CONNECTION_ID() AND INFO LIKE ?", text+"%").Scan(&n)
	if err != nil {
		m.Fatal(err)
	}
	return n
}

// pool opens the database at an address through a Connector, and counts what is killed.
func (m *mariaDB) pool(addr string, d *gabion.Dependency, kill bool) (*sql.DB, *atomic.Int32) {
	m.Helper()
	config, err := mysql.ParseDSN(strings.Replace(m.DSN, m.Addr, addr, 1))
	if err != nil {
		m.Fatal(err)
	}
	base, err := mysql.NewConnector(config)
	if err != nil {
		m.Fatal(err)
	}
	kills := new(atomic.Int32)
	if base = (counting{base, kills}); !kill {
		base = gabionsql.WithKill(base, false)
	}
	db, err := gabionsql.Open(base, d)
	if err != nil {
		m.Fatal(err)
	}
	m.Cleanup(func() { db.Close() })
	return db, kills
}

// counting is a connector of which each KILL that the server did is counted.
type counting struct {
	driver.Connector
	kills *atomic.Int32
}

func (c counting) Connect(ctx context.Context) (driver.Conn, error) {
	made, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return countingConn{made.(mysqlConn), c.kills}, nil
}

type mysqlConn interface {
	fullConn
	driver.Pinger
	driver.SessionResetter
	driver.Validator
	driver.NamedValueChecker
}

type countingConn struct {
	mysqlConn
	kills *atomic.Int32
}

func (c countingConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	done, err := c.mysqlConn.ExecContext(ctx, query, args)
	if strings.HasPrefix(query, "KILL") && err == nil {
		c.kills.Add(1)
	}
	return done, err
}

func timed(attempt time.Duration, limit int) *gabion.Dependency {
	return gabion.New("db", policy.Policy{
		Bulkhead: policy.Bulkhead{Limit: limit}, Breaker: policy.Breaker{Off: true},
		Timeout: policy.Timeout{Attempt: attempt, Call: attempt, Margin: policy.Off}, Retry: policy.Retry{Attempts: 1},
	})
}

// A statement whose time is over ends at the server, too, however it was sent; without the kill
// it runs on.
func TestAStatementEndsWithItsTimeAtMariaDB(t *testing.T) {
	gabiontest.NoLeaks(t)
	m := startMariaDB(t)
	const text = "SELECT SLEEP(600)"
	ways := map[string]func(ctx context.Context, d *gabion.Dependency, db *sql.DB) error{
		"gabionsql.Query": func(ctx context.Context, d *gabion.Dependency, db *sql.DB) error {
			return gabionsql.QueryRow(ctx, d, db, text).Scan(new(int))
		},
		"gabionsql.Exec": func(ctx context.Context, d *gabion.Dependency, db *sql.DB) error {
			_, err := gabionsql.Exec(ctx, d, db, text)
			return err
		},
		"DB.Exec": func(ctx context.Context, _ *gabion.Dependency, db *sql.DB) error {
			_, err := db.ExecContext(ctx, text)
			return err
		},
		"a prepared statement": func(ctx context.Context, _ *gabion.Dependency, db *sql.DB) error {
			return db.QueryRowContext(ctx, "SELECT SLEEP(?)", 600).Scan(new(int))
		},
		"RunTx": func(ctx context.Context, d *gabion.Dependency, db *sql.DB) error {
			return gabionsql.RunTx(ctx, d, db, func(ctx context.Context, tx *sql.Tx) error {
				_, err := tx.ExecContext(ctx, text)
				return err
			})
		},
		"a transaction": func(ctx context.Context, _ *gabion.Dependency, db *sql.DB) error {
			tx, err := db.BeginTx(ctx, nil)
			if err != nil {
				return err
			}
			defer tx.Rollback()
			_, err = tx.ExecContext(ctx, text)
			return err
		},
		"rows that never come": func(ctx context.Context, _ *gabion.Dependency, db *sql.DB) error {
			rows, err := db.QueryContext(ctx, "SELECT n, SLEEP(600) FROM numbers")
			if err != nil {
				return err
			}
			defer rows.Close()
			for rows.Next() {
			}
			return rows.Err()
		},
	}
	for way, use := range ways {
		t.Run(way, func(t *testing.T) {
			m := &mariaDB{t, m.Server, m.witness}
			d := timed(200*time.Millisecond, 2)
			db, kills := m.pool(m.Addr, d, true)
			if err := use(t.Context(), d, db); err == nil {
				t.Fatal("no error")
			}
			m.until("the statement has ended", func() bool { return m.running("SELECT ") == 0 })
			if err := db.Close(); err != nil || kills.Load() != 1 {
				t.Errorf("%d connections were killed, %v", kills.Load(), err)
			}
		})
	}
	t.Run("without the kill", func(t *testing.T) {
		m := &mariaDB{t, m.Server, m.witness}
		d := timed(200*time.Millisecond, 2)
		db, _ := m.pool(m.Addr, d, false)
		if err := ways["gabionsql.Exec"](t.Context(), d, db); err == nil {
			t.Fatal("no error")
		}
		db.Close()
		if n := m.running(text); n != 1 {
			t.Errorf("%d statements are running", n)
		}
	})
}

// A write that waited for a lock until its time was over does not happen later, behind what was
// written since. Without the kill it does: that is what "safe" would promise away.
func TestAWriteWhoseTimeIsOverDoesNotHappenLater(t *testing.T) {
	m := startMariaDB(t)
	for _, kill := range []bool{true, false} {
		t.Run(fmt.Sprintf("kill %v", kill), func(t *testing.T) {
			m := &mariaDB{t, m.Server, m.witness}
			execute(t, m.witness, "UPDATE numbers SET n = 0")
			d := timed(300*time.Millisecond, 2)
			db, _ := m.pool(m.Addr, d, kill)
			holder, err := m.witness.Begin()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := holder.Exec("UPDATE numbers SET n = 7 WHERE id = 1"); err != nil {
				t.Fatal(err)
			}
			if _, err := gabionsql.Exec(t.Context(), d, db, "UPDATE numbers SET n = 1 WHERE id = 1", gabion.WithIdempotent()); err == nil {
				t.Fatal("the lock was not held")
			}
			if kill {
				m.until("the write has ended", func() bool { return m.running("UPDATE numbers SET n = 1") == 0 })
			} else if n := m.running("UPDATE numbers SET n = 1"); n != 1 {
				t.Fatalf("%d writes wait", n)
			}
			if err := holder.Commit(); err != nil {
				t.Fatal(err)
			}
			number := func() (n int) {
				if err := m.witness.QueryRow("SELECT n FROM numbers WHERE id = 1").Scan(&n); err != nil {
					t.Fatal(err)
				}
				return n
			}
			m.until("no write waits", func() bool { return m.running("UPDATE ") == 0 })
			if !kill {
				m.until("the write has happened late", func() bool { return number() == 1 })
			} else if n := number(); n != 7 {
				t.Errorf("the number is %d: the write came late", n)
			}
		})
	}
}

// Statements that end at about their time share the pool with others. Those are never killed,
// and each of them is answered.
func TestAKillHitsNoOtherStatement(t *testing.T) {
	gabiontest.NoLeaks(t)
	m := startMariaDB(t)
	d := timed(time.Minute, 8)
	rounds := 600
	if testing.Short() {
		rounds = 150
	}
	db, kills := m.pool(m.Addr, d, true)
	var late, wrong atomic.Int32
	clients(8, func(client int) {
		for n := range rounds / 8 {
			if client%2 == 0 {
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
				if _, err := db.ExecContext(ctx, fmt.Sprintf("DO SLEEP(0.0%02d)", 5+n%30)); err != nil {
					late.Add(1)
				}
				cancel()
				continue
			}
			var got int
			if err := db.QueryRowContext(t.Context(), "SELECT ? + SLEEP(0.01)", n).Scan(&got); err != nil || got != n {
				wrong.Add(1)
				t.Errorf("another statement: %d, want %d: %v", got, n, err)
			}
		}
	})
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if late.Load() == 0 || kills.Load() == 0 || wrong.Load() != 0 {
		t.Errorf("%d were late, %d kills, %d others went wrong", late.Load(), kills.Load(), wrong.Load())
	}
	t.Logf("%d were late, %d kills, %d others went wrong", late.Load(), kills.Load(), wrong.Load())
}
