package pgxstore

import (
	"fmt"

	"github.com/gabion-go/gabion/internal/sqlkit"
	"github.com/gabion-go/gabion/internal/sqltable"
)

// dialect has a server of its own: PostgreSQL 13 is the oldest that works.
var dialect = sqlkit.Dialect{Name: "pgx", Blob: sqlkit.Postgres.Blob, Now: sqlkit.Postgres.Now}

const (
	// claim inserts a new record, or returns the one that is there, or neither when
	// that was inserted since the statement began. It is what the machine makes of a
	// new record, and the suite checks that.
	claim = `WITH clock AS MATERIALIZED (SELECT {now} AS n), granted AS (
			INSERT INTO {table} (id, {columns})
			SELECT $1::bytea, 1, $2::integer, 1, $3::integer, n / 1000, 1, $4::bytea, $5::bytea, n + $6::bigint, n, 0, 0, $7::bigint, n + $8::bigint, NULL
			FROM clock ON CONFLICT (id) DO NOTHING RETURNING created)
		SELECT granted.created, clock.n, old.*
		FROM clock LEFT JOIN granted ON true LEFT JOIN (SELECT {columns} FROM {table} WHERE id = $1::bytea) AS old ON true`

	// load always returns a row: the time, and the record if there is one.
	load = `SELECT clock.n, old.* FROM (SELECT {now} AS n) AS clock LEFT JOIN (SELECT {columns} FROM {table} WHERE id = $1::bytea) AS old ON true`

	// insert and update store a record. Those moments whose bit is set in $17 count
	// from the database's clock: see values.
	//
	// insert and updateTx store it only in the transaction that began when it was claimed:
	// if the work has ended that, and perhaps begun another, its effects may be undone.
	insert   = `INSERT INTO {table} (id, {columns}) SELECT {values} FROM (SELECT {now} AS n) AS clock WHERE now() = $18::timestamptz`
	updateTx = update + ` AND now() = $19::timestamptz`
	update   = `UPDATE {table} SET (id, {columns}) = (SELECT {values} FROM (SELECT {now} AS n) AS clock)
		WHERE id = $1::bytea AND rev = $2::bigint AND token = $18::bigint`
	stored = `$1::bytea, $2::bigint + 1, $3::integer, $4::integer, $5::integer, $6::bigint, $7::integer, $8::bytea, $9::bytea,
		$10::bigint + clock.n * ($17::integer & 1), $11::bigint, $12::bigint + clock.n * (($17::integer >> 1) & 1),
		$13::bigint + clock.n * (($17::integer >> 2) & 1), $14::bigint, $15::bigint + clock.n * (($17::integer >> 3) & 1), $16::bytea`

	remove = `DELETE FROM {table} WHERE id = $1::bytea AND rev = $2::bigint AND token = $3::bigint`

	// due leaves out results, which a sweeper has no use for, and what newer programs
	// wrote.
	due = `SELECT id, {now}, rev, version, state, guarantee, token, attempt, fingerprint, owner, lease_until, created, finished, expires, retention, due,
		CASE WHEN state = 1 THEN payload END FROM {table} WHERE due <= {now} AND version <= $1::integer ORDER BY due, id LIMIT $2::integer`

	page = `SELECT id, {now}, {bare} FROM {table} WHERE id > $1::bytea ORDER BY id LIMIT $2::integer`

	tryLock = `SELECT pg_try_advisory_xact_lock($1::bigint), now()`
)

// statements are written out for one table.
type statements struct {
	schema, index, claim, load, insert, updateTx, update, remove, due, settings, page string
}

func write(table string) (statements, error) {
	fill, err := sqltable.Filler(dialect, table, "{hash}", dialect.Blob, "{more}", "", "{options}", "", "{values}", stored)
	if err != nil {
		return statements{}, fmt.Errorf("pgxstore: %w", err)
	}
	return statements{
		fill(sqltable.Schema), fill(sqltable.Index), fill(claim), fill(load), fill(insert), fill(updateTx), fill(update + " RETURNING lease_until"), fill(remove), fill(due), fill(sqltable.PostgresSettings), fill(page),
	}, nil
}
