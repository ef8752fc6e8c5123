package sqlkit

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"

	"github.com/gabion-go/gabion/internal/sqltx"
)

// A Server is a database that tables are made in.
type Server interface {
	Ask(ctx context.Context, query string) (text string, err error) // one row of one text
	Exec(ctx context.Context, text string) error                    // a statement without values
}

// DB is a [Server] behind database/sql.
type DB struct{ *sql.DB }

// Ask implements Server.
func (db DB) Ask(ctx context.Context, query string) (text string, err error) {
	err = db.QueryRowContext(ctx, query).Scan(&text)
	return text, err
}

// Exec implements Server.
func (db DB) Exec(ctx context.Context, text string) error {
	_, err := db.ExecContext(ctx, text)
	return err
}

// Create makes what is missing, by one statement after the other, unless a text is empty. Any number of processes may
// do so at the same time. It refuses a server that is too old.
func (d Dialect) Create(ctx context.Context, s Server, texts ...string) error {
	if err := d.Check(ctx, s); err != nil {
		return err
	}
	for _, text := range texts {
		if text == "" {
			continue
		}
		if err := UntilMade(func() error { return s.Exec(ctx, text) }); err != nil {
			return err
		}
	}
	return nil
}

// makeTries bounds how often a table is made anew because another process did so at the same time.
const makeTries = 10

// UntilMade repeats what makes tables while another process makes the same ones. Two servers that
// start together may do so: PostgreSQL's IF NOT EXISTS looks before it locks. The next try finds
// what the other one made.
func UntilMade(do func() error) (err error) {
	for range makeTries {
		if err = do(); !raced(err) {
			break
		}
	}
	return err
}

// raced includes unique_violation in a catalog, duplicate_table and duplicate_object.
func raced(err error) bool {
	return sqltx.Conflict(err) || slices.Contains([]string{"23505", "42P07", "42710"}, sqltx.StateOf(err))
}

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

// Check returns an error where a server is older than the oldest that works. One that does not
// say its version may be fit.
func (d Dialect) Check(ctx context.Context, s Server) error {
	l, known := leasts[d.Name]
	if !known {
		return nil
	}
	text, err := s.Ask(ctx, l.asks)
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
