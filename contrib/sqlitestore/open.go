package sqlitestore

import (
	"context"
	"database/sql"
	"fmt"

	"modernc.org/sqlite" // also the driver "sqlite"

	"github.com/gabion-go/gabion/idempotency/sqlstore"
	"github.com/gabion-go/gabion/internal/sqlkit"
)

// pragmas make a commit survive a power cut (WAL with synchronous=FULL), let
// readers and the one writer work side by side, and make writers wait for each
// other for up to five seconds instead of failing.
const pragmas = "_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=foreign_keys(ON)"

// Open opens the database file, creating it (with permissions 0600) and the table of
// records if they are missing. The permissions of a file that is there stay as they are.
// The program's own tables may be in the same file: effects in them commit
// together with their record. The caller closes the database. SQLite has one writer at
// a time: a transaction of work keeps all other claims of the file waiting.
func Open(ctx context.Context, file, table string) (*sql.DB, *sqlstore.Store, error) {
	if file != ":memory:" && file != "" {
		if err := sqlkit.CreateFile(file); err != nil {
			return nil, nil, fmt.Errorf("sqlitestore: %w", err)
		}
	}
	db, err := sql.Open("sqlite", sqlkit.FileName(file, pragmas))
	if err != nil {
		return nil, nil, fmt.Errorf("sqlitestore: open %s: %w", file, err)
	}
	store, err := sqlstore.New(db, sqlstore.SQLite.WithGuard(guard), table)
	if err == nil {
		err = store.Migrate(ctx)
	}
	if err != nil {
		db.Close()
		return nil, nil, fmt.Errorf("sqlitestore: open %s: %w", file, err)
	}
	return db, store, nil
}

func guard(conn any, refuse func() bool) error {
	c, ok := conn.(sqlite.HookRegisterer)
	if !ok {
		return fmt.Errorf("sqlitestore: %T has no hooks", conn)
	}
	if refuse == nil {
		c.RegisterCommitHook(nil)
		return nil
	}
	c.RegisterCommitHook(func() int32 {
		if refuse() {
			return 1
		}
		return 0
	})
	return nil
}
