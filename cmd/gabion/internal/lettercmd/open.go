package lettercmd

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"github.com/gabion-go/gabion/cmd/gabion/internal/operator"
	"github.com/gabion-go/gabion/messages/deadletter"
	"github.com/gabion-go/gabion/messages/deadletter/sqlletters"
)

// open opens a store that is there: it makes no file and no table.
func open(ctx context.Context, o *options) (deadletter.Store, func(), error) {
	return operator.SQL(ctx, o.store, "give the path that the consumers open", func(ctx context.Context, db *sql.DB, driver string) (deadletter.Store, error) {
		d := sqlletters.Postgres
		if driver == "sqlite" {
			d = sqlletters.SQLite
		}
		s, err := sqlletters.New(db, d, o.table, deadletter.Options{MaxPayload: -1, MaxLetters: -1, MaxBytes: -1})
		if err != nil {
			return nil, operator.Call(err)
		}
		return s, explained(s.Check(ctx))
	})
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
