package pgxstore

import (
	"fmt"
	"regexp"
	"strings"
)

var tableName = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*(\.[a-zA-Z_][a-zA-Z0-9_]*)?$`)

// now is the database's clock in nanoseconds since 1970.
const now = "(floor(extract(epoch from clock_timestamp()) * 1000000)::bigint * 1000)"

// columns are all but id, in the order in which they are read and written. payload is
// the record's own form; the columns before it are what counts.
const columns = "rev, version, state, guarantee, token, attempt, fingerprint, owner, lease_until, created, finished, expires, retention, due, payload"

// The schema is that of package sqlstore.
const schema = `CREATE TABLE IF NOT EXISTS {table} (
	id bytea PRIMARY KEY,
	rev bigint NOT NULL,
	version integer NOT NULL,
	state integer NOT NULL,
	guarantee integer NOT NULL,
	token bigint NOT NULL,
	attempt integer NOT NULL,
	fingerprint bytea NOT NULL,
	owner bytea NOT NULL,
	lease_until bigint NOT NULL,
	created bigint NOT NULL,
	finished bigint NOT NULL,
	expires bigint NOT NULL,
	retention bigint NOT NULL,
	due bigint NOT NULL,
	payload bytea
)`

const index = `CREATE INDEX IF NOT EXISTS {index} ON {table} (due)`

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

	settings = `SELECT current_setting('synchronous_commit'), current_setting('fsync'), current_setting('full_page_writes'),
		(SELECT relpersistence::text FROM pg_class WHERE oid = to_regclass('{table}'))`
)

// statements are written out for one table.
type statements struct {
	schema, index, claim, load, insert, updateTx, update, remove, due, settings, page string
}

func write(table string) (statements, error) {
	if !tableName.MatchString(table) {
		return statements{}, fmt.Errorf("pgxstore: %q is no table name", table)
	}
	name := strings.ReplaceAll(table, ".", "_") + "_due"
	fill := strings.NewReplacer("{table}", table, "{index}", name, "{columns}", columns, "{now}", now, "{values}", stored,
		"{bare}", strings.Replace(columns, "payload", "CASE WHEN state = 3 THEN NULL ELSE payload END", 1)).Replace
	return statements{
		fill(schema), fill(index), fill(claim), fill(load), fill(insert), fill(updateTx), fill(update + " RETURNING lease_until"), fill(remove), fill(due), fill(settings), fill(page),
	}, nil
}
