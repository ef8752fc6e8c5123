package mysqlstore

import (
	"strings"
	"testing"
	"time"

	"github.com/gabion-go/gabion/idempotency/sqlstore"
	"github.com/gabion-go/gabion/internal/testservers"
)

func wantCaps(t *testing.T, store *sqlstore.Store, words ...string) {
	t.Helper()
	caps := store.Caps()
	if caps.Durable != (len(words) == 0) || len(caps.Warnings) != len(words) || !caps.ServerClock {
		t.Errorf("durable %v, warnings %q, want %q", caps.Durable, caps.Warnings, words)
	}
	for n, w := range words {
		if n < len(caps.Warnings) && !strings.Contains(caps.Warnings[n], w) {
			t.Errorf("warning %q, want one about %s", caps.Warnings[n], w)
		}
	}
}

func TestWhatTheServerKeeps(t *testing.T) {
	dsn := testservers.MariaDB(t, "innodb-flush-log-at-trx-commit=1", "log-bin=bin", "sync-binlog=1", "server-id=1")
	db, store := open(t, dsn)
	wantCaps(t, store)
	if n := store.Caps().Connections; n != connections {
		t.Errorf("%d connections", n)
	}
	for _, c := range []struct {
		set   string
		words []string
	}{
		{"sync_binlog = 0", []string{"sync_binlog is 0"}},
		{"innodb_flush_log_at_trx_commit = 2", []string{"innodb_flush_log_at_trx_commit is 2", "sync_binlog is 0"}},
		{"sync_binlog = 1, GLOBAL innodb_flush_log_at_trx_commit = 0", []string{"innodb_flush_log_at_trx_commit is 0"}},
	} {
		if _, err := db.ExecContext(t.Context(), "SET GLOBAL "+c.set); err != nil {
			t.Fatal(err)
		}
		if err := store.Check(t.Context()); err != nil {
			t.Fatal(err)
		}
		wantCaps(t, store, c.words...)
	}
	again, err := New(db, "records")
	if err != nil {
		t.Fatal(err)
	}
	wantCaps(t, again, "call Migrate or Check")
}

func TestWhatIsRefused(t *testing.T) {
	dsn := testservers.MariaDB(t, "innodb-doublewrite=OFF")
	db, store := open(t, dsn)
	wantCaps(t, store, "innodb_flush_log_at_trx_commit is 0", "innodb_doublewrite is OFF")
	for _, text := range []string{"CREATE TABLE plain LIKE records", "ALTER TABLE plain ENGINE=MyISAM"} {
		if _, err := db.ExecContext(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
	setLevel(t, dsn, "READ UNCOMMITTED")
	for _, c := range []struct{ params, table, says string }{
		{"", "plain", "ENGINE=InnoDB"},
		{"", "test.plain", "ENGINE=InnoDB"},
		{"", "a b", "no table name"},
		{"", "nowhere.records", "nowhere"},
		{"", "records", "READ UNCOMMITTED"},
		{"?autocommit=false", "records", "autocommit is off"},
		{"?no such", "records", "mysqlstore"},
	} {
		db, store, err := Open(t.Context(), dsn+c.params, c.table)
		if err == nil || !strings.Contains(err.Error(), c.says) || db != nil || store != nil {
			t.Errorf("%v: %v", c, err)
		}
	}
	missing, err := New(db, "missing")
	if err == nil {
		err = missing.Check(t.Context())
	}
	if err == nil || !strings.Contains(err.Error(), "call Migrate") {
		t.Errorf("a table that is missing: %v", err)
	}
}

// The time is that of the server, in whatever zone a session is, also in the hour that
// comes twice when clocks are put back.
func TestTimeDoesNotDependOnZones(t *testing.T) {
	t.Setenv("TZ", "Europe/Berlin")
	dsn := testservers.MariaDB(t)
	want := time.Date(2026, 10, 25, 0, 59, 59, 999_999_000, time.UTC) // 02:59:59 in Berlin, a second before it is 02:00 again
	for _, zone := range []string{"%2B00:00", "-07:00", "%2B13:00", "SYSTEM"} {
		db, store := open(t, dsn+"?time_zone=%27"+zone+"%27&timestamp=1792889999.999999")
		now, err := store.Now(t.Context())
		if err != nil || int64(now) != want.UnixNano() {
			t.Errorf("zone %s: %v, %v, want %v", zone, time.Unix(0, int64(now)).UTC(), err, want)
		}
		db.Close()
	}
	db, store := open(t, dsn)
	defer db.Close()
	if now, err := store.Now(t.Context()); err != nil || time.Since(time.Unix(0, int64(now))).Abs() > time.Hour {
		t.Errorf("%v, %v", now, err)
	}
}

func TestTable(t *testing.T) {
	db, _ := open(t, testservers.MariaDB(t))
	var table, text string
	if err := db.QueryRowContext(t.Context(), "SHOW CREATE TABLE records").Scan(&table, &text); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"PRIMARY KEY (`id`)", "KEY `records_due` (`due`)", "ENGINE=InnoDB", "`payload` longblob", "`id` varbinary(32)"} {
		if !strings.Contains(text, part) {
			t.Errorf("no %s in %s", part, text)
		}
	}
}
