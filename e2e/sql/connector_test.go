package sql

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/lib/pq"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/gabionsql"
	"github.com/gabion-go/gabion/internal/testproxy"
	"github.com/gabion-go/gabion/internal/testservers"
	"github.com/gabion-go/gabion/policy"
)

// drivers are the connectors of the drivers for database/sql.
var drivers = map[string]func(t testing.TB, dsn string) driver.Connector{
	"pgx": func(t testing.TB, dsn string) driver.Connector {
		c, err := pgx.ParseConfig(dsn)
		if err != nil {
			t.Fatal(err)
		}
		return stdlib.GetConnector(*c)
	},
	"pq": func(t testing.TB, dsn string) driver.Connector {
		c, err := pq.NewConnector(dsn)
		if err != nil {
			t.Fatal(err)
		}
		return c
	},
}

func openBy(t testing.TB, c driver.Connector, d *gabion.Dependency) *sql.DB {
	t.Helper()
	db, err := gabionsql.Open(c, d)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if n := d.Stats().Bulkhead.InUse + db.Stats().InUse; n != 0 {
			t.Errorf("%d slots and connections are left behind", n)
		}
		db.Close()
	})
	return db
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// each runs a test with every driver on one server.
func each(t *testing.T, test func(t *testing.T, s *testservers.Server, connect func(dsn string) driver.Connector)) {
	s := testservers.StartPostgres(t)
	for name, of := range drivers {
		t.Run(name, func(t *testing.T) {
			test(t, s, func(dsn string) driver.Connector { return of(t, dsn) })
		})
	}
}

// What a program does every day works as without the wrapper.
func TestEverydayUse(t *testing.T) {
	each(t, func(t *testing.T, s *testservers.Server, connect func(string) driver.Connector) {
		ctx := context.Background()
		d := gabion.New("pg", policy.Policy{Bulkhead: policy.Bulkhead{Limit: 4}})
		db := openBy(t, connect(s.DSN), d)
		_, err := db.ExecContext(ctx, "DROP TABLE IF EXISTS stock; CREATE TABLE stock (id int PRIMARY KEY, name text, n numeric(7,2))")
		must(t, err)
		stmt, err := db.PrepareContext(ctx, "INSERT INTO stock VALUES ($1, $2, $3)")
		must(t, err)
		for i := range 3 {
			_, err := stmt.ExecContext(ctx, i, fmt.Sprint("n", i), "1.50")
			must(t, err)
		}
		must(t, stmt.Close())
		tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelSerializable})
		must(t, err)
		_, err = tx.Exec("UPDATE stock SET n = n + 1")
		must(t, err)
		rows, err := tx.Query("SELECT id FROM stock ORDER BY id")
		must(t, err)
		must(t, errors.Join(rows.Close(), rows.Err()))
		must(t, tx.Commit())
		rows, err = db.QueryContext(ctx, "SELECT id, name, n FROM stock")
		must(t, err)
		types, err := rows.ColumnTypes()
		must(t, err)
		if got := types[0].DatabaseTypeName() + types[1].DatabaseTypeName(); got != "INT4TEXT" {
			t.Errorf("the columns are %s", got)
		}
		if p, scale, ok := types[2].DecimalSize(); !ok || p != 7 || scale != 2 {
			t.Errorf("the size is %d, %d, %v", p, scale, ok)
		}
		must(t, errors.Join(rows.Close(), rows.Err()))
		_, err = db.ExecContext(ctx, "INSERT INTO stock VALUES (1, 'again', 0)")
		if !errors.As(err, new(interface{ SQLState() string })) || gabion.ReasonOf(err) != policy.None {
			t.Errorf("the driver's error is %v", err)
		}
		if got := d.Stats().Main.Breaker.Counts.Failures; got != 0 {
			t.Errorf("%d failures", got)
		}
		conn, err := db.Conn(ctx)
		must(t, err)
		defer conn.Close()
		must(t, gabionsql.Raw(conn, func(c any) error {
			if name := fmt.Sprintf("%T", c); name != "*stdlib.Conn" && name != "*pq.conn" {
				return fmt.Errorf("raw is %s", name)
			}
			return nil
		}))
	})
}

// COPY of lib/pq goes through a prepared statement of a transaction.
func TestCopyIn(t *testing.T) {
	s := testservers.StartPostgres(t)
	db := openBy(t, drivers["pq"](t, s.DSN), gabion.New("pg", policy.Policy{}))
	_, err := db.Exec("CREATE TABLE copied (n int)")
	must(t, err)
	tx, err := db.Begin()
	must(t, err)
	stmt, err := tx.Prepare(pq.CopyIn("copied", "n"))
	must(t, err)
	for i := range 100 {
		_, err := stmt.Exec(i)
		must(t, err)
	}
	_, err = stmt.Exec()
	must(t, err)
	must(t, stmt.Close())
	must(t, tx.Commit())
	var n int
	must(t, db.QueryRow("SELECT count(*) FROM copied").Scan(&n))
	if n != 100 {
		t.Errorf("%d rows", n)
	}
}

// An exhausted pool and a slow database have different reasons.
func TestPoolExhausted(t *testing.T) {
	each(t, func(t *testing.T, s *testservers.Server, connect func(string) driver.Connector) {
		d := gabion.New("pg", policy.Policy{
			Bulkhead: policy.Bulkhead{Limit: 2}, Breaker: policy.Breaker{Consecutive: 1},
			Timeout: policy.Timeout{Attempt: 200 * time.Millisecond, Call: 200 * time.Millisecond, Margin: policy.Off},
		})
		db := openBy(t, connect(s.DSN), d)
		for range 2 {
			conn, err := db.Conn(context.Background())
			must(t, err)
			defer conn.Close()
		}
		if _, err := gabionsql.Exec(context.Background(), d, db, "SELECT 1"); !errors.Is(err, policy.PoolExhausted) || gabion.EffectOf(err) != policy.NoEffect {
			t.Errorf("a taken pool: %v", err)
		}
		if got := d.Stats().Main.Breaker.State.String(); got != "closed" {
			t.Errorf("the breaker is %s", got)
		}
		slow := openBy(t, connect(s.DSN), d)
		if _, err := gabionsql.Exec(context.Background(), d, slow, "SELECT pg_sleep(5)"); !errors.Is(err, policy.CallTimeout) {
			t.Errorf("a slow statement: %v", err)
		}
		if got := d.Stats().Main.Breaker.State.String(); got != "open" {
			t.Errorf("the breaker is %s", got)
		}
	})
}

// The server's own limit ends a statement, which is not sent again, and its connection goes
// on.
func TestStatementTimeoutOfOneStatement(t *testing.T) {
	each(t, func(t *testing.T, s *testservers.Server, connect func(string) driver.Connector) {
		d := gabion.New("pg", policy.Policy{Bulkhead: policy.Bulkhead{Limit: 2}})
		db := openBy(t, connect(s.DSN+"&statement_timeout=50"), d)
		_, err := gabionsql.Exec(context.Background(), d, db, "SELECT pg_sleep(5)")
		if !errors.Is(err, policy.UnclassifiedError) || !strings.Contains(err.Error(), "statement timeout") {
			t.Errorf("error %v", err)
		}
		var n int
		must(t, gabionsql.QueryRow(context.Background(), d, db, "SELECT 7").Scan(&n))
		if got := d.Stats().Totals.Attempts; got > 3 { // a connect may be one
			t.Errorf("%d attempts", got)
		}
		if got := db.Stats().OpenConnections; got != 1 {
			t.Errorf("%d connections", got)
		}
	})
}

// The breaker opens when the server is killed, and closes once it is back.
func TestTheServerIsKilledAndComesBack(t *testing.T) {
	s := testservers.StartPostgres(t)
	d := gabion.New("pg", policy.Policy{
		Bulkhead: policy.Bulkhead{Limit: 4}, Breaker: policy.Breaker{Consecutive: 5, Open: 100 * time.Millisecond},
	})
	db := openBy(t, drivers["pgx"](t, s.DSN), d)
	ask := func() error { _, err := db.Exec("SELECT 1"); return err }
	must(t, ask())
	s.Kill()
	until(t, "the breaker is open", func() bool { return errors.Is(ask(), policy.BreakerOpen) })
	s.Restart()
	until(t, "calls work", func() bool { return ask() == nil })
	until(t, "the breaker is closed", func() bool { must(t, ask()); return d.Stats().Main.Breaker.State.String() == "closed" })
}

func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(30 * time.Second)
	for !is() {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("never: %s", what)
		}
	}
}

// A name that leads to the replica before that is promoted: writes are refused there, the
// connections are thrown away, and after the promotion every write is there once.
func TestFailover(t *testing.T) {
	for name, connect := range drivers {
		t.Run(name, func(t *testing.T) {
			primary := testservers.StartPostgres(t)
			replica := primary.Replica()
			proxy := testproxy.New(t, primary.Addr)
			first, second := direct(t, primary), direct(t, replica)
			_, err := first.Exec("CREATE TABLE paid (id int PRIMARY KEY)")
			must(t, err)

			var refused atomic.Int32
			d := gabion.New("pg", policy.Policy{
				Bulkhead: policy.Bulkhead{Limit: 4},
				Retry:    policy.Retry{Attempts: 50, Hold: policy.Off, Budget: policy.Budget{Off: true}},
				Breaker:  policy.Breaker{Off: true},
				Timeout:  policy.Timeout{Attempt: 5 * time.Second, Call: 60 * time.Second},
			}, gabion.WithObserver(gabion.ObserverFunc(func(_ context.Context, e gabion.Event) {
				if e.Code == "25006" {
					refused.Add(1)
				}
			})))
			db := openBy(t, connect(t, "postgres://postgres@"+proxy.Addr+"/postgres?sslmode=disable"), d)
			var all sync.WaitGroup
			half, moved := make(chan bool), make(chan bool)
			for w := range 4 {
				all.Go(func() {
					for i := range 50 {
						if i == 25 {
							half <- true
							<-moved
						}
						_, err := gabionsql.Exec(context.Background(), d, db, "INSERT INTO paid VALUES ($1) ON CONFLICT DO NOTHING", w*50+i, gabion.WithIdempotent())
						if err != nil {
							t.Errorf("write %d: %v", i, err)
						}
					}
				})
			}
			for range 4 {
				<-half
			}
			follow(t, first, second)
			proxy.Switch(replica.Addr)
			proxy.Set(testproxy.Fault{Down: true})
			proxy.Set(testproxy.Fault{})
			close(moved)
			until(t, "a write is refused", func() bool { return refused.Load() > 0 })
			follow(t, first, second)
			_, err = second.Exec("SELECT pg_promote()")
			must(t, err)
			all.Wait()
			var n int
			must(t, second.QueryRow("SELECT count(*) FROM paid").Scan(&n))
			if n != 200 {
				t.Errorf("%d of 200 writes are there", n)
			}
			t.Logf("%d attempts for %d calls, %d refused", d.Stats().Totals.Attempts, d.Stats().Totals.Calls, refused.Load())
		})
	}
}

// direct is a connection that goes to one server.
func direct(t *testing.T, s *testservers.Server) *sql.DB {
	return openBy(t, drivers["pgx"](t, s.DSN), gabion.New("direct", policy.Policy{Bulkhead: policy.Bulkhead{Limit: 1}}))
}

// follow waits until a replica has what its primary has.
func follow(t *testing.T, primary, replica *sql.DB) {
	t.Helper()
	var lsn string
	must(t, primary.QueryRow("SELECT pg_current_wal_lsn()").Scan(&lsn))
	until(t, "the replica has everything", func() (has bool) {
		must(t, replica.QueryRow("SELECT pg_last_wal_replay_lsn() >= $1::pg_lsn", lsn).Scan(&has))
		return has
	})
}
