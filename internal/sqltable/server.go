package sqltable

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
)

// A least is the oldest version of a server that works.
type least struct {
	called, asks string
	major, minor int
}

var leasts = map[string]least{
	"postgres": {"PostgreSQL", "SHOW server_version", 11, 0},
	"pgx":      {"PostgreSQL", "SHOW server_version", 13, 0},
	"sqlite":   {"SQLite", "SELECT sqlite_version()", 3, 42},
	"mysql":    {"MySQL", "SELECT version()", 8, 0},
	"mariadb":  {"MariaDB", "SELECT version()", 10, 6},
}

// CheckDB is [CheckServer] for a server behind database/sql.
func CheckDB(ctx context.Context, dialect string, db *sql.DB) error {
	return CheckServer(ctx, dialect, func(ctx context.Context, query string) (text string, err error) {
		err = db.QueryRowContext(ctx, query).Scan(&text)
		return text, err
	})
}

// CheckServer returns an error where a server of that dialect is older than the oldest that works.
// ask answers a query with one text. A server that does not say its version may be fit.
func CheckServer(ctx context.Context, dialect string, ask func(ctx context.Context, query string) (string, error)) error {
	l, known := leasts[dialect]
	if !known {
		return nil
	}
	text, err := ask(ctx, l.asks)
	if err != nil {
		return nil //nolint:nilerr // what comes next says so
	}
	return l.check(text)
}

func (l least) check(version string) error {
	text := version
	if strings.Contains(version, "MariaDB") {
		l, text = leasts["mariadb"], strings.TrimPrefix(version, "5.5.5-") // which old clients had to see
	}
	var major, minor int
	if n, _ := fmt.Sscanf(text, "%d.%d", &major, &minor); n == 0 {
		return nil
	}
	if major < l.major || major == l.major && minor < l.minor {
		return fmt.Errorf("the server is %s %s, which is too old: %d.%d is the oldest that works", l.called, version, l.major, l.minor)
	}
	return nil
}
