package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/internal/sqltable"
)

// unchecked is what a store claims of which nothing is known.
var unchecked = &idempotency.Caps{ServerClock: true, Warnings: []string{
	"whether the database keeps what it acknowledged was not looked at: call Migrate or Check before the store is used",
}}

// Caps implements [idempotency.Store]. Durable is false, with a warning, until
// [Store.Check] or [Store.Migrate] has looked at the database.
func (s *Store) Caps() idempotency.Caps {
	caps := *s.caps.Load()
	caps.Connections = s.db.Stats().MaxOpenConnections
	return caps
}

// Check reads the database's settings, from which [Store.Caps] then says whether
// records survive a crash of its machine. Call it, or Migrate, before the store is
// given to a Handler. It sees the settings of one connection: what a program sets on
// others it has to set on all.
func (s *Store) Check(ctx context.Context) error {
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return wrap("check", err)
	}
	defer conn.Close()
	found, err := s.dialect.check(ctx, conn, s.table)
	if err != nil {
		return wrap("check", err)
	}
	s.caps.Store(&idempotency.Caps{Durable: len(found) == 0, ServerClock: true, Warnings: found})
	return nil
}

func checkPostgres(ctx context.Context, conn *sql.Conn, table string) ([]string, error) {
	return sqltable.Flaws(table, conn.QueryRowContext(ctx, strings.ReplaceAll(sqltable.PostgresSettings, "{table}", table)))
}

// Values of PRAGMA synchronous.
const (
	syncFull  = 2
	syncExtra = 3
)

// checkSQLite holds SQLite to its documentation: with WAL, synchronous=FULL syncs
// each commit. So it does with a rollback journal, but where a commit is the deletion
// of the journal, only EXTRA makes sure of that.
func checkSQLite(ctx context.Context, conn *sql.Conn, _ string) (found []string, err error) {
	var journal string
	var level int
	if err = conn.QueryRowContext(ctx, "PRAGMA journal_mode").Scan(&journal); err == nil {
		err = conn.QueryRowContext(ctx, "PRAGMA synchronous").Scan(&level)
	}
	if err != nil {
		return nil, err
	}
	const remedy = ": open it with journal_mode=WAL and synchronous=FULL on every connection"
	switch least := syncFull; journal {
	case "memory", "off":
		found = append(found, "SQLite's journal_mode is "+journal+", so that a crash may destroy the database"+remedy)
	case "delete":
		least = syncExtra
		fallthrough
	default:
		if level < least {
			found = append(found, fmt.Sprintf("SQLite's synchronous is %d with journal_mode %s, so that a power cut may undo what was acknowledged%s", level, journal, remedy))
		}
	}
	return found, nil
}
