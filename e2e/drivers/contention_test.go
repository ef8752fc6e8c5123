package drivers

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	cenkalti "github.com/cenkalti/backoff/v7"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/internal/testservers"
	"github.com/gabion-go/gabion/policy"
)

const (
	workers = 12
	rows    = 4
	span    = 5 * time.Second
)

// A tally is what a way of retrying made of the workers' calls.
type tally struct {
	asked, done, tried atomic.Int64
	reasons            sync.Map // of calls that failed: how many, by reason
}

// Twelve workers read and write four rows in serializable transactions. The database
// is well all the time, so most calls must succeed, and each that did counts once.
func TestIssue10_ConflictsOfAHealthyDatabase(t *testing.T) {
	if testing.Short() {
		t.Skip("-short leaves out 15 s of load on a real PostgreSQL")
	}
	pool := pooled(t, testservers.Postgres(t))
	ways := []struct {
		name string
		call func(d *gabion.Dependency, ctx context.Context, work func(context.Context) error) error
		p    policy.Policy
	}{
		{"cenkalti", func(_ *gabion.Dependency, ctx context.Context, work func(context.Context) error) error {
			_, err := cenkalti.Retry(ctx, func() (struct{}, error) { return struct{}{}, work(ctx) })
			return err
		}, policy.Policy{}},
		{"gabion, nothing declared", gabionRun, policy.Policy{}},
		{"gabion, declared safe", gabionRun, policy.Policy{Safe: true}},
	}
	share := map[string]float64{}
	for _, w := range ways {
		t.Run(w.name, func(t *testing.T) {
			reset(t, pool)
			var got tally
			d := gabion.New("db", w.p)
			race(t, &got, func(ctx context.Context, row int) error {
				return w.call(d, ctx, func(ctx context.Context) error { got.tried.Add(1); return increment(ctx, pool, row) })
			})
			asked, done := got.asked.Load(), got.done.Load()
			share[w.name] = float64(done) / float64(asked)
			t.Logf("%d of %d calls completed, %d transactions, breaker %v", done, asked, got.tried.Load(), d.Stats().Main.Breaker.State)
			got.reasons.Range(func(why, n any) bool { t.Logf("%v: %d", why, n.(*atomic.Int64).Load()); return true })
			if sum := total(t, pool); sum != done {
				t.Errorf("the counters say %d, and %d calls were answered with success", sum, done)
			}
		})
	}
}

func gabionRun(d *gabion.Dependency, ctx context.Context, work func(context.Context) error) error {
	return d.Run(ctx, work)
}

func pooled(t *testing.T, dsn string) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), dsn+"&pool_max_conns=16")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

func reset(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	for _, s := range []string{
		"DROP TABLE IF EXISTS counters",
		"CREATE TABLE counters (id int PRIMARY KEY, n bigint NOT NULL)",
		"INSERT INTO counters SELECT i, 0 FROM generate_series(0, 3) i",
	} {
		if _, err := pool.Exec(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
}

// increment reads a row and writes what it read, plus one, a little later.
func increment(ctx context.Context, pool *pgxpool.Pool, row int) error {
	return pgx.BeginTxFunc(ctx, pool, pgx.TxOptions{IsoLevel: pgx.Serializable}, func(tx pgx.Tx) error {
		var n int64
		if err := tx.QueryRow(ctx, "SELECT n, pg_sleep(0.005) FROM counters WHERE id = $1", row).Scan(&n, nil); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "UPDATE counters SET n = $2 WHERE id = $1", row, n+1)
		return err
	})
}

func total(t *testing.T, pool *pgxpool.Pool) (n int64) {
	t.Helper()
	if err := pool.QueryRow(t.Context(), "SELECT sum(n) FROM counters").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// race lets the workers call until the time is over. Calls under way then may end.
func race(t *testing.T, got *tally, call func(ctx context.Context, row int) error) {
	var all sync.WaitGroup
	end := time.Now().Add(span)
	for w := range workers {
		all.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(w)))
			for time.Now().Before(end) {
				got.asked.Add(1)
				err := call(t.Context(), random.IntN(rows))
				if err == nil {
					got.done.Add(1)
					continue
				}
				why := error(gabion.ReasonOf(err))
				if why == policy.None {
					why = errors.Unwrap(err)
				}
				n, _ := got.reasons.LoadOrStore(why.Error(), new(atomic.Int64))
				n.(*atomic.Int64).Add(1)
			}
		})
	}
	all.Wait()
}
