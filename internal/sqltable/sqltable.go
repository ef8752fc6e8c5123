// Package sqltable is what the SQL stores share: the table, which programs with either of
// them can use at the same time, and what is done alike with any driver. It links none.
package sqltable

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/gabion-go/gabion/idempotency"
)

// Version is written beside each record. One with a larger version was written by a newer
// program.
const Version = 1

// FarOff stands for all longer times that the database adds to its clock, which would
// overflow: a century, so that the sum of two is a moment too.
const FarOff = 100 * 365 * 24 * time.Hour

// Texts with what [Fill] fills in: {hash} is the type of at most 32 bytes, {blob} that of many. Times are nanoseconds since 1970. The payload is the
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
	Index = `CREATE INDEX IF NOT EXISTS {index} ON {table} (due)`

	// PostgresNow is PostgreSQL's clock.
	PostgresNow = "(floor(extract(epoch from clock_timestamp()) * 1000000)::bigint * 1000)"

	// PostgresSettings asks for what [Flaws] judges.
	PostgresSettings = `SELECT current_setting('synchronous_commit'), current_setting('fsync'), current_setting('full_page_writes'),
		(SELECT relpersistence::text FROM pg_class WHERE oid = to_regclass('{table}'))`
)

var tableName = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*(\.[a-zA-Z_][a-zA-Z0-9_]*)?$`)

// Fill returns what fills texts for a table: {table}, {index}, {columns}, {bare} and more
// pairs of old and new. The error is about the table's name.
func Fill(table string, more ...string) (func(text string) string, error) {
	if !tableName.MatchString(table) {
		return nil, fmt.Errorf("%q is no table name", table)
	}
	index := strings.ReplaceAll(table, ".", "_") + "_due"
	return strings.NewReplacer(append(more, "{table}", table, "{index}", index, "{columns}", Columns, "{bare}", Bare)...).Replace, nil
}

// MigrateTries bounds how often a table is created anew because another process created it at the
// same time.
const MigrateTries = 10

// Raced reports that another process created the same table or index at the same time. Two servers
// that start together may do so: PostgreSQL's IF NOT EXISTS looks before it locks. The next try
// finds what the other one made.
func Raced(err error) bool {
	state, ok := errors.AsType[interface {
		error
		SQLState() string
	}](err)
	if !ok {
		return false
	}
	switch state.SQLState() {
	case "23505", "42P07", "42710": // unique_violation in a catalog, duplicate_table, duplicate_object
		return true
	}
	return false
}

// ErrNoTable says that the table is missing.
var ErrNoTable = errors.New("there is no such table: call Migrate")

// Flaws returns the settings of PostgreSQL because of which acknowledged records may be
// lost, each with its remedy. kind is nil if there is no table.
func Flaws(table, commit, fsync, pages string, kind *string) (found []string, err error) {
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

// List lists records in the order of their IDs. page returns the next ones after an ID,
// which is empty at first.
func List(cursor string, limit int, page func(after []byte, limit int) ([]idempotency.Entry, error)) (entries []idempotency.Entry, next string, err error) {
	after, limit := []byte{}, max(limit, 1)
	if cursor != "" {
		id, err := idempotency.ParseID(cursor)
		if err != nil {
			return nil, "", err
		}
		after = id[:]
	}
	entries, err = page(after, limit)
	if err == nil && len(entries) == limit {
		next = entries[limit-1].ID.Hex()
	}
	return entries, next, err
}

// EntryOf returns what a list has of a record that was scanned. Any error but that it
// can't be read ends the list.
func EntryOf(id []byte, r idempotency.Record, err error) (idempotency.Entry, error) {
	e := idempotency.Entry{Record: r.Bare(), Err: err}
	copy(e.ID[:], id)
	if errors.Is(err, idempotency.ErrUnreadable) {
		err = nil
	}
	return e, err
}
