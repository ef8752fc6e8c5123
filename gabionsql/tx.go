package gabionsql

import (
	"context"
	"database/sql"
	"errors"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/internal/sqltx"
	"github.com/gabion-go/gabion/policy"
)

// A Beginner begins transactions: a *sql.DB or a *sql.Conn.
type Beginner interface {
	BeginTx(context.Context, *sql.TxOptions) (*sql.Tx, error)
}

// What errors of [RunTx] are, for errors.Is. An error that is one of the first two is a
// policy.OutcomeUnknown too.
var (
	// ErrCommitUnknown says that COMMIT was sent and that the database did not say what
	// became of it: all of the transaction is in the database, or nothing. RunTx does not
	// repeat it, whatever the policy says. With [WithOnce] it finds out.
	ErrCommitUnknown = sqltx.ErrCommitUnknown

	// ErrEnded says that the work called Commit or Rollback of its transaction, or that the
	// database has ended it and the work went on: parts of it may be in the database.
	ErrEnded = sqltx.ErrEnded

	// ErrFailedBefore says that the work returned no error although a statement of its
	// transaction had failed, so that the database made a ROLLBACK of COMMIT. Nothing is
	// in the database.
	ErrFailedBefore = sqltx.ErrFailedBefore

	// ErrNested says that RunTx was called by the work of another one of the same database, with
	// its context: it would commit on its own, and again when the outer transaction is repeated.
	ErrNested = errors.New("gabionsql: RunTx in the work of another RunTx of this database: use its transaction, or a context of your own if this one shall commit by itself")

	errNoDB   = errors.New("gabionsql: the database is nil")
	errNoWork = errors.New("gabionsql: the function to run in the transaction is nil")
)

// RunTx calls d with a transaction: it begins one, runs work in it, commits it if work
// returns nil, and rolls it back if not. The whole transaction runs again, within the
// policy's attempts, budget, backoff and deadline, if it met a conflict with another one
// (serialization failure, deadlock, a lock that was not to be had) or if its failure is
// transient; it is always rolled back before, so that nothing is done twice. policy's
// retry.contention is about conflicts. An error of work's own, such as "not enough money",
// is not repeated, and no failure of the database to the breaker.
//
// Work may run several times. It must act on nothing but tx and its own variables, and
// begin anew each time. What it does to others, such as a call of a web service or a statement
// on another database, is not undone, and done again; errors of such calls, if they are gabion's, HTTP's, gRPC's or the network's, are
// not repeated for the transaction's sake. Work must not end tx, keep it, or start
// goroutines that outlive it, and must use the context that it gets. It has to return the
// errors of its statements: after a deadlock MySQL and MariaDB have rolled back the whole
// transaction, and make each further statement one of its own. Only [WithOnce] finds out.
//
// The effect of the [gabion.Error] is that on the database: until COMMIT is sent nothing
// has happened. A COMMIT whose answer was lost is unknown, [ErrCommitUnknown], and is not
// repeated even if the policy declares all work safe. [WithOnce] finds out what became of
// it, and makes a transaction happen once for a key.
//
// A panic of work, or runtime.Goexit, rolls back and goes on. RunTx never hedges. Whatever
// work does, and however the call ends, no connection stays in the transaction. RunTx
// returns when work does. It is safe for concurrent use, as db is.
func RunTx(ctx context.Context, d *gabion.Dependency, db Beginner, work func(ctx context.Context, tx *sql.Tx) error, opts ...TxOption) error {
	c := &txCall{ctx: ctx, dep: d, db: db, work: work}
	for i := range opts {
		opts[i].apply(&c.o)
	}
	if err := c.problem(); err != nil && d != nil {
		return &gabion.Error{Dependency: d.Name(), Reason: policy.Invalid, Err: err}
	}
	if c.o.record != nil {
		return c.known(c.runRecorded(d))
	}
	if len(c.o.calls) == 0 {
		return c.known(d.Run(ctx, c.try, txClassifier...))
	}
	n := len(c.o.calls)
	return c.known(d.Run(ctx, c.try, append(c.o.calls[:n:n], txClassifier...)...))
}

// TxFrom returns the transaction that [RunTx] runs the work of ctx in, or nil. If ctx is in
// several, of several databases, that is the innermost.
func TxFrom(ctx context.Context) *sql.Tx {
	return sqltx.Of[*sql.Tx](ctx)
}

// txClassifier says of errors what is known of their transactions.
var txClassifier = []gabion.CallOption{
	gabion.WithClassify(func(_ any, err error) policy.Outcome { return sqltx.Outcome(err) }),
}

// A txCall is one call of RunTx.
type txCall struct {
	ctx  context.Context // the caller's
	dep  *gabion.Dependency
	db   Beginner
	work func(context.Context, *sql.Tx) error
	o    txOptions

	doubt bool // an attempt may have had an effect
}

func (c *txCall) problem() error {
	none := c.db == nil
	switch db := c.db.(type) {
	case *sql.DB:
		none = db == nil
	case *sql.Conn:
		none = db == nil
	}
	switch {
	case none:
		return errNoDB
	case c.work == nil:
		return errNoWork
	case c.ctx != nil && sqltx.In(c.ctx, poolOf(c.db), c.dep):
		return ErrNested
	}
	return c.o.problem()
}

// poolOf returns the pool, nil if db is something else: the pool of a *sql.Conn is not known.
func poolOf(db Beginner) any {
	if pool, ok := db.(*sql.DB); ok {
		return pool
	}
	return nil
}

// try is one attempt.
func (c *txCall) try(ctx context.Context) error {
	err := sqltx.Try(ctx, &ending{db: c.db, opts: c.o.begin}, c.run)
	c.note(err)
	return err
}

func (c *txCall) run(ctx context.Context, tx *sql.Tx) error {
	return c.work(sqltx.Within(ctx, sqltx.Scope{Tx: tx, Pool: poolOf(c.db), Dependency: c.dep}), tx)
}

func (c *txCall) note(err error) {
	f, ok := errors.AsType[*sqltx.Failure](err)
	if !ok {
		return
	}
	c.doubt = c.doubt || f.Doubtful()
	if f.Answered {
		f.Blame(means(c.dep, f.Err))
	}
}

// known takes back that a transaction may have been committed which is known not to be. To
// a Dependency all work is in doubt whose time was over.
func (c *txCall) known(err error) error {
	if e, ok := errors.AsType[*gabion.Error](err); ok && !c.doubt {
		e.Effect = policy.NoEffect
	}
	return err
}
