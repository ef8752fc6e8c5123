package gabionpgx

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/internal/adapter"
	"github.com/gabion-go/gabion/internal/sqltx"
	"github.com/gabion-go/gabion/policy"
)

// ErrInTransaction says that a [Pool] was called with the context of the work of [RunTx] on the same
// database: the statement would run outside of the transaction. Use the transaction that the work
// gets. Another pool is another database; where RunTx was given a single connection, another
// dependency is.
var ErrInTransaction = errors.New("gabionpgx: a statement of its own in the work of RunTx: use the work's transaction, or a context that is not the work's")

// Pool is a pgxpool.Pool whose calls pass a dependency. Each takes a slot, then a
// connection of the pool, and is repeated only if that is safe: declared by the policy or
// with [gabion.WithIdempotent], undone by the server, or if pgx says that nothing was sent.
// Arguments of a statement at the end that are a [gabion.CallOption] are options of the
// call.
//
// With a context that belongs to an attempt of the dependency already, as in the work of
// [gabion.Do], a call is part of that attempt: it takes no slot, and is not repeated.
//
// A call that gets no connection in time ends as [policy.PoolExhausted], if all of them
// are in use. Errors are [*gabion.Error] with the driver's in them.
//
// Make one with [Open]. It is safe for concurrent use.
type Pool struct {
	pool *pgxpool.Pool
	dep  *gabion.Dependency
	seen adapter.Dependency
	opts []gabion.CallOption
}

// Open makes a pool that has as many connections as dep's bulkhead has slots (bulkhead.limit,
// or bulkhead.max where the limit is learned), whatever config says, and connects as config
// says. opts are options of all its calls. The pool must be closed. It is an error, and one
// that is [policy.Invalid], if config or dep is nil, or if the bulkhead is off.
func Open(ctx context.Context, config *pgxpool.Config, dep *gabion.Dependency, opts ...gabion.CallOption) (*Pool, error) {
	if dep == nil {
		return nil, &gabion.Error{Dependency: "gabionpgx", Reason: policy.Invalid, Err: errors.New("gabionpgx: the dependency is nil")}
	}
	p := &Pool{dep: dep, seen: adapter.Of(dep), opts: slices.Clone(opts)}
	b := p.seen.PolicyInForce().Bulkhead
	switch {
	case config == nil:
		return nil, p.invalid(errors.New("gabionpgx: the pool's configuration is nil"))
	case config.ConnConfig == nil:
		return nil, p.invalid(errors.New("gabionpgx: the pool's configuration is not from pgxpool.ParseConfig"))
	case b.Off:
		return nil, p.invalid(errors.New("gabionpgx: the policy has no bulkhead, so the pool has no size: set bulkhead.limit to the most connections"))
	}
	size := b.Limit
	if size == policy.Learned {
		size = b.Max
	}
	config = config.Copy()
	config.MaxConns = int32(size)
	config.MinConns, config.MinIdleConns = min(config.MinConns, config.MaxConns), min(config.MinIdleConns, config.MaxConns)
	var err error
	p.pool, err = pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	return p, nil
}

func (p *Pool) invalid(err error) error {
	return &gabion.Error{Dependency: p.dep.Name(), Reason: policy.Invalid, Err: err}
}

// Raw returns the pool itself. What is called on it passes nothing. LISTEN and whatever
// else keeps a connection for long belongs there.
func (p *Pool) Raw() *pgxpool.Pool { return p.pool }

// Close closes all connections, and waits for those in use.
func (p *Pool) Close() { p.pool.Close() }

// Acquire takes a connection out of the pool, which must be released. Only the wait for it
// passes the dependency: what is done on it does not, and it holds no slot.
func (p *Pool) Acquire(ctx context.Context) (*pgxpool.Conn, error) {
	if p.part(ctx) {
		return p.acquire(ctx)
	}
	return gabion.Do(ctx, p.dep, p.acquire, p.call("acquire", gabion.WithoutHedge())...)
}

// Ping sends an empty statement.
func (p *Pool) Ping(ctx context.Context) error {
	_, err := p.Exec(ctx, "-- ping", gabion.WithOperation("ping"), gabion.WithIdempotent())
	return err
}

// Exec sends a statement that returns no rows.
func (p *Pool) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	args, opts, err := p.split(ctx, "exec", args)
	if err != nil {
		return pgconn.CommandTag{}, err
	}
	return exec(ctx, p, p.borrow, opts, sql, args)
}

// Query sends a statement that returns rows, which must be closed or read to their end. The
// call's outcome is known with the first row. The rows have a slot until they are closed,
// or until the attempt's time is over; timeout.idle bounds the wait for a row. The rows are never
// nil: beside an error they carry it, so that it may be read from them, as pgx.CollectRows does.
func (p *Pool) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	args, opts, err := p.split(ctx, "query", args)
	if err != nil {
		return failedRows{err}, err
	}
	return query(ctx, p, p.borrow, opts, sql, args)
}

// QueryRow is Query for at most one row. The statement is sent by Scan, which reads the row
// as part of the attempt. Without a row its error is [pgx.ErrNoRows] itself.
func (p *Pool) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	args, opts, err := p.split(ctx, "query", args)
	return &row{ctx: ctx, pool: p, from: p.borrow, opts: opts, sql: sql, args: args, err: err}
}

// SendBatch sends several statements at once. The batch is one attempt, and sent once. Its
// results must be closed; the outcome is known then. A batch that begins a transaction keeps its
// connection and its slot until that ends.
func (p *Pool) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	_, opts, err := p.split(ctx, "batch", nil)
	if err != nil {
		return pgx.FailedBatchResults(b, err)
	}
	if p.part(ctx) {
		c, release, err := p.borrow(ctx)
		if err != nil {
			return pgx.FailedBatchResults(b, err)
		}
		return send(ctx, c, b, &batch{pool: p, release: release})
	}
	a, err := gabion.Begin(ctx, p.dep, opts...)
	if err != nil {
		return pgx.FailedBatchResults(b, err)
	}
	c, release, err := p.borrow(a.Context())
	if err != nil {
		err = a.Settle(err)
		a.Close(nil)
		return pgx.FailedBatchResults(b, err)
	}
	return send(a.Context(), c, b, &batch{pool: p, attempt: a, release: release})
}

// part reports whether a call with ctx is part of an attempt of this dependency already.
func (p *Pool) part(ctx context.Context) bool { return ctx != nil && p.seen.Inside(ctx) }

func (p *Pool) call(operation string, more ...gabion.CallOption) []gabion.CallOption {
	all := append(make([]gabion.CallOption, 0, len(p.opts)+len(more)+1), p.opts...)
	return append(append(all, gabion.WithOperation(operation)), more...)
}

// split takes the options out of the arguments.
func (p *Pool) split(ctx context.Context, operation string, args []any) ([]any, []gabion.CallOption, error) {
	if ctx != nil && sqltx.In(ctx, p.pool, p.dep) {
		return nil, nil, p.invalid(ErrInTransaction)
	}
	opts := p.call(operation)
	n := slices.IndexFunc(args, func(a any) bool { _, is := a.(gabion.CallOption); return is })
	if n < 0 {
		return args, opts, nil
	}
	for _, a := range args[n:] {
		o, ok := a.(gabion.CallOption)
		if !ok {
			return nil, nil, p.invalid(errors.New("gabionpgx: an argument of the statement behind a gabion.CallOption: the options come last"))
		}
		opts = append(opts, o)
	}
	return args[:n], opts, nil
}

// acquire says of a call that found all connections in use until its time was over that the
// pool is exhausted. One that waited for a connection to be made waited for the server.
func (p *Pool) acquire(ctx context.Context) (*pgxpool.Conn, error) {
	c, err := p.pool.Acquire(ctx)
	if err == nil || !errors.Is(err, context.DeadlineExceeded) {
		return c, err
	}
	if s := p.pool.Stat(); s.ConstructingConns() == 0 && s.AcquiredConns() >= s.MaxConns() {
		return nil, &exhausted{err: err, size: s.MaxConns()}
	}
	return nil, err
}

// exhausted is the end of a call that never had a connection.
type exhausted struct {
	err  error
	size int32
}

func (e *exhausted) Error() string {
	return fmt.Sprintf("no connection of the pool came free in time (all %d in use): %v", e.size, e.err)
}

func (e *exhausted) Unwrap() error { return e.err }

// Outcome says that the database was not asked.
func (e *exhausted) Outcome() policy.Outcome {
	return policy.Outcome{Class: policy.ClassRejected, NeverSent: true, Exhausted: true}
}
