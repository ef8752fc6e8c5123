package sql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/gabionsql"
	"github.com/gabion-go/gabion/gabiontest"
	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/idempotency/sqlstore"
	"github.com/gabion-go/gabion/internal/testproxy"
	"github.com/gabion-go/gabion/internal/testservers"
	"github.com/gabion-go/gabion/policy"
)

// cuts are ways to lose a message of a transaction: before or after it has gone through,
// on its way there or back. Drivers differ in how they write BEGIN and COMMIT.
func cuts(begin, commit string) (all []testproxy.Fault) {
	for _, effect := range []testproxy.Effect{testproxy.Break, testproxy.PassBreak} {
		for _, match := range []string{begin, "INSERT", commit} {
			all = append(all, testproxy.Fault{Requests: effect, Match: match, Once: true})
		}
		for _, match := range []string{"BEGIN", "INSERT", "COMMIT"} {
			all = append(all, testproxy.Fault{Replies: effect, Match: match, Once: true})
		}
	}
	return all
}

// The connection is cut at each message: what RunTx says is what the database has. With a
// record the effect is there exactly once, and RunTx says so.
func TestConnectionCutAtEachMessage(t *testing.T) {
	gabiontest.NoLeaks(t)
	server := testservers.StartPostgres(t)
	witness := open(t, "pgx", server.DSN, 2)
	execute(t, witness, "CREATE TABLE effects (k text)")
	store, err := sqlstore.New(witness, sqlstore.Postgres, "records")
	if err == nil {
		err = store.Migrate(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	struck := map[ran]int{}
	for _, driver := range []string{"pgx", "postgres"} {
		all := cuts("begin", "commit")
		if driver == "postgres" {
			all = cuts("BEGIN", "COMMIT")
		}
		for n, fault := range all {
			for _, way := range []string{"bare", "safe", "recorded"} {
				t.Run(fmt.Sprintf("%s, %+v, %s", driver, fault, way), func(t *testing.T) {
					c := cut{T: t, witness: witness, fault: fault, recorded: way == "recorded", proxy: testproxy.New(t, server.Addr)}
					c.d = gabion.New("db", policy.Policy{Safe: way == "safe", Timeout: policy.Timeout{Call: time.Minute}})
					c.db = open(t, driver, through(server.DSN, server.Addr, c.proxy.Addr), 2)
					if got := c.run(fmt.Sprintf("%s-%d-%s", driver, n, way)); c.proxy.Struck() > 0 {
						struck[got]++
					}
				})
			}
		}
	}
	t.Logf("%v", struck)
	if struck[done] == 0 || struck[unknown] == 0 {
		t.Errorf("hardly anything was tested: %v", struck)
	}
}

// A cut is one transaction over a connection that a proxy cuts.
type cut struct {
	*testing.T
	d        *gabion.Dependency
	db       *sql.DB
	witness  *sql.DB
	proxy    *testproxy.Proxy
	fault    testproxy.Fault
	recorded bool
}

func (c *cut) run(key string) ran {
	var opts []gabionsql.TxOption
	r := &gabionsql.Once{ID: idempotency.IDOf("", key), Retention: time.Hour}
	if c.recorded {
		store, err := sqlstore.New(c.db, sqlstore.Postgres, "records")
		if err != nil {
			c.Fatal(err)
		}
		r.Store = store
		opts = append(opts, gabionsql.WithOnce(r))
	}
	if err := c.db.PingContext(c.Context()); err != nil {
		c.Fatal(err)
	}
	c.proxy.Set(c.fault)
	runs := 0
	work := func(ctx context.Context, tx *sql.Tx) error {
		runs++
		r.Result = idempotency.Result{Status: 201}
		return insert(key)(ctx, tx)
	}
	err := gabionsql.RunTx(c.Context(), c.d, c.db, work, opts...)
	got, effects := said(err), count(c, c.witness, "SELECT count(*) FROM effects WHERE k = $1", key)
	if !got.agrees(effects) {
		c.Errorf("%s with %d effects after %d runs: %v", got, effects, runs, err)
	}
	if c.recorded && (got != done || r.Replayed || r.Result.Status != 201) {
		c.Errorf("%v, %+v", err, r.Result)
	}
	if !c.recorded {
		return got
	}
	again := &gabionsql.Once{Store: r.Store, ID: r.ID, Retention: time.Hour}
	if err := gabionsql.RunTx(c.Context(), c.d, c.db, func(context.Context, *sql.Tx) error { c.Error("it ran again"); return nil },
		gabionsql.WithOnce(again)); err != nil || !again.Replayed || again.Result.Status != 201 {
		c.Errorf("again: %v, %+v", err, again)
	}
	return got
}

// The server restarts again and again. Of each transaction the database has what RunTx
// said, and with a record what is asked for until it succeeds is there once.
func TestServerRestartsInTransactions(t *testing.T) {
	gabiontest.NoLeaks(t)
	server := testservers.StartPostgres(t)
	db := open(t, "pgx", server.DSN, 8)
	execute(t, db, "CREATE TABLE effects (k text)")
	store, err := sqlstore.New(db, sqlstore.Postgres, "records")
	if err == nil {
		err = store.Migrate(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	d := gabion.New("db", policy.Policy{Timeout: policy.Timeout{Call: 20 * time.Second}})
	type told struct {
		key      string
		recorded bool
		ran      ran
	}
	all, ended := make(chan told, 8*1000), make(chan struct{})
	stop, stopped := context.WithCancel(t.Context())
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		clients(8, func(client int) {
			for n := 0; stop.Err() == nil && n < 1000; n++ {
				x := told{key: fmt.Sprintf("%d-%d", client, n), recorded: client%2 == 0}
				var opts []gabionsql.TxOption
				if x.recorded {
					opts = append(opts, gabionsql.WithOnce(&gabionsql.Once{Store: store, ID: idempotency.IDOf("", x.key), Retention: time.Hour}))
				}
				err := gabionsql.RunTx(t.Context(), d, db, insert(x.key), opts...)
				for try := 0; x.recorded && err != nil && try < 50; try++ {
					if r := gabion.ReasonOf(err); r == policy.None || errors.Is(err, gabionsql.ErrEnded) {
						t.Error(err)
					}
					<-time.After(50 * time.Millisecond) // the breaker is open
					err = gabionsql.RunTx(t.Context(), d, db, insert(x.key), opts...)
				}
				x.ran = said(err)
				all <- x
				select {
				case ended <- struct{}{}:
				default:
				}
			}
		})
	}()
	for range 2 {
		for range 100 {
			<-ended
		}
		server.Kill()
		server.Restart()
	}
	for range 100 {
		<-ended
	}
	stopped()
	<-finished
	close(all)
	sums := map[ran]int{}
	for x := range all {
		sums[x.ran]++
		if n := count(t, db, "SELECT count(*) FROM effects WHERE k = $1", x.key); !x.ran.agrees(n) || x.recorded && n != 1 {
			t.Errorf("%+v: %d effects", x, n)
		}
	}
	t.Logf("%v", sums)
	if sums[done] == 0 {
		t.Errorf("%v", sums)
	}
}

// What work does wrong on a real server.
func TestWorkDoesWrong(t *testing.T) {
	gabiontest.NoLeaks(t)
	dsn := testservers.Postgres(t)
	for _, driver := range []string{"pgx", "postgres"} {
		db := open(t, driver, dsn, 2)
		execute(t, db, "DROP TABLE IF EXISTS effects", "CREATE TABLE effects (k text)")
		for _, c := range []struct {
			name string
			work func(context.Context, *sql.Tx) error
			is   error
			ran  ran
		}{
			{"it commits", func(ctx context.Context, tx *sql.Tx) error { return errors.Join(insert("x")(ctx, tx), tx.Commit()) }, gabionsql.ErrEnded, unknown},
			{"it rolls back", func(ctx context.Context, tx *sql.Tx) error { return errors.Join(insert("x")(ctx, tx), tx.Rollback()) }, gabionsql.ErrEnded, unknown},
			{"it hides an error", func(ctx context.Context, tx *sql.Tx) error { tx.ExecContext(ctx, "nonsense"); return nil }, gabionsql.ErrFailedBefore, nothing},
			{"it leaves rows open", func(ctx context.Context, tx *sql.Tx) error {
				_, err := tx.QueryContext(ctx, "SELECT generate_series(1, 100000)") //nolint:rowserrcheck // left open
				return err
			}, nil, done},
		} {
			t.Run(driver+", "+c.name, func(t *testing.T) {
				execute(t, db, "DELETE FROM effects")
				err := gabionsql.RunTx(t.Context(), gabion.New("db", policy.Policy{Safe: true}), db, c.work)
				if c.is != nil && (!errors.Is(err, c.is) || said(err) != c.ran) {
					t.Errorf("%v", err)
				}
				if n := count(t, db, "SELECT count(*) FROM effects"); c.is != nil && !said(err).agrees(n) {
					t.Errorf("%d effects: %v", n, err)
				}
				if n := db.Stats().InUse; n != 0 {
					t.Errorf("%d connections are in use", n)
				}
			})
		}
	}
}
