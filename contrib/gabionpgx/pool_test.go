package gabionpgx_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/contrib/gabionpgx"
	"github.com/gabion-go/gabion/internal/testservers"
	"github.com/gabion-go/gabion/policy"
)

// open returns a Pool of which nothing is left in use when the test ends.
func open(t testing.TB, dsn string, d *gabion.Dependency) *gabionpgx.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	p, err := gabionpgx.Open(context.Background(), config, d)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		clean(t, p, d)
		p.Close()
	})
	return p
}

// clean waits for connections that the pool closes on a goroutine of its own.
func clean(t testing.TB, p *gabionpgx.Pool, d *gabion.Dependency) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for limit := time.Now().Add(30 * time.Second); p.Raw().Stat().AcquiredConns() != 0 && time.Now().Before(limit); {
		<-tick.C
	}
	if conns, slots := p.Raw().Stat().AcquiredConns(), d.Stats().Bulkhead.InUse; conns != 0 || slots != 0 {
		t.Errorf("%d connections and %d slots are left behind", conns, slots)
	}
}

func guarded() *gabion.Dependency {
	return gabion.New("pg", policy.Policy{
		Bulkhead: policy.Bulkhead{Limit: 2}, Breaker: policy.Breaker{Consecutive: 1},
		Timeout: policy.Timeout{Attempt: 500 * time.Millisecond, Call: 500 * time.Millisecond, Margin: policy.Off},
		Retry:   policy.Retry{Hold: policy.Off},
	})
}

// Each kind of call does what the pool itself does, and gives everything back.
func TestCallsOfAPool(t *testing.T) {
	d := gabion.New("pg", policy.Policy{Bulkhead: policy.Bulkhead{Limit: 2}})
	p := open(t, testservers.Postgres(t), d)
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		clean(t, p, d)
	}
	must(p.Ping(ctx))
	_, err := p.Exec(ctx, "CREATE TABLE stock (id int PRIMARY KEY, name text)")
	must(err)
	n, err := p.CopyFrom(ctx, pgx.Identifier{"stock"}, []string{"id", "name"}, pgx.CopyFromRows([][]any{{1, "a"}, {2, "b"}, {3, "c"}}))
	if must(err); n != 3 {
		t.Errorf("%d rows were copied", n)
	}
	rows, err := p.Query(ctx, "SELECT id FROM stock WHERE id > $1 ORDER BY id", 0, gabion.WithIdempotent())
	if err != nil {
		t.Fatal(err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[int])
	if must(err); len(ids) != 3 || ids[0] != 1 || ids[2] != 3 {
		t.Errorf("the rows are %v", ids)
	}
	rows, err = p.Query(ctx, "SELECT id FROM stock WHERE false")
	if must(err); rows.Next() || rows.Err() != nil || len(rows.FieldDescriptions()) != 1 {
		t.Errorf("no rows are %v, %v", rows.FieldDescriptions(), rows.Err())
	}
	var name string
	must(p.QueryRow(ctx, "SELECT name FROM stock WHERE id = $1", 2).Scan(&name))
	if err := p.QueryRow(ctx, "SELECT name FROM stock WHERE id = 9").Scan(&name); err != pgx.ErrNoRows {
		t.Errorf("without a row: %v", err)
	}
	b := new(pgx.Batch)
	b.Queue("UPDATE stock SET name = 'x' WHERE id = 1")
	b.Queue("SELECT name FROM stock WHERE id = 1").QueryRow(func(r pgx.Row) error { return r.Scan(&name) })
	results := p.SendBatch(ctx, b)
	must(results.Close())
	if must(results.Close()); name != "x" {
		t.Errorf("the batch read %q", name)
	}
	tx, err := p.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	_, err = tx.Exec(ctx, "UPDATE stock SET name = 'y' WHERE id = 1")
	if err == nil {
		err = tx.QueryRow(ctx, "SELECT name FROM stock WHERE id = 1").Scan(&name)
	}
	if slots := d.Stats().Bulkhead.InUse; err != nil || name != "y" || slots != 1 {
		t.Errorf("in a transaction: %q, %d slots, %v", name, slots, err)
	}
	must(tx.Rollback(ctx))
	if err := tx.Commit(ctx); !errors.Is(err, pgx.ErrTxClosed) {
		t.Errorf("ending it twice: %v", err)
	}
	must(gabionpgx.RunTx(ctx, d, p, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := p.Exec(ctx, "SELECT 1"); !errors.Is(err, gabionpgx.ErrInTransaction) {
			t.Errorf("a statement of its own: %v", err)
		}
		_, err := tx.Exec(ctx, "UPDATE stock SET name = 'z' WHERE id = 1")
		return err
	}))
	if got := d.Stats().Main.Breaker.Counts.Failures; got != 0 {
		t.Errorf("%d failures", got)
	}
}

// LISTEN and NOTIFY work on a connection of the pool.
func TestListen(t *testing.T) {
	d := gabion.New("pg", policy.Policy{Bulkhead: policy.Bulkhead{Limit: 2}})
	p := open(t, testservers.Postgres(t), d)
	c, err := p.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Release()
	if _, err := c.Exec(t.Context(), "LISTEN news"); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Exec(t.Context(), "NOTIFY news, 'hello'"); err != nil {
		t.Fatal(err)
	}
	n, err := c.Conn().WaitForNotification(t.Context())
	if err != nil || n.Payload != "hello" {
		t.Errorf("%v, %v", n, err)
	}
}

// What fails ends with its own reason, and the breaker knows what is the database's fault.
func TestFailuresOfAPool(t *testing.T) {
	dsn := testservers.Postgres(t)
	taken := func(t *testing.T, p *gabionpgx.Pool) {
		for range 2 {
			c, err := p.Acquire(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(c.Release)
		}
	}
	for _, c := range []struct {
		fact  string
		use   func(t *testing.T, p *gabionpgx.Pool) error
		want  policy.Reason
		opens bool
	}{
		{"a taken pool", func(t *testing.T, p *gabionpgx.Pool) error {
			taken(t, p)
			_, err := p.Exec(t.Context(), "SELECT 1")
			return err
		}, policy.PoolExhausted, false},
		{"a taken pool, and rows", func(t *testing.T, p *gabionpgx.Pool) error {
			taken(t, p)
			_, err := p.Query(t.Context(), "SELECT 1")
			return err
		}, policy.PoolExhausted, false},
		{"a taken pool, and a batch", func(t *testing.T, p *gabionpgx.Pool) error {
			taken(t, p)
			return p.SendBatch(t.Context(), new(pgx.Batch)).Close()
		}, policy.PoolExhausted, false},
		{"a taken pool, and a transaction", func(t *testing.T, p *gabionpgx.Pool) error {
			taken(t, p)
			_, err := p.Begin(t.Context())
			return err
		}, policy.PoolExhausted, false},
		{"a slow statement", func(t *testing.T, p *gabionpgx.Pool) error {
			_, err := p.Exec(t.Context(), "SELECT pg_sleep(5)")
			return err
		}, policy.CallTimeout, true},
		{"a slow statement of a transaction", func(t *testing.T, p *gabionpgx.Pool) error {
			tx, err := p.Begin(t.Context())
			if err != nil {
				return err
			}
			defer tx.Rollback(t.Context())
			_, err = tx.Exec(t.Context(), "SELECT pg_sleep(5)")
			return err
		}, policy.CallTimeout, true},
		{"an answer of no", func(t *testing.T, p *gabionpgx.Pool) error {
			_, err := p.Query(t.Context(), "SELECT 1/0")
			return err
		}, policy.NotRetryable, false},
		{"a destination of another type", func(t *testing.T, p *gabionpgx.Pool) error {
			return p.QueryRow(t.Context(), "SELECT 'a'").Scan(new(int))
		}, policy.NotRetryable, false},
		{"a conflict is repeated", func(t *testing.T, p *gabionpgx.Pool) error {
			_, err := p.Exec(t.Context(), "DO $$ BEGIN IF nextval('tries') = 1 THEN RAISE EXCEPTION 'again' USING ERRCODE = '40001'; END IF; END $$")
			return err
		}, policy.None, false},
		{"an argument behind an option", func(t *testing.T, p *gabionpgx.Pool) error {
			return p.QueryRow(t.Context(), "SELECT $1", gabion.WithIdempotent(), 1).Scan(nil)
		}, policy.Invalid, false},
	} {
		t.Run(c.fact, func(t *testing.T) {
			d := guarded()
			p := open(t, dsn, d)
			if _, err := p.Raw().Exec(t.Context(), "DROP SEQUENCE IF EXISTS tries; CREATE SEQUENCE tries"); err != nil {
				t.Fatal(err)
			}
			err := c.use(t, p)
			if got := gabion.ReasonOf(err); got != c.want || (err == nil) != (c.want == policy.None) {
				t.Errorf("%v, want %v", err, c.want)
			}
			if c.want == policy.PoolExhausted && !strings.Contains(err.Error(), "all 2 in use") {
				t.Errorf("it reads %v", err)
			}
			if opened := d.Stats().Main.Breaker.State.String() == "open"; opened != c.opens {
				t.Errorf("the breaker is %v", d.Stats().Main.Breaker.State)
			}
		})
	}
}

// A connection to a server that refuses to write is thrown away.
func TestAReadOnlyServer(t *testing.T) {
	d := gabion.New("pg", policy.Policy{Bulkhead: policy.Bulkhead{Limit: 1}})
	p := open(t, testservers.Postgres(t), d)
	var before, after uint32
	pid := func(to *uint32) {
		t.Helper()
		if err := p.QueryRow(t.Context(), "SELECT pg_backend_pid()").Scan(to); err != nil {
			t.Fatal(err)
		}
	}
	pid(&before)
	if _, err := p.Exec(t.Context(), "SET default_transaction_read_only = on"); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Exec(t.Context(), "CREATE TABLE written (n int)"); err != nil { // again, on another connection
		t.Errorf("error %v", err)
	}
	if pid(&after); before == after {
		t.Error("the connection is the same")
	}
	if _, err := p.Exec(t.Context(), "SET default_transaction_read_only = on"); err != nil {
		t.Fatal(err)
	}
	tx, err := p.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, err = tx.Exec(t.Context(), "INSERT INTO written VALUES (1)")
	var state *pgconn.PgError
	if !errors.As(err, &state) || state.Code != "25006" {
		t.Errorf("in a transaction: %v", err)
	}
	tx.Rollback(t.Context())
	before = after
	if pid(&after); before == after {
		t.Error("the connection is the same after a transaction")
	}
}

// What can't be meant is said at once.
func TestMistakesWithAPool(t *testing.T) {
	config, err := pgxpool.ParseConfig("postgres://127.0.0.1:1/none")
	if err != nil {
		t.Fatal(err)
	}
	d := gabion.New("pg", policy.Policy{})
	off := gabion.New("pg", policy.Policy{Bulkhead: policy.Bulkhead{Off: true}})
	for _, c := range []struct {
		fact   string
		config *pgxpool.Config
		d      *gabion.Dependency
	}{
		{"a nil configuration", nil, d}, {"an empty configuration", new(pgxpool.Config), d}, {"a nil dependency", config, nil}, {"no bulkhead", config, off},
	} {
		t.Run(c.fact, func(t *testing.T) {
			if _, err := gabionpgx.Open(t.Context(), c.config, c.d); !errors.Is(err, policy.Invalid) {
				t.Errorf("error %v", err)
			}
		})
	}
}
