package gabionpgx_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/contrib/gabionpgx"
	"github.com/gabion-go/gabion/internal/testservers"
	"github.com/gabion-go/gabion/policy"
)

var errMine = errors.New("the program's own")

// brokenRows end with an error beside a row, as a file does that can't be read to its end.
type brokenRows struct{ left int }

func (r *brokenRows) Next() bool           { r.left--; return r.left >= 0 }
func (*brokenRows) Values() ([]any, error) { return []any{1}, nil }
func (r *brokenRows) Err() error {
	if r.left < 0 {
		return errMine
	}
	return nil
}

// What is wrong with the program's own rows, arguments and callbacks says nothing about the
// database: its breaker, which opens with one failure here, stays closed.
func TestMistakesOfTheProgramAreNoFailuresOfTheDatabase(t *testing.T) {
	dsn := testservers.Postgres(t)
	table, columns := pgx.Identifier{"mistakes"}, []string{"n"}
	copying := func(rows pgx.CopyFromSource) func(context.Context, *gabionpgx.Pool) error {
		return func(ctx context.Context, p *gabionpgx.Pool) error {
			_, err := p.CopyFrom(ctx, table, columns, rows)
			return err
		}
	}
	for _, c := range []struct {
		fact   string
		use    func(context.Context, *gabionpgx.Pool) error
		effect policy.Effect
	}{
		{"a copy whose values have an error", copying(pgx.CopyFromFunc(func() ([]any, error) { return nil, errMine })), policy.NoEffect},
		{"a copy whose rows end with an error", copying(&brokenRows{left: 10_000}), policy.NoEffect},
		{"a copy of a value that can't be encoded", copying(pgx.CopyFromRows([][]any{{1}, {struct{}{}}})), policy.NoEffect},
		{"a copy of rows that are too wide", copying(pgx.CopyFromRows([][]any{{1, 2}})), policy.NoEffect},
		{"a copy of no source", copying(nil), policy.NoEffect},
		{"a copy that waits for its source", func(ctx context.Context, p *gabionpgx.Pool) error {
			slow, cancel := context.WithTimeout(ctx, 2*time.Second) // the attempt has 500 ms
			defer cancel()
			return copying(pgx.CopyFromFunc(func() ([]any, error) { <-slow.Done(); return []any{1}, nil }))(ctx, p)
		}, policy.NoEffect},
		{"an argument that can't be encoded", func(ctx context.Context, p *gabionpgx.Pool) error {
			_, err := p.Exec(ctx, "SELECT $1::int", struct{}{})
			return err
		}, policy.UnknownEffect},
		{"an argument of a query", func(ctx context.Context, p *gabionpgx.Pool) error {
			_, err := p.Query(ctx, "SELECT $1::int", struct{}{})
			return err
		}, policy.UnknownEffect},
		{"an argument of a single row", func(ctx context.Context, p *gabionpgx.Pool) error {
			return p.QueryRow(ctx, "SELECT $1::int", struct{}{}).Scan(new(int))
		}, policy.UnknownEffect},
		{"an argument of a batch", func(ctx context.Context, p *gabionpgx.Pool) error {
			b := new(pgx.Batch)
			b.Queue("SELECT $1::int", struct{}{})
			return p.SendBatch(ctx, b).Close()
		}, policy.UnknownEffect},
		{"a callback of a batch", func(ctx context.Context, p *gabionpgx.Pool) error {
			b := new(pgx.Batch)
			b.Queue("SELECT 1").QueryRow(func(pgx.Row) error { return errMine })
			return p.SendBatch(ctx, b).Close()
		}, policy.UnknownEffect},
		{"a statement of a transaction that is over", func(ctx context.Context, p *gabionpgx.Pool) error {
			tx, err := p.Begin(ctx)
			if err != nil {
				return nil //nolint:nilerr // that Begin works is other tests' matter
			}
			_ = tx.Rollback(ctx)
			_, err = tx.Exec(ctx, "SELECT 1")
			return err
		}, policy.NoEffect},
	} {
		t.Run(c.fact, func(t *testing.T) {
			d := guarded()
			p := open(t, dsn, d)
			if _, err := p.Raw().Exec(t.Context(), "CREATE TABLE IF NOT EXISTS mistakes (n int)"); err != nil {
				t.Fatal(err)
			}
			err := c.use(t.Context(), p)
			e, ok := errors.AsType[*gabion.Error](err)
			if !ok || e.Reason != policy.NotRetryable || e.Effect != c.effect {
				t.Errorf("%v (%+v)", err, e)
			}
			if b := d.Stats().Main.Breaker; b.Counts.Failures != 0 || b.State != policy.StateClosed {
				t.Errorf("the breaker is %v with %d failures", b.State, b.Counts.Failures)
			}
			var rows int
			if err := p.Raw().QueryRow(t.Context(), "SELECT count(*) FROM mistakes").Scan(&rows); err != nil || rows != 0 {
				t.Errorf("%d rows are there, %v", rows, err)
			}
		})
	}
}

// A copy that the server itself canceled is no mistake of the program, although the state is the
// same as that of a copy which pgx ended.
func TestACopyThatTheServerCancelsCounts(t *testing.T) {
	d := gabion.New("pg", policy.Policy{
		Bulkhead: policy.Bulkhead{Limit: 2}, Breaker: policy.Breaker{Consecutive: 1},
		Timeout: policy.Timeout{Attempt: time.Minute, Call: time.Minute, Margin: policy.Off},
	})
	p := open(t, testservers.Postgres(t), d)
	if _, err := p.Raw().Exec(t.Context(), "CREATE TABLE canceled (n int)"); err != nil {
		t.Fatal(err)
	}
	n := 0
	_, err := p.CopyFrom(t.Context(), pgx.Identifier{"canceled"}, []string{"n"}, pgx.CopyFromFunc(func() ([]any, error) {
		if n++; n%100_000 == 0 { // the copy runs
			if _, err := p.Raw().Exec(t.Context(), "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE query LIKE 'copy%' AND state = 'active'"); err != nil {
				t.Error(err)
			}
		}
		if n > 10_000_000 {
			return nil, errMine
		}
		return []any{n}, nil
	}))
	if b := d.Stats().Main.Breaker; err == nil || b.State != policy.StateOpen {
		t.Errorf("the breaker is %v after %v", b.State, err)
	}
}

// A batch that begins a transaction leaves its connection and its slot with it.
func TestABatchThatBeginsATransaction(t *testing.T) {
	dsn := testservers.Postgres(t)
	for _, c := range []struct {
		fact, statement string
		end             func(pgx.Tx, context.Context) error
		rows            int
	}{
		{"that is committed", "INSERT INTO batched VALUES (1)", pgx.Tx.Commit, 1},
		{"that is rolled back", "INSERT INTO batched VALUES (1)", pgx.Tx.Rollback, 0},
		{"that a statement of the batch ended", "SELECT 1/0", pgx.Tx.Rollback, 0},
	} {
		for _, part := range []bool{false, true} {
			t.Run(c.fact, func(t *testing.T) {
				d := gabion.New("pg", policy.Policy{Bulkhead: policy.Bulkhead{Limit: 1}})
				p := open(t, dsn, d)
				if _, err := p.Exec(t.Context(), "DROP TABLE IF EXISTS batched; CREATE TABLE batched (n int)"); err != nil {
					t.Fatal(err)
				}
				run := func(ctx context.Context) error {
					b := new(pgx.Batch)
					b.BeginTx(pgx.TxOptions{})
					b.Queue(c.statement)
					results := p.SendBatch(ctx, b)
					err := results.Close()
					if fails := c.rows == 0 && c.statement == "SELECT 1/0"; (err != nil) != fails || results.Tx() == nil {
						t.Fatalf("the batch: %v, its transaction %v", err, results.Tx())
					}
					if in := d.Stats().Bulkhead.InUse; in != 1 || p.Raw().Stat().AcquiredConns() != 1 {
						t.Errorf("%d slots and %d connections in the transaction", in, p.Raw().Stat().AcquiredConns())
					}
					return c.end(results.Tx(), ctx)
				}
				err := error(nil)
				if part {
					err = d.Run(t.Context(), run)
				} else {
					err = run(t.Context())
				}
				if err != nil {
					t.Errorf("its end: %v", err)
				}
				clean(t, p, d)
				var rows int
				if err := p.QueryRow(t.Context(), "SELECT count(*) FROM batched").Scan(&rows); err != nil || rows != c.rows {
					t.Errorf("%d rows, %v", rows, err)
				}
			})
		}
	}
}
