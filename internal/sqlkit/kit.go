// Package sqlkit is what all packages with tables in a SQL database do alike: write statements for
// a dialect and a table, make tables, open a file of SQLite. It knows no table and links no driver.
package sqlkit

import (
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// A Dialect is what all these packages know of a database. The zero Dialect is refused.
type Dialect struct {
	Name   string // by which the oldest server that works is known
	Blob   string // the type of many bytes
	Now    string // the clock: nanoseconds since 1970
	Dollar bool   // placeholders are $1, $2, …
}

// The dialects. Packages have more to say about each.
var (
	Postgres = Dialect{Name: "postgres", Blob: "bytea", Now: "(floor(extract(epoch from clock_timestamp()) * 1000000)::bigint * 1000)", Dollar: true}
	SQLite   = Dialect{Name: "sqlite", Blob: "blob", Now: "(CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000000)"}
	// UTC_TIMESTAMP does not depend on the session's time zone: where clocks are put back in
	// autumn, UNIX_TIMESTAMP(NOW()) repeats an hour.
	MySQL = Dialect{Name: "mysql", Blob: "longblob", Now: "(TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', UTC_TIMESTAMP(6)) * 1000)"}
)

// Bind numbers the placeholders. Every question mark in a statement is one.
func (d Dialect) Bind(text string) string {
	if !d.Dollar {
		return text
	}
	var b strings.Builder
	for n, part := range strings.Split(text, "?") {
		if n > 0 {
			b.WriteString("$" + strconv.Itoa(n))
		}
		b.WriteString(part)
	}
	return b.String()
}

var tableName = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*(\.[a-zA-Z_][a-zA-Z0-9_]*)?$`)

// Filler returns what fills texts for a table: pairs of old and new, {table}, {index}
// (with which the names of its indexes begin), {blob} and {now}. Pairs come first. The error is about
// the dialect, or about the table's name and its length in bytes: PostgreSQL cuts off names after 63.
func (d Dialect) Filler(table string, most int, pairs ...string) (func(text string) string, error) {
	switch {
	case d.Name == "":
		return nil, errors.New("the dialect is missing")
	case !tableName.MatchString(table):
		return nil, fmt.Errorf("%.50q is no table name", table)
	case len(table) > most:
		return nil, fmt.Errorf("%.50q is too long for a table name: %d characters are the most", table, most)
	}
	return strings.NewReplacer(append(pairs, "{table}", table, "{index}", strings.ReplaceAll(table, ".", "_"), "{blob}", d.Blob, "{now}", d.Now)...).Replace, nil
}

// One reports whether a statement changed one row.
func One(result sql.Result, err error) (bool, error) {
	if err != nil {
		return false, err
	}
	n, err := result.RowsAffected()
	return n == 1, err
}

// NotNil is what a driver stores as no bytes, and not as NULL.
func NotNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}
