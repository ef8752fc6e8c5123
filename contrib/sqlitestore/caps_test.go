package sqlitestore

import (
	"database/sql"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gabion-go/gabion/idempotency/sqlstore"
	"github.com/gabion-go/gabion/internal/testservers"
)

func wantCaps(t *testing.T, store *sqlstore.Store, durable bool, words ...string) {
	t.Helper()
	caps := store.Caps()
	if caps.Durable != durable || len(caps.Warnings) != len(words) || !caps.ServerClock {
		t.Errorf("durable %v, warnings %q, want %v and %q", caps.Durable, caps.Warnings, durable, words)
	}
	for n, w := range words {
		if n < len(caps.Warnings) && !strings.Contains(caps.Warnings[n], w) {
			t.Errorf("warning %q, want one about %s", caps.Warnings[n], w)
		}
	}
}

func TestWhatSQLiteKeeps(t *testing.T) {
	_, store := openSQLite(t)
	wantCaps(t, store, true)
	for _, c := range []struct {
		journal, synchronous string
		durable              bool
		words                []string
	}{
		{"WAL", "EXTRA", true, nil},
		{"WAL", "FULL", true, nil},
		{"WAL", "NORMAL", false, []string{"synchronous is 1 with journal_mode wal"}},
		{"WAL", "OFF", false, []string{"synchronous is 0"}},
		{"TRUNCATE", "FULL", true, nil},
		{"PERSIST", "FULL", true, nil},
		{"TRUNCATE", "NORMAL", false, []string{"synchronous is 1 with journal_mode truncate"}},
		{"DELETE", "EXTRA", true, nil},
		{"DELETE", "FULL", false, []string{"synchronous is 2 with journal_mode delete"}},
		{"MEMORY", "FULL", false, []string{"journal_mode is memory"}},
		{"OFF", "EXTRA", false, []string{"journal_mode is off"}},
	} {
		db, err := sql.Open("sqlite", filepath.Join(t.TempDir(), "db")+"?_pragma=journal_mode("+c.journal+")&_pragma=synchronous("+c.synchronous+")")
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		store, err := sqlstore.New(db, sqlstore.SQLite, "records")
		if err != nil {
			t.Fatal(err)
		}
		wantCaps(t, store, false, "call Migrate or Check")
		if err := store.Check(t.Context()); err != nil {
			t.Fatal(err)
		}
		wantCaps(t, store, c.durable, c.words...)
	}
}

func TestWhatPostgresKeeps(t *testing.T) {
	dsn := testservers.Postgres(t, "fsync=on")
	db, store := openPostgres(t, dsn)
	wantCaps(t, store, true)
	if _, err := db.ExecContext(t.Context(), "ALTER TABLE records SET UNLOGGED"); err != nil {
		t.Fatal(err)
	}
	if err := store.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantCaps(t, store, false, "SET LOGGED")
	_, store = openPostgres(t, dsn+"&synchronous_commit=off")
	wantCaps(t, store, false, "synchronous_commit", "SET LOGGED")
	_, store = openPostgres(t, testservers.Postgres(t, "full_page_writes=off"))
	wantCaps(t, store, false, "fsync", "full_page_writes")
	missing, err := sqlstore.New(db, sqlstore.Postgres, "missing")
	if err == nil {
		err = missing.Check(t.Context())
	}
	if err == nil || !strings.Contains(err.Error(), "call Migrate") {
		t.Errorf("a table that is missing: %v", err)
	}
	wantCaps(t, missing, false, "call Migrate or Check")
}
