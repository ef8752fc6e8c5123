// Package sqltable is what the SQL stores share: the table, which programs with either of
// them can use at the same time, and what is done alike with any driver. It links none.
package sqltable

import (
	"errors"
	"math"
	"time"

	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/internal/sqlkit"
)

// Version is written beside each record. One with a larger version was written by a newer
// program.
const Version = 1

// FarOff stands for all longer times that the database adds to its clock, which would
// overflow: a century, so that the sum of two is a moment too.
const FarOff = 100 * 365 * 24 * time.Hour

// Texts with what [Filler] fills in: {hash} is the type of at most 32 bytes, {blob} that of many. Times are nanoseconds since 1970. The payload is the
// record's own form; what the columns before it say counts.
const (
	// Columns are all but id, in the order in which they are read and written.
	Columns = "rev, version, state, guarantee, token, attempt, fingerprint, owner, lease_until, created, finished, expires, retention, due, payload"

	// Bare are the same without the payload of results, for lists.
	Bare = "rev, version, state, guarantee, token, attempt, fingerprint, owner, lease_until, created, finished, expires, retention, due, " +
		"CASE WHEN state = 3 THEN NULL ELSE payload END"

	Schema = `CREATE TABLE IF NOT EXISTS {table} (
	id {hash} PRIMARY KEY,
	rev bigint NOT NULL,
	version integer NOT NULL,
	state integer NOT NULL,
	guarantee integer NOT NULL,
	token bigint NOT NULL,
	attempt integer NOT NULL,
	fingerprint {hash} NOT NULL,
	owner {hash} NOT NULL,
	lease_until bigint NOT NULL,
	created bigint NOT NULL,
	finished bigint NOT NULL,
	expires bigint NOT NULL,
	retention bigint NOT NULL,
	due bigint NOT NULL,
	payload {blob}{more}
){options}`
	Index = `CREATE INDEX IF NOT EXISTS {index}_due ON {table} (due)`

	// PostgresSettings asks for what [Flaws] judges.
	PostgresSettings = `SELECT current_setting('synchronous_commit'), current_setting('fsync'), current_setting('full_page_writes'),
		(SELECT relpersistence::text FROM pg_class WHERE oid = to_regclass('{table}'))`
)

// Filler is that of a dialect, and fills {columns} and {bare} too. Names of tables may have any length.
func Filler(d sqlkit.Dialect, table string, pairs ...string) (func(text string) string, error) {
	return d.Filler(table, math.MaxInt, append(pairs, "{columns}", Columns, "{bare}", Bare)...)
}

// ErrNoTable says that the table is missing.
var ErrNoTable = errors.New("there is no such table: call Migrate")

// Flaws returns the settings of PostgreSQL because of which acknowledged records may be
// lost, each with its remedy. It reads them from what PostgresSettings returned.
func Flaws(table string, settings Scanner) (found []string, err error) {
	var commit, fsync, pages string
	var kind *string // nil if there is no table
	if err := settings.Scan(&commit, &fsync, &pages, &kind); err != nil {
		return nil, err
	}
	if kind == nil {
		return nil, ErrNoTable
	}
	if commit == "off" {
		found = append(found, "synchronous_commit is off, so that PostgreSQL acknowledges what a crash may undo: turn it on for the role or database of the records")
	}
	if fsync == "off" {
		found = append(found, "fsync is off, so that a power cut may destroy the whole database: turn it on in postgresql.conf")
	}
	if pages == "off" {
		found = append(found, "full_page_writes is off, so that a power cut may leave half-written pages: turn it on in postgresql.conf")
	}
	if *kind != "p" {
		found = append(found, "the table "+table+" is unlogged or temporary, so that a crash empties it: ALTER TABLE "+table+" SET LOGGED")
	}
	return found, nil
}

// Times returns a claim's lease, and how long after the claim a sweeper is due, both in
// nanoseconds.
func Times(c idempotency.Claim) (lease, due int64) {
	lease = int64(min(c.Lease, FarOff))
	if c.Guarantee == idempotency.GuaranteeReexecute {
		return lease, lease + int64(min(c.Retention, FarOff))
	}
	return lease, lease
}
