package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"

	"github.com/gabion-go/gabion/internal/sqlkit"
	"github.com/gabion-go/gabion/internal/sqltable"
)

// A Dialect is what databases disagree about. Use [Postgres], [SQLite] or [MySQL].
type Dialect struct {
	kit    sqlkit.Dialect
	hash   string // the type of up to 32 bytes
	begun  string // by which a transaction is known again: when it began; empty if by a savepoint
	lock   string // first statement of a transaction; ? is the key, where there is one
	tryKey bool   // lock returns whether it got the key; otherwise it waits for the database
	mysql  bool   // statements and errors are MySQL's; lock makes the key's row, which a rollback takes away
	group  bool   // one writer at a time, and a commit costs a sync: changes share them
	check  func(context.Context, *sql.Conn, string) (flaws []string, err error)
	guard  func(conn any, refuse func() bool) error
}

var (
	// Postgres is PostgreSQL 11 and later, at isolation level READ COMMITTED or higher.
	// Transactions take an advisory lock that ends with them, which is safe behind a
	// pooler and costs a needless 409 if two keys' hashes collide.
	Postgres = Dialect{
		kit: sqlkit.Postgres, hash: "bytea", tryKey: true,
		begun: "(extract(epoch from now()) * 1000000)::bigint",
		lock:  "SELECT pg_try_advisory_xact_lock(?), {begun}", check: checkPostgres,
	}

	// SQLite is SQLite 3.42 and later. Open it with WAL, synchronous=FULL and a busy
	// timeout. A transaction takes the database's one write lock first, so that it
	// never has to turn a read into a write. Claims and changes that come together
	// share a transaction, and its sync. For work in transactions it needs
	// [Dialect.WithGuard], which contrib/sqlitestore has.
	SQLite = Dialect{
		kit: sqlkit.SQLite, hash: "blob", group: true, check: checkSQLite,
		lock: "UPDATE {table} SET rev = rev WHERE id = x''",
	}
)

// WithGuard returns the dialect for a driver that can refuse commits. SQLite ends a
// transaction by itself after some errors, such as a statement that was interrupted or
// OR ROLLBACK, and then commits each further statement of the work at once, so that a
// rollback would not undo them. guard makes a connection of the driver refuse to commit
// while refuse returns true; nil takes that back.
func (d Dialect) WithGuard(guard func(conn any, refuse func() bool) error) Dialect {
	d.guard = guard
	return d
}

// Statements. The first claim of a key is one round trip: machine and statement
// agree on what a new record is, and the suite checks it. The compare-and-set is on
// the token too: a record that was deleted and made anew counts from 1 again.
const (
	insertNew = `INSERT INTO {table} (id, {columns})
		SELECT ?, 1, ?, 1, ?, n / 1000, 1, ?, ?, n + ?, n, 0, 0, ?, n + ?, NULL FROM (SELECT {now} AS n) AS clock WHERE true
		ON CONFLICT (id) DO NOTHING RETURNING created`
	selectOne = `SELECT {now}, {columns} FROM {table} WHERE id = ?`
	selectNow = `SELECT {now}`
	selectTx  = `SELECT {now}, {begun}`
	insertOne = `INSERT INTO {table} (id, {columns}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING`
	updateOne = `UPDATE {table} SET rev = ?, version = ?, state = ?, guarantee = ?, token = ?, attempt = ?, fingerprint = ?, owner = ?,
		lease_until = ?, created = ?, finished = ?, expires = ?, retention = ?, due = ?, payload = ? WHERE id = ? AND rev = ? AND token = ?`
	deleteOne  = `DELETE FROM {table} WHERE id = ? AND rev = ? AND token = ?`
	selectPage = `SELECT id, {now}, {bare} FROM {table} WHERE id > ? ORDER BY id LIMIT ?`
	selectDue  = `SELECT id FROM {table} WHERE due <= {now} AND version <= ? ORDER BY due LIMIT ?`
)

// A prepared Dialect has its statements written out for one table.
type statements struct {
	schema, index, insertNew, selectOne, lockOne, selectNow, selectTx, insertOne, updateOne, deleteOne, selectDue, lock, selectPage string
}

// all returns the places of all of them.
func (s *statements) all() []*string {
	return []*string{
		&s.schema, &s.index, &s.insertNew, &s.selectOne, &s.lockOne, &s.selectNow, &s.selectTx, &s.insertOne,
		&s.updateOne, &s.deleteOne, &s.selectDue, &s.lock, &s.selectPage,
	}
}

func (d Dialect) statements(table string) (statements, error) {
	texts := statements{
		sqltable.Schema, sqltable.Index, insertNew, selectOne, selectOne, selectNow, selectTx, insertOne,
		updateOne, deleteOne, selectDue, d.lock, selectPage,
	}
	if d.mysql {
		texts.asMySQL()
	}
	fill, err := sqltable.Filler(d.kit, table, "{more}", "", "{options}", "", "{hash}", d.hash, "{begun}", cmp.Or(d.begun, "0"))
	if err != nil {
		return statements{}, fmt.Errorf("sqlstore: %w", err)
	}
	for _, text := range texts.all() {
		*text = d.kit.Bind(fill(*text))
	}
	return texts, nil
}
