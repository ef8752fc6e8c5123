package pgxstore

import (
	"context"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/internal/sqltx"
)

// A workTx is the transaction that work sees, or a savepoint in it. It notes when the
// database asks for the transaction again, because an http.Handler has no error to
// return: it answers 500, and only the transaction knows why. And it ends with the
// work, for the connection will be another's.
type workTx struct {
	pgx.Tx
	root   *workTx // the transaction whose savepoint this is, nil for itself
	failed error
	over   atomic.Bool
}

// Failed tells the store of an error that the work of ctx met where the store can't hear
// it: on the connection itself (tx.Conn()), or with large objects. If the database asked
// for the transaction again by it (serialization failure, deadlock), what work makes of it
// is dropped and work runs anew, up to three times together. Other errors change nothing,
// and the methods of the transaction need no such help.
func Failed(ctx context.Context, err error) {
	if w, _ := ctx.Value(workKey{}).(*workTx); w != nil {
		_ = w.note(err)
	}
}

// ended refuses everything.
var ended = func() pgx.Tx {
	b := new(pgx.Batch)
	b.BeginTx(pgx.TxOptions{})
	return pgx.FailedBatchResults(b, pgx.ErrTxClosed).Tx()
}()

// run runs work, after which the transaction is the store's alone.
func (w *workTx) run(ctx context.Context, run idempotency.Work, r idempotency.Record) (idempotency.Result, idempotency.Ending, error) {
	defer w.over.Store(true)
	return run(context.WithValue(ctx, workKey{}, w), r)
}

// lost returns the error by which the database asked for the transaction again, if it
// also ended it: one that a savepoint caught is the work's own business.
func (w *workTx) lost() error {
	if w.Tx.Conn().PgConn().TxStatus() != failed {
		return nil
	}
	return w.failed
}

func (w *workTx) top() *workTx {
	if w.root != nil {
		return w.root
	}
	return w
}

func (w *workTx) live() pgx.Tx {
	if w.top().over.Load() {
		return ended
	}
	return w.Tx
}

func (w *workTx) note(err error) error {
	if sqltx.Contended(err) {
		w.top().failed = err
	}
	return err
}

// Commit implements [pgx.Tx].
func (w *workTx) Commit(ctx context.Context) error {
	if w.root == nil {
		return ErrNotYours
	}
	return w.note(w.live().Commit(ctx))
}

// Rollback implements [pgx.Tx].
func (w *workTx) Rollback(ctx context.Context) error {
	if w.root == nil {
		return ErrNotYours
	}
	return w.note(w.live().Rollback(ctx))
}

// Begin implements [pgx.Tx].
func (w *workTx) Begin(ctx context.Context) (pgx.Tx, error) {
	tx, err := w.live().Begin(ctx)
	if err != nil {
		return nil, w.note(err)
	}
	return &workTx{Tx: tx, root: w.top()}, nil
}

// Exec implements [pgx.Tx].
func (w *workTx) Exec(ctx context.Context, text string, args ...any) (pgconn.CommandTag, error) {
	tag, err := w.live().Exec(ctx, text, args...)
	return tag, w.note(err)
}

// Prepare implements [pgx.Tx].
func (w *workTx) Prepare(ctx context.Context, name, text string) (*pgconn.StatementDescription, error) {
	d, err := w.live().Prepare(ctx, name, text)
	return d, w.note(err)
}

// CopyFrom implements [pgx.Tx].
func (w *workTx) CopyFrom(ctx context.Context, table pgx.Identifier, columns []string, from pgx.CopyFromSource) (int64, error) {
	n, err := w.live().CopyFrom(ctx, table, columns, from)
	return n, w.note(err)
}

// LargeObjects implements [pgx.Tx].
func (w *workTx) LargeObjects() pgx.LargeObjects { return w.live().LargeObjects() }

// Query implements [pgx.Tx].
func (w *workTx) Query(ctx context.Context, text string, args ...any) (pgx.Rows, error) {
	rows, err := w.live().Query(ctx, text, args...)
	return workRows{rows, w}, w.note(err)
}

// QueryRow implements [pgx.Tx].
func (w *workTx) QueryRow(ctx context.Context, text string, args ...any) pgx.Row {
	return workRow{w.live().QueryRow(ctx, text, args...), w}
}

// SendBatch implements [pgx.Tx].
func (w *workTx) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	return workBatch{w.live().SendBatch(ctx, b), w}
}

// workRows notes what their end says.
type workRows struct {
	pgx.Rows
	w *workTx
}

func (r workRows) Close() {
	r.Rows.Close()
	_ = r.w.note(r.Rows.Err())
}

func (r workRows) Next() bool {
	more := r.Rows.Next()
	if !more {
		_ = r.w.note(r.Rows.Err())
	}
	return more
}

// workRow notes what its Scan says.
type workRow struct {
	pgx.Row
	w *workTx
}

func (r workRow) Scan(to ...any) error { return r.w.note(r.Row.Scan(to...)) }

// workBatch notes what its results say.
type workBatch struct {
	pgx.BatchResults
	w *workTx
}

func (r workBatch) Exec() (pgconn.CommandTag, error) {
	tag, err := r.BatchResults.Exec()
	return tag, r.w.note(err)
}

func (r workBatch) Query() (pgx.Rows, error) {
	rows, err := r.BatchResults.Query()
	return workRows{rows, r.w}, r.w.note(err)
}

func (r workBatch) QueryRow() pgx.Row { return workRow{r.BatchResults.QueryRow(), r.w} }

func (r workBatch) Close() error { return r.w.note(r.BatchResults.Close()) }
