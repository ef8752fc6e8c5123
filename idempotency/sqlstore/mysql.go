package sqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/internal/sqlkit"
	"github.com/gabion-go/gabion/internal/sqltable"
	"github.com/gabion-go/gabion/internal/sqltx"
)

// MySQL is MariaDB 10.6 and later and MySQL 8.0 and later, with tables of InnoDB, at any
// isolation level but READ UNCOMMITTED. The driver is github.com/go-sql-driver/mysql, whose
// errors package classify knows; contrib/mysqlstore opens it.
//
// A transaction locks the row of its key, which a rollback takes away again. Another claim of
// the key fails at once with "in progress"; with MySQL, whose locks can't be asked for that,
// after a second, or in a transaction of one's own after innodb_lock_wait_timeout.
var MySQL = Dialect{
	kit: sqlkit.MySQL, mysql: true, hash: "varbinary(32)", check: checkMySQL,
	// The row stands for no record: it expired long ago. MariaDB reads the comment, MySQL does not.
	lock: `/*M!100301 SET STATEMENT innodb_lock_wait_timeout = 0 FOR */ INSERT INTO {table} (id, {columns})
		VALUES (?, 1, 1, 2, 2, 0, 0, '', '', 0, 0, 0, 1, 0, 1, NULL) ON DUPLICATE KEY UPDATE rev = rev`,
}

// asMySQL writes what MySQL says otherwise. The value that a statement gives to
// LAST_INSERT_ID comes with its answer.
func (s *statements) asMySQL() {
	s.schema = strings.NewReplacer("{more}", ",\n\tKEY {index}_due (due)", "{options}", " ENGINE=InnoDB").Replace(s.schema)
	s.index = ""
	s.insertNew = `INSERT IGNORE INTO {table} (id, {columns})
		SELECT ?, 1, ?, 1, ?, n DIV 1000, 1, ?, ?, n + ?, LAST_INSERT_ID(n), 0, 0, ?, n + ?, NULL FROM (SELECT {now} AS n) AS clock`
	s.insertOne = `INSERT IGNORE INTO {table} (id, {columns}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	s.lockOne += " FOR UPDATE" // what is there, and not what the transaction saw at its start
}

// mysqlInsert inserts a record and returns when, or sql.ErrNoRows if there is one.
func mysqlInsert(ctx context.Context, q queryer, text string, values []any) (created int64, err error) {
	res, err := q.ExecContext(ctx, text, values...)
	if err != nil {
		return 0, err
	}
	n, err := res.RowsAffected()
	if err == nil && n == 0 {
		err = sql.ErrNoRows
	}
	if err != nil {
		return 0, err
	}
	return res.LastInsertId()
}

// undone reports whether MySQL rolled back a whole transaction, whose next statement it
// would make one of its own.
func (d Dialect) undone(err error) bool { return d.mysql && sqltx.Conflict(err) }

// lockRow locks the row of a key, and makes it if it is missing.
func (s *Store) lockRow(ctx context.Context, tx *sql.Tx, id idempotency.ID) (got bool, err error) {
	_, err = tx.ExecContext(ctx, s.sql.lock, id[:])
	if sqltx.Contended(err) && !sqltx.Conflict(err) {
		return false, nil // a lock that was not had in time
	}
	return err == nil, err
}

// What is said on a connection before and after a transaction of work, and once it has its
// key. MySQL rolls back the whole of a transaction after some errors and would then commit
// each further statement of the work by itself: not so without autocommit.
type session struct{ enter, claimed, leave string }

var (
	mariaSession = session{
		enter: "SET @gabion_autocommit = @@autocommit, autocommit = 0",
		leave: "SET autocommit = @gabion_autocommit",
	}
	mysqlSession = session{ // whose lock statement has no bound of its own, of a second at least
		enter: "SET @gabion_autocommit = @@autocommit, @gabion_wait = @@SESSION.innodb_lock_wait_timeout, " +
			"autocommit = 0, SESSION innodb_lock_wait_timeout = 1",
		claimed: "SET SESSION innodb_lock_wait_timeout = @gabion_wait",
		leave:   "SET autocommit = @gabion_autocommit, SESSION innodb_lock_wait_timeout = @gabion_wait",
	}
)

// leaveWithin bounds how long a connection may take to become again what it was.
const leaveWithin = 5 * time.Second

// session begins transactions on one connection, which is afterwards as it was before, or
// is closed.
func (s *Store) session(ctx context.Context, conn *sql.Conn) (g *guarded, leave func(), err error) {
	says, err := s.says(ctx, conn)
	if err == nil {
		_, err = conn.ExecContext(ctx, says.enter)
	}
	if err != nil {
		discard(conn)
		return nil, nil, err
	}
	g = &guarded{beginner: conn, claimed: says.claimed}
	return g, func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveWithin)
		defer cancel()
		var err error
		if !g.committed { // where ctx ended, database/sql rolls back by and by, and autocommit would commit
			_, err = conn.ExecContext(ctx, "ROLLBACK")
		}
		if err == nil {
			_, err = conn.ExecContext(ctx, says.leave)
		}
		if err != nil {
			discard(conn)
			return
		}
		conn.Close()
	}, nil
}

// discard closes a connection rather than giving it back.
func discard(conn *sql.Conn) {
	_ = conn.Raw(func(any) error { return driver.ErrBadConn })
	conn.Close()
}

// says returns what the server understands, which is asked the first time.
func (s *Store) says(ctx context.Context, conn *sql.Conn) (*session, error) {
	if known := s.server.Load(); known != nil {
		return known, nil
	}
	var version string
	if err := conn.QueryRowContext(ctx, "SELECT VERSION()").Scan(&version); err != nil {
		return nil, err
	}
	says := &mysqlSession
	if strings.Contains(version, "MariaDB") {
		says = &mariaSession
	}
	s.server.Store(says)
	return says, nil
}

// claimed says what is to be said once the transaction has its key.
func (s *Store) claimed(ctx context.Context, from *guarded, tx *sql.Tx) error {
	if from.claimed == "" {
		return nil
	}
	_, err := tx.ExecContext(ctx, from.claimed)
	return wrap("claim", err)
}

// checkMySQL refuses a table whose engine has no transactions, and sessions in which a
// claim would not be committed, or what is not committed would be read.
func checkMySQL(ctx context.Context, conn *sql.Conn, table string) (found []string, err error) {
	var engine *string
	place, name := "DATABASE()", table
	if before, after, dotted := strings.Cut(table, "."); dotted {
		place, name = "'"+before+"'", after
	}
	err = conn.QueryRowContext(ctx, "SELECT engine FROM information_schema.tables WHERE table_schema = "+place+" AND table_name = ?", name).Scan(&engine)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, sqltable.ErrNoTable
	}
	if err != nil {
		return nil, err
	}
	set := map[string]string{}
	for _, text := range []string{mysqlVariables, mysqlStatus} {
		if err := read(ctx, conn, text, set); err != nil {
			return nil, err
		}
	}
	switch {
	case engine == nil || !strings.EqualFold(*engine, "InnoDB"):
		return nil, fmt.Errorf("the table %s is not of InnoDB and has no transactions: ALTER TABLE %s ENGINE=InnoDB", table, table)
	case set["autocommit"] != "ON":
		return nil, errors.New("autocommit is off, so that claims would never be committed: turn it on for the connections of the records")
	case set["tx_isolation"] == "READ-UNCOMMITTED", set["transaction_isolation"] == "READ-UNCOMMITTED":
		return nil, errors.New("the isolation level is READ UNCOMMITTED, so that results would be replayed that are not committed: use READ COMMITTED or higher")
	}
	return mysqlFlaws(set), nil
}

const (
	mysqlVariables = `SHOW VARIABLES WHERE Variable_name IN ('autocommit', 'tx_isolation', 'transaction_isolation', 'version',
		'innodb_flush_log_at_trx_commit', 'log_bin', 'sync_binlog', 'innodb_doublewrite')`
	mysqlStatus = `SHOW GLOBAL STATUS LIKE 'Innodb_redo_log_enabled'`
)

func read(ctx context.Context, conn *sql.Conn, text string, into map[string]string) error {
	rows, err := conn.QueryContext(ctx, text)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var name, value string
		if err := rows.Scan(&name, &value); err != nil {
			return err
		}
		into[strings.ToLower(name)] = value
	}
	return rows.Err()
}

// mysqlFlaws returns the settings because of which acknowledged records may be lost. With
// a binary log, what is not in it is rolled back after a crash.
func mysqlFlaws(set map[string]string) (found []string) {
	maria := strings.Contains(set["version"], "MariaDB")
	if flush := set["innodb_flush_log_at_trx_commit"]; flush != "1" && !(maria && flush == "3") {
		found = append(found, "innodb_flush_log_at_trx_commit is "+flush+", so that a power cut may undo what was acknowledged: set it to 1")
	}
	if sync := set["sync_binlog"]; set["log_bin"] == "ON" && sync != "1" {
		found = append(found, "sync_binlog is "+sync+" with a binary log, so that a power cut may undo what was acknowledged: set it to 1")
	}
	if pages := set["innodb_doublewrite"]; pages == "OFF" || pages == "DETECT_ONLY" {
		found = append(found, "innodb_doublewrite is "+pages+", so that a power cut may leave half-written pages: turn it on")
	}
	if set["innodb_redo_log_enabled"] == "OFF" {
		found = append(found, "the redo log is off, so that a crash may destroy the database: ALTER INSTANCE ENABLE INNODB REDO_LOG")
	}
	return found
}
