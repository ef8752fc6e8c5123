package lettercmd

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	_ "modernc.org/sqlite"             // the driver "sqlite"

	"github.com/gabion-go/gabion/cmd/gabion/internal/operator"
	"github.com/gabion-go/gabion/internal/sqlkit"
	"github.com/gabion-go/gabion/messages/deadletter"
	"github.com/gabion-go/gabion/messages/deadletter/sqlletters"
)

// lockTime is how long SQLite waits for another process that writes.
var lockTime = 5 * time.Second

// fileName is a file for the driver, opened as contrib/sqlitestore/sqliteletters does, but for what would make
// it, or turn another file into one of its kind.
func fileName(path string) string {
	return operator.SQLite(path, fmt.Sprintf("mode=rw&_txlock=immediate&_pragma=busy_timeout(%d)&_pragma=synchronous(FULL)", lockTime.Milliseconds()))
}

// connectTime bounds how long a database may take to say that it is there.
const connectTime = 15 * time.Second

// open opens a store that is there: it makes no file and no table.
func open(ctx context.Context, o *options) (deadletter.Store, func(), error) {
	kind, rest, _ := strings.Cut(o.store, ":")
	switch kind {
	case "sqlite":
		if err := exists(rest); err != nil {
			return nil, nil, err
		}
		s, stop, err := openSQL(ctx, o, sqlletters.SQLite, "sqlite", fileName(rest))
		if sqlkit.AtRest(rest, err) {
			return openSQL(ctx, o, sqlletters.SQLite, "sqlite", operator.SQLite(rest, sqlkit.Resting))
		}
		return s, stop, err
	case "postgres", "postgresql":
		if err := operator.URL(o.store); err != nil {
			return nil, nil, err
		}
		return openSQL(ctx, o, sqlletters.Postgres, "pgx", o.store)
	}
	return nil, nil, operator.Wrongf("--store begins with sqlite: or postgres://")
}

func exists(file string) error {
	if file == "" {
		return operator.Wrongf("--store names no file: it is sqlite:PATH")
	}
	err := operator.Regular(file)
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%w: give the path that the consumers open", err)
	}
	return err
}

func openSQL(ctx context.Context, o *options, d sqlletters.Dialect, driver, dsn string) (deadletter.Store, func(), error) {
	db, err := sql.Open(driver, dsn)
	if err != nil {
		return nil, nil, err
	}
	s, err := sqlletters.New(db, d, o.table, deadletter.Options{MaxPayload: -1, MaxLetters: -1, MaxBytes: -1})
	if err != nil {
		db.Close()
		return nil, nil, operator.Call(err)
	}
	limited, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	if err := s.Check(limited); err != nil {
		db.Close()
		return nil, nil, explained(err)
	}
	return s, func() { db.Close() }, nil
}

// explained adds to an error of a store what can be done about it.
func explained(err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	for _, hint := range []struct{ says, do string }{
		{"no such table", "it has no letters: is it the store that the consumers open? --table names its tables if they are not dead_letters"},
		{"42P01", "it has no letters: is it the store that the consumers open? --table names its tables if they are not dead_letters"},
		{"call Migrate", "start a consumer of this version first: it brings the tables up to date"},
		{"newer program", "use the gabion command of the version that the consumers run"},
		{"is locked", "another process writes for longer than five seconds: try again, or look which one it is"},
		{"read-only", "only ls, show, export, stats and redrives work then: run it as the user of the consumers to change something"},
		{"does not open", "--key-file needs the key under which it was sealed. Without --key-file all but the contents is shown"},
		{"not a database", "give the path of a file that contrib/sqlitestore/sqliteletters made"},
	} {
		if strings.Contains(text, hint.says) {
			return fmt.Errorf("%w\n  %s", err, hint.do)
		}
	}
	return err
}
