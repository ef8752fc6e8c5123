package gabionpgx_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/contrib/gabionpgx"
	"github.com/gabion-go/gabion/gabiontest"
	"github.com/gabion-go/gabion/internal/testproxy"
	"github.com/gabion-go/gabion/internal/testservers"
	"github.com/gabion-go/gabion/policy"
)

// connect returns a pool that is gone with the test. At its end no connection is in use.
func connect(t testing.TB, dsn string, conns int32) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	config.MaxConns = conns
	config.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false }
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for limit := time.Now().Add(30 * time.Second); pool.Stat().AcquiredConns() != 0; { // a broken one is closed on a goroutine of the pool's
			if time.Now().After(limit) {
				t.Errorf("%d connections were not given back", pool.Stat().AcquiredConns())
				return
			}
		}
		pool.Close()
	})
	return pool
}

func execute(t testing.TB, pool *pgxpool.Pool, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if _, err := pool.Exec(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
}

func count(t testing.TB, pool *pgxpool.Pool, text string) (n int) {
	t.Helper()
	if err := pool.QueryRow(t.Context(), text).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

var serializable = gabionpgx.WithTxOptions(pgx.TxOptions{IsoLevel: pgx.Serializable})

// Every call of a healthy database ends well, and counts once.
func TestCountersAreExact(t *testing.T) {
	gabiontest.NoLeaks(t)
	pool := connect(t, testservers.Postgres(t), 8)
	execute(t, pool, "CREATE TABLE counters (id int PRIMARY KEY, n int)", "INSERT INTO counters VALUES (0, 0), (1, 0), (2, 0), (3, 0)")
	d := gabion.New("db", policy.Policy{
		Timeout: policy.Timeout{Call: time.Minute}, Retry: policy.Retry{Contention: policy.ContentionRetry{Attempts: 64, Repeats: policy.Off}},
	})
	const clients, each = 16, 5
	var all sync.WaitGroup
	for client := range clients {
		all.Go(func() {
			for range each {
				if err := gabionpgx.RunTx(t.Context(), d, pool, func(ctx context.Context, tx pgx.Tx) error {
					var n int
					if err := tx.QueryRow(ctx, "SELECT n FROM counters WHERE id = $1", client%4).Scan(&n); err != nil {
						return err
					}
					_, err := tx.Exec(ctx, "UPDATE counters SET n = $2 WHERE id = $1", client%4, n+1)
					return err
				}, serializable); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if n := count(t, pool, "SELECT sum(n)::int FROM counters"); n != clients*each {
		t.Errorf("%d, want %d", n, clients*each)
	}
}

var errPoor = errors.New("not enough money")

func TestWaysToEnd(t *testing.T) {
	gabiontest.NoLeaks(t)
	pool := connect(t, testservers.Postgres(t), 2)
	execute(t, pool, "CREATE TABLE effects (n int UNIQUE DEFERRABLE INITIALLY DEFERRED)")
	add := func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "INSERT INTO effects VALUES (1)")
		return err
	}
	say := func(texts ...string) func(context.Context, pgx.Tx) error {
		return func(ctx context.Context, tx pgx.Tx) error {
			for _, text := range texts {
				if _, err := tx.Conn().Exec(ctx, text); err != nil {
					return err
				}
			}
			return nil
		}
	}
	for _, c := range []struct {
		name    string
		work    func(context.Context, pgx.Tx) error
		is      error
		effect  policy.Effect
		effects int
	}{
		{"well", add, nil, policy.NoEffect, 1},
		{"an error of the work's", func(ctx context.Context, tx pgx.Tx) error { return errors.Join(add(ctx, tx), errPoor) }, errPoor, policy.NoEffect, 0},
		{"Commit is not the work's", func(ctx context.Context, tx pgx.Tx) error { return errors.Join(add(ctx, tx), tx.Commit(ctx)) }, gabionpgx.ErrNotYours, policy.NoEffect, 0},
		{"nor is Rollback", func(ctx context.Context, tx pgx.Tx) error { return errors.Join(add(ctx, tx), tx.Rollback(ctx)) }, gabionpgx.ErrNotYours, policy.NoEffect, 0},
		{"a savepoint is", func(ctx context.Context, tx pgx.Tx) error {
			return pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error { return add(ctx, tx) })
		}, nil, policy.NoEffect, 1},
		{"the work says COMMIT", say("INSERT INTO effects VALUES (1)", "COMMIT"), gabionpgx.ErrEnded, policy.UnknownEffect, 1},
		{"the work says COMMIT and fails", say("INSERT INTO effects VALUES (1)", "COMMIT", "nonsense"), gabionpgx.ErrEnded, policy.UnknownEffect, 1},
		{"the work says ROLLBACK", say("ROLLBACK"), gabionpgx.ErrEnded, policy.UnknownEffect, 0},
		{"the work hides an error", func(ctx context.Context, tx pgx.Tx) error { tx.Exec(ctx, "nonsense"); return nil }, gabionpgx.ErrFailedBefore, policy.NoEffect, 0},
		{"a constraint at COMMIT", func(ctx context.Context, tx pgx.Tx) error { return errors.Join(add(ctx, tx), add(ctx, tx)) }, nil, policy.NoEffect, 0},
		{"rows are left open", func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Query(ctx, "SELECT generate_series(1, 1000000)")
			return err
		}, nil, policy.NoEffect, 0},
		{"its session is ended", say("SELECT pg_terminate_backend(pg_backend_pid())"), nil, policy.NoEffect, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			execute(t, pool, "DELETE FROM effects")
			err := gabionpgx.RunTx(t.Context(), gabion.New("db", policy.Policy{Safe: true}), pool, c.work)
			if c.is != nil && !errors.Is(err, c.is) || (err == nil) != (c.effects == 1 && c.effect == policy.NoEffect) {
				t.Errorf("%v", err)
			}
			if e := new(gabion.Error); errors.As(err, &e) && e.Effect != c.effect {
				t.Errorf("effect %v: %v", e.Effect, err)
			}
			if n := count(t, pool, "SELECT count(*) FROM effects"); n != c.effects {
				t.Errorf("%d effects", n)
			}
		})
	}
	t.Run("a panic", func(t *testing.T) {
		defer func() {
			if recover() == nil {
				t.Error("it did not go on")
			}
		}()
		_ = gabionpgx.RunTx(t.Context(), gabion.New("db", policy.Policy{}), pool, func(context.Context, pgx.Tx) error { panic("no") })
	})
}

func TestCommitWithoutAnswer(t *testing.T) {
	gabiontest.NoLeaks(t)
	server := testservers.StartPostgres(t)
	witness := connect(t, server.DSN, 2)
	execute(t, witness, "CREATE TABLE effects (n int)")
	for _, c := range []struct {
		name    string
		fault   testproxy.Fault
		effects int
	}{
		{"the request is lost", testproxy.Fault{Requests: testproxy.Break, Match: "commit", Once: true}, 0},
		{"the answer is lost", testproxy.Fault{Replies: testproxy.Break, Match: "COMMIT", Once: true}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			execute(t, witness, "DELETE FROM effects")
			p := testproxy.New(t, server.Addr)
			pool := connect(t, strings.Replace(server.DSN, server.Addr, p.Addr, 1), 1)
			runs := 0
			err := gabionpgx.RunTx(t.Context(), gabion.New("db", policy.Policy{Safe: true}), pool, func(ctx context.Context, tx pgx.Tx) error {
				runs++
				_, err := tx.Exec(ctx, "INSERT INTO effects VALUES (1)")
				p.Set(c.fault)
				return err
			})
			if e := new(gabion.Error); runs != 1 || !errors.Is(err, gabionpgx.ErrCommitUnknown) || !errors.As(err, &e) || e.Effect != policy.UnknownEffect {
				t.Errorf("%d runs: %v", runs, err)
			}
			if n := count(t, witness, "SELECT count(*) FROM effects"); n != c.effects || p.Struck() != 1 {
				t.Errorf("%d effects, %d faults", n, p.Struck())
			}
		})
	}
}

func TestCallsThatCannotBeMeant(t *testing.T) {
	d := gabion.New("db", policy.Policy{})
	work := func(context.Context, pgx.Tx) error { t.Error("it ran"); return nil }
	for name, err := range map[string]error{
		"no dependency": gabionpgx.RunTx(t.Context(), nil, new(pgxpool.Pool), work),
		"no database":   gabionpgx.RunTx(t.Context(), d, nil, work),
		"a nil pool":    gabionpgx.RunTx(t.Context(), d, (*pgxpool.Pool)(nil), work),
		"a nil conn":    gabionpgx.RunTx(t.Context(), d, (*pgx.Conn)(nil), work),
		"no work":       gabionpgx.RunTx(t.Context(), d, new(pgxpool.Pool), nil),
	} {
		if gabion.ReasonOf(err) != policy.Invalid {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestNestedRunTxIsRefused(t *testing.T) {
	pool := connect(t, testservers.Postgres(t), 2)
	d := gabion.New("db", policy.Policy{})
	err := gabionpgx.RunTx(t.Context(), d, pool, func(ctx context.Context, tx pgx.Tx) error {
		if gabionpgx.TxFrom(ctx) != tx {
			t.Error("the context has another transaction")
		}
		return gabionpgx.RunTx(ctx, d, pool, func(context.Context, pgx.Tx) error { return nil })
	})
	if !errors.Is(err, gabionpgx.ErrNested) {
		t.Error(err)
	}
}

func ExampleRunTx() {
	pool, err := pgxpool.New(context.Background(), "postgres://localhost:1/shop?connect_timeout=1")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()
	accounts := gabion.New("accounts", policy.Policy{Retry: policy.Retry{Attempts: 1}})
	err = gabionpgx.RunTx(context.Background(), accounts, pool, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "UPDATE accounts SET amount = amount - 10 WHERE id = $1", "a"); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "UPDATE accounts SET amount = amount + 10 WHERE id = $1", "b")
		return err
	}, gabionpgx.WithTxOptions(pgx.TxOptions{IsoLevel: pgx.Serializable}))
	fmt.Println(gabion.EffectOf(err), errors.Is(err, gabionpgx.ErrCommitUnknown)) // the port is closed
	// Output: none false
}
