package gabionpgx

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/gabionsql"
	"github.com/gabion-go/gabion/internal/adapter"
	"github.com/gabion-go/gabion/internal/sqltx"
	"github.com/gabion-go/gabion/policy"
)

// A Beginner begins transactions: a [*Pool], a *pgxpool.Pool, a *pgxpool.Conn or a *pgx.Conn.
type Beginner interface {
	BeginTx(context.Context, pgx.TxOptions) (pgx.Tx, error)
}

// What errors of [RunTx] are, for errors.Is. They are those of package gabionsql.
var (
	// ErrCommitUnknown says that COMMIT was sent and that PostgreSQL did not say what
	// became of it. RunTx does not repeat it, whatever the policy says.
	ErrCommitUnknown = gabionsql.ErrCommitUnknown

	// ErrEnded says that the work ended its transaction, by COMMIT or ROLLBACK on its
	// connection: parts of it may be in the database.
	ErrEnded = gabionsql.ErrEnded

	// ErrFailedBefore says that the work returned no error although a statement of its
	// transaction had failed. Nothing is in the database.
	ErrFailedBefore = gabionsql.ErrFailedBefore

	// ErrNested says that RunTx was called by the work of another one of the same database,
	// with its context.
	ErrNested = gabionsql.ErrNested

	// ErrNotYours is what Commit and Rollback of the work's transaction return, and nothing
	// else happens: RunTx ends it. Those of a savepoint, from its Begin, do what they say.
	ErrNotYours = errors.New("gabionpgx: RunTx ends this transaction, according to how its work ends")

	errNoDB   = errors.New("gabionpgx: the pool or connection is nil")
	errNoWork = errors.New("gabionpgx: the function to run in the transaction is nil")
	errBusy   = errors.New("gabionpgx: the work left rows open on its connection")
	errClosed = fmt.Errorf("gabionpgx: the connection was lost before COMMIT was sent: %w", io.ErrUnexpectedEOF)
)

// A TxOption adjusts one call of [RunTx]. Options are plain values and may be kept. The
// zero TxOption changes nothing.
type TxOption struct {
	begin *pgx.TxOptions
	calls []gabion.CallOption
}

// WithTxOptions sets the isolation level of the transaction, and what else BEGIN takes.
func WithTxOptions(o pgx.TxOptions) TxOption { return TxOption{begin: &o} }

// WithCallOptions adjusts the call of the dependency: a timeout, an operation's name, a
// priority. Several add up. RunTx itself reads the results, so a [gabion.WithClassify]
// among them is not asked; the dependency's classifier is.
func WithCallOptions(opts ...gabion.CallOption) TxOption { return TxOption{calls: opts} }

// RunTx is [gabionsql.RunTx] for pgx: it runs work in a transaction and commits it, and the
// whole transaction runs again, as d's policy says, after a conflict with another one or a
// transient failure. What that page says of work, of errors and of effects holds here, too.
//
// Work that says COMMIT or ROLLBACK on its connection is noticed, unless it begins another
// transaction in its place; tx's own methods refuse it. Work that leaves rows open loses
// its connection, and the call fails. RunTx is safe for concurrent use, as db is.
func RunTx(ctx context.Context, d *gabion.Dependency, db Beginner, work func(ctx context.Context, tx pgx.Tx) error, opts ...TxOption) error {
	c := &txCall{dep: d, db: db, work: work}
	for i := range opts {
		c.apply(&opts[i])
	}
	if err := c.problem(ctx); err != nil && d != nil {
		return &gabion.Error{Dependency: d.Name(), Reason: policy.Invalid, Err: err}
	}
	n := len(c.calls)
	err := d.Run(ctx, c.try, append(c.calls[:n:n], txClassifier)...)
	if e, ok := errors.AsType[*gabion.Error](err); ok && !c.doubt {
		e.Effect = policy.NoEffect // to a Dependency all work is in doubt whose time was over
	}
	return err
}

// TxFrom returns the transaction that [RunTx] runs the work of ctx in, or nil. If ctx is in several, of
// several databases, that is the innermost.
func TxFrom(ctx context.Context) pgx.Tx {
	return sqltx.Of[pgx.Tx](ctx)
}

// txClassifier says of errors what is known of their transactions.
var txClassifier = gabion.WithClassify(func(_ any, err error) policy.Outcome { return sqltx.Outcome(err) })

// A txCall is one call of RunTx.
type txCall struct {
	dep   *gabion.Dependency
	db    Beginner
	work  func(context.Context, pgx.Tx) error
	begin pgx.TxOptions
	calls []gabion.CallOption
	doubt bool // an attempt may have had an effect
}

func (c *txCall) apply(o *TxOption) {
	if o.begin != nil {
		c.begin = *o.begin
	}
	c.calls = append(c.calls[:len(c.calls):len(c.calls)], o.calls...)
}

func (c *txCall) problem(ctx context.Context) error {
	switch {
	case isNil(c.db):
		return errNoDB
	case c.work == nil:
		return errNoWork
	case ctx != nil && sqltx.In(ctx, poolOf(c.db), c.dep):
		return ErrNested
	}
	return nil
}

// try is one attempt.
func (c *txCall) try(ctx context.Context) error {
	err := sqltx.Try(ctx, &ending{db: c.db, opts: c.begin}, c.run)
	if f, ok := errors.AsType[*sqltx.Failure](err); ok {
		c.doubt = c.doubt || f.Doubtful()
		if f.Answered {
			f.Blame(adapter.Of(c.dep).Means(f.Err))
		}
	}
	return err
}

func (c *txCall) run(ctx context.Context, tx pgx.Tx) error {
	theirs := &workTx{Tx: tx}
	return c.work(sqltx.Within(ctx, sqltx.Scope{Tx: theirs, Pool: poolOf(c.db), Dependency: c.dep}), theirs)
}

// A workTx is the transaction that work sees.
type workTx struct{ pgx.Tx }

// Commit implements [pgx.Tx].
func (*workTx) Commit(context.Context) error { return ErrNotYours }

// Rollback implements [pgx.Tx].
func (*workTx) Rollback(context.Context) error { return ErrNotYours }

// States of a connection (ReadyForQuery).
const idle = 'I'

// rollbackTime bounds a rollback. If it is too short the connection is closed, which rolls
// back too.
const rollbackTime = 5 * time.Second

// An ending is one transaction of pgx.
type ending struct {
	db   Beginner
	opts pgx.TxOptions
	conn *pgx.Conn
}

// Begin implements sqltx.Ends.
func (e *ending) Begin(ctx context.Context) (pgx.Tx, error) {
	tx, err := e.db.BeginTx(ctx, e.opts)
	if err != nil {
		return nil, err
	}
	e.conn = tx.Conn()
	return tx, nil
}

// Rollback implements sqltx.Ends. pgx closes a connection that it can't roll back on.
func (e *ending) Rollback(ctx context.Context, tx pgx.Tx) sqltx.End {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTime)
	defer cancel()
	byWork := !e.conn.IsClosed() && e.conn.PgConn().TxStatus() == idle
	err := tx.Rollback(ctx)
	switch {
	case byWork:
		return sqltx.EndByWork
	case err != nil:
		return sqltx.EndLost
	}
	return sqltx.EndAnswered
}

// Commit implements sqltx.Ends.
func (e *ending) Commit(ctx context.Context, tx pgx.Tx) (sqltx.Fate, error) {
	before := e.flaw()
	if before != nil {
		if end := e.Rollback(ctx, tx); end == sqltx.EndByWork {
			return sqltx.Ended, nil
		}
		return sqltx.Undone, before
	}
	err := tx.Commit(ctx)
	return sqltx.FateOfCommit(err), err
}

// flaw says why COMMIT is not sent.
func (e *ending) flaw() error {
	switch {
	case e.conn.IsClosed():
		return errClosed
	case e.conn.PgConn().IsBusy():
		return errBusy
	case e.conn.PgConn().TxStatus() == idle:
		return ErrEnded
	}
	return nil
}
