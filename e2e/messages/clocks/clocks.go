// Package clocks sets the clocks of databases forward and back while programs work with them.
//
// A stepped clock is the database's own. The clock of a program's machine is that of the kernel, which
// a test may not set: see testclock.Build for programs whose time.Now lies.
package clocks

import (
	"database/sql"
	"database/sql/driver"
	"net/url"
	"os"
	"strconv"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver pgx
	"modernc.org/sqlite"
)

// A File says how far the clock of SQLite is off, in processes that Follow it. It is written
// by the test and read at each reading of the clock.
type File string

// Step sets the clock so far off, counted from the time that it is.
func (f File) Step(t testing.TB, off time.Duration) {
	t.Helper()
	next := string(f) + ".next"
	err := os.WriteFile(next, []byte(strconv.FormatInt(int64(off), 10)), 0o600)
	if err == nil {
		err = os.Rename(next, string(f)) // so that no reader sees half of it
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Off returns how far the clock is off. No file means not at all.
func (f File) Off() time.Duration {
	text, err := os.ReadFile(string(f))
	if err != nil {
		return 0
	}
	off, _ := strconv.ParseInt(string(text), 10, 64)
	return time.Duration(off)
}

// Follow makes SQLite's clock that of the file, in this process from now on. It has to be called
// before a database is opened. SQLite lets a program define its functions anew, and the stores ask
// for the time by unixepoch('subsec').
func (f File) Follow() error {
	return sqlite.RegisterScalarFunction("unixepoch", 1, func(*sqlite.FunctionContext, []driver.Value) (driver.Value, error) {
		return float64(time.Now().Add(f.Off()).UnixMilli()) / 1000, nil
	})
}

// Postgres returns the address of the database with another schema, in which its clock can be
// set, and a function that sets it so far off. Everybody who connects to that address has this
// clock: PostgreSQL finds a function of the schema before its own.
func Postgres(t testing.TB, dsn string) (stepped string, step func(off time.Duration)) {
	t.Helper()
	db, err := sql.Open("pgx", dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	do := func(text string, args ...any) {
		t.Helper()
		if _, err := db.Exec(text, args...); err != nil {
			t.Fatal(err)
		}
	}
	do("CREATE SCHEMA stepped")
	do("CREATE TABLE stepped.clock (off bigint)")
	do("INSERT INTO stepped.clock VALUES (0)")
	do(`CREATE FUNCTION stepped.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE AS
		$$ SELECT pg_catalog.clock_timestamp() + (SELECT off FROM stepped.clock) * interval '1 microsecond' $$`)
	return dsn + "&search_path=" + url.QueryEscape("stepped,pg_catalog"), func(off time.Duration) {
		t.Helper()
		do("UPDATE stepped.clock SET off = $1", off.Microseconds())
	}
}
