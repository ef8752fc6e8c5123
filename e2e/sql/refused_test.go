package sql

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"path/filepath"
	"testing"

	"github.com/go-sql-driver/mysql"
	"modernc.org/sqlite"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/gabionsql"
	"github.com/gabion-go/gabion/internal/testservers"
	"github.com/gabion-go/gabion/policy"
)

// What a database refuses because of the statement, or because SQL code of the program says no,
// opens no breaker, however often it comes.
func TestRefusedStatementsOpenNoBreaker(t *testing.T) {
	t.Run("PostgreSQL", func(t *testing.T) {
		each(t, func(t *testing.T, s *testservers.Server, connect func(string) driver.Connector) {
			refused(t, connect(s.DSN), []string{"CREATE TEMPORARY TABLE one (k int PRIMARY KEY, v int)"},
				"DO $$ BEGIN RAISE EXCEPTION 'not enough money'; END $$",
				"DO $$ BEGIN RAISE EXCEPTION 'not enough money' USING ERRCODE = 'ZZ001'; END $$",
				"DO $$ DECLARE n int; BEGIN SELECT 1 INTO STRICT n WHERE false; END $$",
				"SELECT (SELECT generate_series(1, 2))",
				"INSERT INTO one VALUES (1, 1), (1, 1) ON CONFLICT (k) DO UPDATE SET v = 2",
				"EXECUTE nothing", "FETCH nothing", "SAVEPOINT x", "DROP DATABASE postgres", "SELECT repeat('x', 2000000000)")
		})
	})
	t.Run("MariaDB", func(t *testing.T) {
		c, err := mysql.ParseDSN(testservers.MariaDB(t))
		must(t, err)
		connector, err := mysql.NewConnector(c)
		must(t, err)
		refused(t, connector, []string{"CREATE TEMPORARY TABLE one (k int CHECK (k > 0), v int NOT NULL)"},
			"SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'not enough money'", "SIGNAL SQLSTATE '77777'",
			"INSERT INTO one (k, v) VALUES (0, 0)", "INSERT INTO one (k) VALUES (1)", "INSERT INTO one VALUES ('x', 1)", "SELECT (SELECT 1 UNION SELECT 2)")
	})
	t.Run("SQLite", func(t *testing.T) {
		refused(t, file{filepath.Join(t.TempDir(), "db")}, nil, "SELECT * FROM nothing", "SELEC 1")
	})
}

// An argument that can't be sent opens no breaker, either: one row with a number that is too large
// for its column must not stop the others.
func TestArgumentsThatCantBeSentOpenNoBreaker(t *testing.T) {
	each(t, func(t *testing.T, s *testservers.Server, connect func(string) driver.Connector) {
		for fact, args := range map[string][]any{
			"too large":    {"SELECT $1::smallint", 100_000},
			"no such type": {"SELECT $1::int", make(chan int)},
			"too many":     {"SELECT $1::int", 1, 2},
			"too few":      {"SELECT $1::int + $2::int", 1},
			"a struct":     {"SELECT $1::int", struct{}{}},
			"a high bit":   {"SELECT $1::bigint", uint64(1) << 63},
		} {
			text, args := args[0].(string), args[1:]
			for how, ask := range map[string]func(*gabion.Dependency, *sql.DB) error{
				"on the DB": func(_ *gabion.Dependency, db *sql.DB) error {
					_, err := db.ExecContext(t.Context(), text, args...)
					return err
				},
				"Exec": func(d *gabion.Dependency, db *sql.DB) error {
					_, err := gabionsql.Exec(t.Context(), d, db, text, args...)
					return err
				},
				"QueryRow": func(d *gabion.Dependency, db *sql.DB) error {
					return gabionsql.QueryRow(t.Context(), d, db, text, args...).Scan(new(int))
				},
				"RunTx": func(d *gabion.Dependency, db *sql.DB) error {
					return gabionsql.RunTx(t.Context(), d, db, func(ctx context.Context, tx *sql.Tx) error { _, err := tx.ExecContext(ctx, text, args...); return err })
				},
			} {
				d := gabion.New("pg", policy.Policy{Bulkhead: policy.Bulkhead{Limit: 1}, Breaker: policy.Breaker{Consecutive: 1}})
				db := openBy(t, connect(s.DSN), d)
				if err := ask(d, db); err == nil {
					t.Errorf("%s, %s: no error", fact, how)
				}
				if got := d.Stats().Main.Breaker.State.String(); got != "closed" {
					t.Errorf("%s, %s: the breaker is %s", fact, how, got)
				}
			}
		}
	})
}

// A file is a connector of SQLite, whose driver has none.
type file struct{ name string }

func (f file) Connect(context.Context) (driver.Conn, error) { return f.Driver().Open(f.name) }

func (file) Driver() driver.Driver { return new(sqlite.Driver) }

func refused(t *testing.T, c driver.Connector, before []string, texts ...string) {
	for _, text := range texts {
		d := gabion.New("db", policy.Policy{Bulkhead: policy.Bulkhead{Limit: 1}, Breaker: policy.Breaker{Consecutive: 3}})
		db := openBy(t, c, d)
		execute(t, db, before...)
		for range 4 {
			if _, err := db.ExecContext(t.Context(), text); err == nil {
				t.Errorf("%s: no error", text)
			}
		}
		if got := d.Stats().Main.Breaker.State.String(); got != "closed" {
			t.Errorf("%s: the breaker is %s", text, got)
		}
		db.Close() // temporary tables go with the connection
	}
}
