package pgxfleet

import (
	"fmt"

	"github.com/gabion-go/gabion/internal/sqlkit"
)

// dialect has a server of its own: PostgreSQL 13 is the oldest that works.
var dialect = sqlkit.Dialect{Name: "pgx", Blob: sqlkit.Postgres.Blob, Now: sqlkit.Postgres.Now}

// longest is the most that a table's name may have, so that its identity's sequence has a name of its own.
const longest = 48

// Times are nanoseconds since 1970, and zero says that a row has no end. Versions are of one sequence, so none is ever
// used twice.
//
// Whether the swap was made is a setting of the transaction, which the puts read: the client knows it only when
// all of the batch is done. Without a swap the setting is missing.
const (
	schema = `CREATE TABLE IF NOT EXISTS {table} (
	key text COLLATE "C" PRIMARY KEY,
	version bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
	ends bigint NOT NULL,
	value {blob} NOT NULL
)`

	alive = `(ends = 0 OR ends >= {now})`
	ends  = `CASE WHEN $3::bigint > 0 THEN {now} + $3::bigint ELSE 0 END`
	made  = `set_config('gabion.swapped', (SELECT count(*) FROM swapped)::text, true)`
	ready = `current_setting('gabion.swapped', true) IS DISTINCT FROM '0'`

	// put: key, value, for how long.
	put = `INSERT INTO {table} (key, value, ends) SELECT $1::text, $2::{blob}, {ends} WHERE {ready}
		ON CONFLICT (key) DO UPDATE SET value = excluded.value, ends = excluded.ends, version = DEFAULT`
	remove = `DELETE FROM {table} WHERE key = $1::text AND {ready}`

	// A swap of a key that must not exist takes the place of one that has lasted its time.
	swapNew = `WITH swapped AS (
			INSERT INTO {table} AS old (key, value, ends) SELECT $1::text, $2::{blob}, {ends}
			ON CONFLICT (key) DO UPDATE SET value = excluded.value, ends = excluded.ends, version = DEFAULT
			WHERE old.ends <> 0 AND old.ends < {now} RETURNING 1)
		SELECT {made}`
	swap = `WITH swapped AS (
			UPDATE {table} SET value = $2::{blob}, ends = {ends}, version = DEFAULT
			WHERE key = $1::text AND version = $4::bigint AND {alive} RETURNING 1)
		SELECT {made}`
	swapRemove = `WITH swapped AS (DELETE FROM {table} WHERE key = $1::text AND version = $2::bigint AND {alive} RETURNING 1)
		SELECT {made}`
	swapNone = `WITH swapped AS (SELECT 1 WHERE NOT EXISTS (SELECT FROM {table} WHERE key = $1::text AND {alive}))
		SELECT {made}`

	get  = `SELECT key, version, value FROM {table} WHERE key = ANY($1::text[]) AND {alive}`
	list = `SELECT key, version, value FROM {table} WHERE key >= $1::text AND starts_with(key, $1::text) AND {alive}`

	// sweep deletes what a list would pass over. A fleet swaps once in an interval, so it comes with swaps. Rows that
	// another transaction has are left to it.
	sweep = `DELETE FROM {table} WHERE key IN (
		SELECT key FROM {table} WHERE key >= $1::text AND starts_with(key, $1::text) AND ends <> 0 AND ends < {now} FOR UPDATE SKIP LOCKED)`

	clock = `SELECT {now}, {ready}`
)

// statements are written out for one table.
type statements struct {
	schema, put, remove, swapNew, swap, swapRemove, swapNone, get, list, sweep, clock string
}

func write(table string) (s statements, err error) {
	fill, err := dialect.Filler(table, longest)
	if err != nil {
		return s, fmt.Errorf("pgxfleet: %w", err)
	}
	inner, err := dialect.Filler(table, longest, "{alive}", fill(alive), "{ends}", fill(ends), "{made}", made, "{ready}", ready)
	if err != nil {
		return s, fmt.Errorf("pgxfleet: %w", err)
	}
	return statements{
		fill(schema), inner(put), inner(remove), inner(swapNew), inner(swap), inner(swapRemove), inner(swapNone),
		inner(get), inner(list), inner(sweep), inner(clock),
	}, nil
}
