package sql

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/gabionsql"
	"github.com/gabion-go/gabion/gabiontest"
	"github.com/gabion-go/gabion/internal/testservers"
	"github.com/gabion-go/gabion/policy"
)

// increment reads a counter and writes what it read, plus one.
func increment(id int) func(context.Context, *sql.Tx) error {
	return func(ctx context.Context, tx *sql.Tx) error {
		var n int
		if err := tx.QueryRowContext(ctx, fmt.Sprint("SELECT n FROM counters WHERE id = ", id)).Scan(&n); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, fmt.Sprintf("UPDATE counters SET n = %d WHERE id = %d", n+1, id))
		return err
	}
}

// 64 clients: no increment is lost, none counts twice, and no call of a healthy database
// fails.
func TestCountersEndExact(t *testing.T) {
	gabiontest.NoLeaks(t)
	dsn := testservers.Postgres(t)
	for _, driver := range []string{"pgx", "postgres"} {
		t.Run(driver, func(t *testing.T) {
			db := open(t, driver, dsn, 16)
			execute(t, db, "DROP TABLE IF EXISTS counters", "CREATE TABLE counters (id int PRIMARY KEY, n int)",
				"INSERT INTO counters SELECT i, 0 FROM generate_series(0, 7) i")
			d := patient()
			clients(64, func(client int) {
				for range 3 {
					if err := gabionsql.RunTx(t.Context(), d, db, increment(client%8), serializable); err != nil {
						t.Error(err)
					}
				}
			})
			if n := count(t, db, "SELECT sum(n)::int FROM counters"); n != 64*3 {
				t.Errorf("the counters say %d, want %d", n, 64*3)
			}
		})
	}
}

// In each ward two doctors are on call, and each may leave if the other one stays. Without
// repetition neither could; without serializable transactions both would.
func TestWriteSkewEndsExact(t *testing.T) {
	gabiontest.NoLeaks(t)
	db := open(t, "pgx", testservers.Postgres(t), 16)
	execute(t, db, "CREATE TABLE doctors (ward int, name int, on_call bool)", "INSERT INTO doctors SELECT w, d, true FROM generate_series(0, 31) w, generate_series(0, 1) d")
	d := patient()
	clients(64, func(client int) {
		ward, name := client/2, client%2
		err := gabionsql.RunTx(t.Context(), d, db, func(ctx context.Context, tx *sql.Tx) error {
			var others int
			if err := tx.QueryRowContext(ctx, "SELECT count(*) FROM doctors WHERE ward = $1 AND on_call", ward).Scan(&others); err != nil || others < 2 {
				return err
			}
			_, err := tx.ExecContext(ctx, "UPDATE doctors SET on_call = false WHERE ward = $1 AND name = $2", ward, name)
			return err
		}, serializable)
		if err != nil {
			t.Error(err)
		}
	})
	if n := count(t, db, "SELECT count(*) FROM (SELECT ward FROM doctors WHERE on_call GROUP BY ward HAVING count(*) = 1) w"); n != 32 {
		t.Errorf("in %d wards of 32 one doctor stays", n)
	}
}

// Eight programs write the same file, and SQLite fails at once instead of waiting.
func TestSQLiteBusyStormEndsExact(t *testing.T) {
	gabiontest.NoLeaks(t)
	dsn := "file:" + filepath.Join(t.TempDir(), "db") + "?_pragma=journal_mode(WAL)&_pragma=synchronous(OFF)&_pragma=busy_timeout(0)"
	db := open(t, "sqlite", dsn, 1)
	execute(t, db, "CREATE TABLE counters (id int PRIMARY KEY, n int)", "INSERT INTO counters VALUES (0, 0)")
	clients(8, func(int) {
		mine := open(t, "sqlite", dsn, 2)
		d := patient()
		clients(2, func(int) {
			for range 5 {
				if err := gabionsql.RunTx(t.Context(), d, mine, increment(0)); err != nil {
					t.Error(err)
				}
			}
		})
	})
	if n := count(t, db, "SELECT n FROM counters"); n != 8*2*5 {
		t.Errorf("the counter says %d, want %d", n, 8*2*5)
	}
}

// MariaDB undoes only the statement that waited too long for a lock, and all of a deadlock.
func TestMariaDB(t *testing.T) {
	dsn := testservers.MariaDB(t)
	db := open(t, "mysql", dsn, 16)
	execute(t, db, "CREATE TABLE counters (id int PRIMARY KEY, n int) ENGINE=InnoDB", "INSERT INTO counters VALUES (0, 0), (1, 0)",
		"CREATE TABLE effects (k varchar(20)) ENGINE=InnoDB")
	t.Run("deadlocks end exact", func(t *testing.T) {
		d := patient()
		clients(16, func(client int) {
			for range 3 {
				if err := gabionsql.RunTx(t.Context(), d, db, func(ctx context.Context, tx *sql.Tx) error {
					for n := range 2 {
						if _, err := tx.ExecContext(ctx, fmt.Sprint("UPDATE counters SET n = n + 1 WHERE id = ", (client+n)%2)); err != nil {
							return err
						}
					}
					return nil
				}); err != nil {
					t.Error(err)
				}
			}
		})
		if n := count(t, db, "SELECT SUM(n) FROM counters"); n != 16*3*2 {
			t.Errorf("the counters say %d, want %d", n, 16*3*2)
		}
	})
	t.Run("1205 is repeated from the start", func(t *testing.T) {
		holder, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := holder.Exec("UPDATE counters SET n = n WHERE id = 0"); err != nil {
			t.Fatal(err)
		}
		runs := 0
		err = gabionsql.RunTx(t.Context(), patient(), db, func(ctx context.Context, tx *sql.Tx) error {
			if runs++; runs == 2 {
				holder.Rollback()
			}
			if _, err := tx.ExecContext(ctx, "SET innodb_lock_wait_timeout = 1"); err != nil {
				return err
			}
			if err := insert("x")(ctx, tx); err != nil {
				return err
			}
			_, err := tx.ExecContext(ctx, "UPDATE counters SET n = n + 1 WHERE id = 0")
			return err
		})
		if n := count(t, db, "SELECT count(*) FROM effects"); err != nil || runs != 2 || n != 1 {
			t.Errorf("%d runs, %d effects: %v", runs, n, err)
		}
	})
}

// A statement that takes too long is cancelled by the server, and nothing is left of it.
func TestStatementTimeout(t *testing.T) {
	dsn := testservers.Postgres(t)
	for _, driver := range []string{"pgx", "postgres"} {
		t.Run(driver, func(t *testing.T) {
			db := open(t, driver, dsn, 2)
			execute(t, db, "DROP TABLE IF EXISTS effects", "CREATE TABLE effects (k text)")
			runs := 0
			err := gabionsql.RunTx(t.Context(), gabion.New("db", policy.Policy{}), db, func(ctx context.Context, tx *sql.Tx) error {
				runs++
				if err := insert("x")(ctx, tx); err != nil {
					return err
				}
				if _, err := tx.ExecContext(ctx, "SET LOCAL statement_timeout = 20"); err != nil {
					return err
				}
				_, err := tx.ExecContext(ctx, "SELECT pg_sleep(5)")
				return err
			})
			if said(err) != nothing || runs != 1 || !strings.Contains(err.Error(), "statement timeout") {
				t.Errorf("%d runs: %v", runs, err)
			}
			if n := count(t, db, "SELECT count(*) FROM effects"); n != 0 {
				t.Errorf("%d effects", n)
			}
		})
	}
}

// The time of the call is over while the database works: it is rolled back, and that is
// known.
func TestDeadlineInTheWork(t *testing.T) {
	dsn := testservers.Postgres(t)
	for _, driver := range []string{"pgx", "postgres"} {
		t.Run(driver, func(t *testing.T) {
			db := open(t, driver, dsn, 2)
			execute(t, db, "DROP TABLE IF EXISTS effects", "CREATE TABLE effects (k text)")
			ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
			defer cancel()
			err := gabionsql.RunTx(ctx, gabion.New("db", policy.Policy{}), db, func(ctx context.Context, tx *sql.Tx) error {
				if err := insert("x")(ctx, tx); err != nil {
					return err
				}
				_, err := tx.ExecContext(ctx, "SELECT pg_sleep(30)")
				return err
			})
			if n := count(t, db, "SELECT count(*) FROM effects"); said(err) != nothing || n != 0 {
				t.Errorf("%d effects: %v", n, err)
			}
		})
	}
}
