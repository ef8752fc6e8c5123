package drivers

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/gabion-go/gabion/classify"
	"github.com/gabion-go/gabion/internal/testservers"
	"github.com/gabion-go/gabion/policy"
)

// The driver tells of each connection that breaks.
func init() { mysql.SetLogger(log.New(io.Discard, "", 0)) }

// A maria is a real server of MySQL's family.
type maria struct {
	*testing.T
	server *testservers.Server
	db     *sql.DB
}

func newMaria(t *testing.T, settings ...string) *maria {
	m := &maria{T: t, server: testservers.StartMariaDB(t, settings...)}
	m.db = m.open(m.server.DSN)
	m.exec("CREATE TABLE counters (id integer PRIMARY KEY, n integer NOT NULL) ENGINE=InnoDB")
	m.exec("INSERT INTO counters VALUES (1, 0), (2, 0)")
	return m
}

func (m *maria) open(dsn string) *sql.DB {
	db, err := sql.Open("mysql", dsn)
	if err != nil {
		m.Fatal(err)
	}
	m.Cleanup(func() { db.Close() })
	return db
}

func (m *maria) exec(text string) {
	m.Helper()
	if _, err := m.db.ExecContext(m.Context(), text); err != nil {
		m.Fatalf("%s: %v", text, err)
	}
}

// begin begins a transaction with a statement.
func (m *maria) begin(text string) *sql.Tx {
	m.Helper()
	tx, err := m.db.BeginTx(m.Context(), nil)
	if err == nil {
		m.Cleanup(func() { tx.Rollback() })
		_, err = tx.ExecContext(m.Context(), text)
	}
	if err != nil {
		m.Fatalf("%s: %v", text, err)
	}
	return tx
}

func (m *maria) isMaria() bool {
	var version string
	if err := m.db.QueryRowContext(m.Context(), "SELECT VERSION()").Scan(&version); err != nil {
		m.Fatal(err)
	}
	return strings.Contains(version, "MariaDB")
}

const first, second = "UPDATE counters SET n = n + 1 WHERE id = 1", "UPDATE counters SET n = n + 1 WHERE id = 2"

// What a real server says, and what becomes of the transaction in which it says so.
func TestMariaDBsOwnErrors(t *testing.T) {
	m := newMaria(t, "max-connections=20")
	again := policy.Outcome{Class: policy.ClassContention}
	undone := policy.Refused(policy.ClassContention)
	maria := m.isMaria()
	nowait := map[bool]string{true: "1205", false: "3572"}[maria]
	for _, tt := range []struct {
		name  string
		fails func() error
		want  policy.Outcome
	}{
		{"a deadlock undoes the transaction", m.deadlock, coded(undone, "1213")},
		{"a lock that is not had in time undoes the statement", m.lockWait, coded(again, "1205")},
		{"a lock that is not had at once undoes the statement", m.noWait, coded(again, nowait)},
		{"a row that changed since the snapshot undoes the transaction", m.changed, coded(undone, "1020")},
		{"a duplicate is the statement's fault", m.duplicate, coded(policy.Outcome{Class: policy.ClassClient}, "23000")},
		{"a server that only reads", m.readOnly, coded(policy.Outcome{Class: policy.ClassServer}, "1290")},
		{"no room for connections", m.full, policy.Outcome{Class: policy.ClassServer, NeverSent: true, Busy: true, Code: "1040"}},
		{"a connection that was killed", m.killed, policy.Failed(policy.ClassUnclassified)},
	} {
		if !maria && tt.want.Code == "1020" {
			continue // MySQL itself lets the later transaction win
		}
		t.Run(tt.name, func(t *testing.T) {
			m.T = t
			m.exec("UPDATE counters SET n = 0")
			err := tt.fails()
			if err == nil {
				t.Fatal("the server reports no error")
			}
			if got := classify.Error(err); got != tt.want {
				t.Errorf("%v is %+v, want %+v", err, got, tt.want)
			}
			if got := classify.Error(fmt.Errorf("transfer: %w", err)); got != tt.want {
				t.Errorf("wrapped: %+v, want %+v", got, tt.want)
			}
		})
	}
}

// stays reports whether an earlier statement of a transaction is still there.
func (m *maria) stays(tx *sql.Tx, want bool) {
	m.Helper()
	if err := tx.Commit(); err != nil && want {
		m.Errorf("commit: %v", err)
	}
	var n int
	if err := m.db.QueryRowContext(m.Context(), "SELECT n FROM counters WHERE id = 2").Scan(&n); err != nil || n == 1 != want {
		m.Errorf("an earlier statement stays: %v, want %v (%v)", n == 1, want, err)
	}
}

func (m *maria) deadlock() error {
	other := m.begin(first)
	for n := range 20 {
		if _, err := other.ExecContext(m.Context(), fmt.Sprintf("INSERT INTO counters VALUES (%d, 0)", 10+n)); err != nil {
			m.Fatal(err)
		}
	}
	tx := m.begin(second)
	done := make(chan error)
	go func() {
		_, err := other.ExecContext(m.Context(), "UPDATE counters SET n = n WHERE id = 2")
		done <- err
	}()
	_, err := tx.ExecContext(m.Context(), first)
	if err := <-done; err != nil {
		m.Errorf("the other: %v", err)
	}
	other.Rollback()
	m.stays(tx, false)
	return err
}

func (m *maria) lockWait() error {
	other := m.begin(first)
	tx := m.begin(second)
	if _, err := tx.ExecContext(m.Context(), "SET innodb_lock_wait_timeout = 1"); err != nil {
		m.Fatal(err)
	}
	_, err := tx.ExecContext(m.Context(), first)
	other.Rollback()
	m.stays(tx, true)
	return err
}

func (m *maria) noWait() error {
	other := m.begin(first)
	tx := m.begin(second)
	_, err := tx.ExecContext(m.Context(), "SELECT n FROM counters WHERE id = 1 FOR UPDATE NOWAIT")
	other.Rollback()
	m.stays(tx, true)
	return err
}

// changed is an error of MariaDB alone.
func (m *maria) changed() error {
	if !m.isMaria() {
		return nil
	}
	conn, err := m.db.Conn(m.Context())
	if err != nil {
		m.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.ExecContext(m.Context(), "SET SESSION innodb_snapshot_isolation = ON"); err != nil {
		m.Fatal(err)
	}
	tx, err := conn.BeginTx(m.Context(), nil)
	if err != nil {
		m.Fatal(err)
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(m.Context(), second); err != nil {
		m.Fatal(err)
	}
	var n int
	if err := tx.QueryRowContext(m.Context(), "SELECT n FROM counters WHERE id = 1").Scan(&n); err != nil {
		m.Fatal(err)
	}
	m.exec(first)
	_, err = tx.ExecContext(m.Context(), first)
	m.stays(tx, false)
	return err
}

func (m *maria) duplicate() error {
	tx := m.begin(second)
	_, err := tx.ExecContext(m.Context(), "INSERT INTO counters VALUES (1, 0)")
	m.stays(tx, true)
	return err
}

func (m *maria) readOnly() error {
	m.exec("CREATE USER IF NOT EXISTS till@'127.0.0.1'")
	m.exec("GRANT ALL ON test.* TO till@'127.0.0.1'")
	till := m.open(strings.Replace(m.server.DSN, "root@", "till@", 1))
	m.exec("SET GLOBAL read_only = 1")
	defer m.exec("SET GLOBAL read_only = 0")
	_, err := till.ExecContext(m.Context(), first)
	return err
}

func (m *maria) full() error {
	conns := m.open(m.server.DSN)
	for range 50 { // one more than the rest is there for an administrator
		if _, err := conns.Conn(context.WithoutCancel(m.Context())); err != nil {
			conns.Close()
			return err
		}
	}
	return errors.New("there is always room")
}

func (m *maria) killed() error {
	tx := m.begin(second)
	var id int
	if err := tx.QueryRowContext(m.Context(), "SELECT CONNECTION_ID()").Scan(&id); err != nil {
		m.Fatal(err)
	}
	m.exec(fmt.Sprint("KILL ", id))
	_, err := tx.ExecContext(m.Context(), first)
	m.stays(tx, false)
	return err
}
