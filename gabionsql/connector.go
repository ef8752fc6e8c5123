package gabionsql

import (
	"context"
	"database/sql/driver"
	"errors"
	"io"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/internal/adapter"
	"github.com/gabion-go/gabion/policy"
)

// Connector makes connections of base whose operations pass dep, for [sql.OpenDB]:
// connects, pings, prepared statements, queries, executions, the begin of transactions
// and what is done in them. opts are options of all these calls, such as
// [gabion.WithPartition] with the name of the server. [Open] also fits the pool.
//
// Each operation is one attempt of a call of its own, whose name is what is done ("query",
// "exec", "begin"), and never the text of a statement. The attempt's time is the
// operation's deadline. Nothing is repeated here: [Query], [Exec] and [QueryRow] do that.
// What database/sql repeats by itself, after driver.ErrBadConn, is a call for each try.
//
// An error of the driver is returned as it is. A [*gabion.Error] comes where gabion
// refused the operation or where its time was over.
//
// Rows are open results: their slot goes back when they are closed, or when the attempt's
// time is over. timeout.idle bounds the wait for one row, timeout.body the rows as a whole.
// A transaction has one slot from BEGIN to its end. Nothing refuses or delays what is done
// in it, and failures of it count.
//
// What a broken connection leaves running at a server of MySQL or MariaDB is killed: see
// [WithKill].
//
// With a context that belongs to an attempt of dep already, as in [Query] or in the work
// of [gabion.Do], the operation is part of that attempt, and no attempt of its own.
//
// A nil base or dep makes every operation fail with [policy.Invalid]. The connector is safe
// for concurrent use if base is.
func Connector(base driver.Connector, dep *gabion.Dependency, opts ...gabion.CallOption) driver.Connector {
	return newConnector(base, dep, opts)
}

func newConnector(base driver.Connector, dep *gabion.Dependency, opts []gabion.CallOption) *connector {
	c := &connector{base: base, dep: dep, killer: killerOf(base)}
	if dep != nil {
		c.seen = adapter.Of(dep)
	}
	for op, name := range operations {
		c.calls[op] = options(opts, gabion.WithOperation(name))
		c.inside[op] = options(opts, gabion.WithOperation(name), adapter.Inside.(gabion.CallOption))
	}
	c.calls[connects] = options(c.calls[connects], adapter.NoSlot.(gabion.CallOption))
	return c
}

func options(given []gabion.CallOption, ours ...gabion.CallOption) []gabion.CallOption {
	all := append(append([]gabion.CallOption(nil), given...), gabion.WithoutRetry(), gabion.WithoutHedge())
	return append(all, ours...)
}

// operation is what a connection can be asked for.
type operation uint8

const (
	connects operation = iota
	pings
	prepares
	queries
	execs
	begins
	commits
	numOperations
)

var operations = [numOperations]string{"connect", "ping", "prepare", "query", "exec", "begin", "commit"}

type connector struct {
	base   driver.Connector
	dep    *gabion.Dependency
	seen   adapter.Dependency
	killer *killer // of what broken connections leave behind; nil where nothing is to be killed

	calls  [numOperations][]gabion.CallOption // of operations by themselves
	inside [numOperations][]gabion.CallOption // of those in a transaction
}

var (
	errNoBase       = errors.New("gabionsql: the driver's connector is nil")
	errNoDependency = errors.New("gabionsql: the dependency is nil")
)

func (c *connector) problem() error {
	switch {
	case c.dep == nil:
		return &gabion.Error{Dependency: "gabionsql", Reason: policy.Invalid, Err: errNoDependency}
	case c.base == nil:
		return &gabion.Error{Dependency: c.dep.Name(), Reason: policy.Invalid, Err: errNoBase}
	}
	return nil
}

// Connect implements driver.Connector. It takes no slot: calls that have all slots may
// wait for this very connection, and the pool bounds how many there are.
func (c *connector) Connect(ctx context.Context) (driver.Conn, error) {
	if err := c.problem(); err != nil {
		return nil, err
	}
	var who victim
	if c.part(ctx) {
		base, err := c.connect(ctx, &who)
		return c.wrap(base, who, err)
	}
	var a answer
	base, err := gabion.Do(ctx, c.dep, func(ctx context.Context) (driver.Conn, error) {
		made, err := c.connect(ctx, &who)
		return proper(made, err), a.hear(ctx, err)
	}, c.calls[connects]...)
	if err != nil && base != nil { // a classifier took it for a failure
		_ = base.Close()
		base = nil
	}
	return c.wrap(base, who, a.said(err))
}

// connect makes a connection and asks it who it is, if that has to be known.
func (c *connector) connect(ctx context.Context, who *victim) (driver.Conn, error) {
	since := time.Now()
	made, err := c.base.Connect(ctx)
	if err != nil || c.killer == nil {
		return made, err
	}
	if *who, err = c.killer.meet(ctx, made, since); err != nil {
		_ = made.Close()
		return nil, err
	}
	return made, nil
}

func (c *connector) wrap(base driver.Conn, who victim, err error) (driver.Conn, error) {
	if err != nil || base == nil {
		return nil, err
	}
	return newConn(c, base, who), nil
}

// Driver implements driver.Connector. It is the base's.
func (c *connector) Driver() driver.Driver {
	if c.base == nil {
		return nil
	}
	return c.base.Driver()
}

// Close implements io.Closer, for sql.DB's Close.
func (c *connector) Close() error {
	if c.killer != nil {
		c.killer.close()
	}
	if x, ok := c.base.(io.Closer); ok {
		return x.Close()
	}
	return nil
}

// part reports whether what is done with ctx is part of an attempt that was admitted. It
// also tells a call of this package that it got a connection.
func (c *connector) part(ctx context.Context) bool {
	reached(ctx)
	return c.seen.Inside(ctx)
}

// aside is an error that says nothing about the database: the driver did not send the
// operation, and database/sql does something else in its place.
type aside struct{ error }

// Unwrap returns the driver's error.
func (a aside) Unwrap() error { return a.error }

// Outcome says that the dependency was not asked. A bad connection in the pool is what an
// earlier outage left behind. Whether it goes on shows in the connect that follows.
func (aside) Outcome() policy.Outcome {
	return policy.Unsent(policy.ClassRejected)
}

// answer is what the driver said to an attempt.
type answer struct {
	err   error
	limit policy.Reason // of ours that had ended the attempt by then
}

// hear stores the driver's error, and returns the one for gabion.
func (a *answer) hear(ctx context.Context, err error) error {
	a.err = err
	switch {
	case err == nil:
		return nil
	case errors.Is(err, driver.ErrSkip) || errors.Is(err, driver.ErrBadConn):
		return aside{err}
	case ctx.Err() != nil:
		a.limit, _ = context.Cause(ctx).(policy.Reason)
	}
	return err
}

// hearOn is hear for an operation on a connection.
func (a *answer) hearOn(ctx context.Context, c *conn, err error) error {
	if err == nil {
		return nil
	}
	if err = a.hear(ctx, err); c.mistaken(err) {
		return mistake{err}
	}
	return err
}

// proper is what a driver returned. Beside an error it may be a nil pointer, which is
// not nil as an interface.
func proper[T any](v T, err error) T {
	if err != nil {
		var none T
		return none
	}
	return v
}

// said is the error for database/sql: the driver's own as it is, unless gabion ended the
// operation. The wrapper tries once, so that gabion's "do not retry" has no place.
func (a *answer) said(err error) error {
	e, ok := err.(*gabion.Error)
	switch {
	case !ok || a.err == nil:
		return err
	case a.limit == policy.None:
		return a.err
	}
	e.Reason = a.limit
	return e
}

// wrongServer reports whether a server refused to write because it is read-only, as the
// replica does to which a name led before or after a failover.
func wrongServer(o policy.Outcome) bool {
	switch o.Code {
	case "25006", "1290", "1836":
		return true
	}
	return false
}
