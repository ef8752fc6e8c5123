package gabionsql

import (
	"context"
	"database/sql"
	"errors"
	"slices"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/classify"
	"github.com/gabion-go/gabion/internal/sqltx"
	"github.com/gabion-go/gabion/policy"
)

// ErrInTransaction says that [Query], [Exec] or [QueryRow] was called with the context of
// the work of [RunTx] and its database: the statement would run outside of the transaction, and be
// repeated by itself. Use the transaction that the work gets. Another *sql.DB is another database;
// where RunTx was given a *sql.Conn, another dependency is.
var ErrInTransaction = errors.New("gabionsql: a statement of its own in the work of RunTx: use the work's transaction, or a context that is not the work's")

var (
	asQuery = []gabion.CallOption{gabion.WithOperation("query"), gabion.WithDiscard(closeRows)}
	asRow   = []gabion.CallOption{gabion.WithOperation("query"), gabion.WithoutHedge()}
	asExec  = []gabion.CallOption{gabion.WithOperation("exec")}
)

func closeRows(result any) {
	if r, ok := result.(*sql.Rows); ok && r != nil {
		r.Close()
	}
}

// Query sends one statement that returns rows, again if that is right, within dep's policy.
// It is repeated only if that is safe: declared by the policy or with
// [gabion.WithIdempotent], undone by the server, or if it provably was not sent. That is
// not proven by driver.ErrBadConn, which lib/pq and pgx return for what was sent, too;
// database/sql repeats such a statement all the same, up to twice. A SELECT is not taken
// for safe by itself, since functions in it may write.
//
// Arguments at the end that are a [gabion.CallOption] are options of the call, and the
// others those of the statement:
//
//	rows, err := gabionsql.Query(ctx, orders, db, "SELECT id FROM orders WHERE state = $1", "open", gabion.WithIdempotent())
//
// The attempt that brought the rows stays open until they are closed: see [gabion.Open].
// The statement holds a slot while it waits for a connection. If none comes free in time
// the call ends as [policy.PoolExhausted], for databases of [Open]. db must not be nil. In
// the work of [RunTx] on the same database it is refused with [ErrInTransaction].
func Query(ctx context.Context, dep *gabion.Dependency, db *sql.DB, query string, args ...any) (*Rows, error) {
	args, opts, err := prepare(ctx, dep, db, args, asQuery)
	if err != nil {
		return nil, err
	}
	r, attempt, err := gabion.Open(ctx, dep, func(ctx context.Context) (*sql.Rows, error) { //nolint:rowserrcheck // Rows.Err tells
		w := &reach{Context: ctx}
		r, err := db.QueryContext(w, query, args...)
		return r, w.waited(db, err)
	}, opts...)
	switch {
	case attempt == nil:
		return nil, err
	case err != nil: // a classifier took the rows for a failure
		closeRows(r)
		attempt.Close(nil)
		return nil, err
	}
	return &Rows{Rows: r, dep: dep, attempt: attempt}, nil
}

// Exec sends one statement that returns no rows, as [Query] does.
func Exec(ctx context.Context, dep *gabion.Dependency, db *sql.DB, query string, args ...any) (sql.Result, error) {
	args, opts, err := prepare(ctx, dep, db, args, asExec)
	if err != nil {
		return nil, err
	}
	return gabion.Do(ctx, dep, func(ctx context.Context) (sql.Result, error) {
		w := &reach{Context: ctx}
		r, err := db.ExecContext(w, query, args...)
		return r, w.waited(db, err)
	}, opts...)
}

// QueryRow is [Query] for at most one row. The statement is sent by [Row.Scan], which
// reads the row as part of the attempt, so that nothing is left open.
func QueryRow(ctx context.Context, dep *gabion.Dependency, db *sql.DB, query string, args ...any) *Row {
	return &Row{ctx: ctx, dep: dep, db: db, query: query, args: args}
}

// Row is a statement of [QueryRow] that was not sent yet. It is not safe for concurrent use.
type Row struct {
	ctx   context.Context
	dep   *gabion.Dependency
	db    *sql.DB
	query string
	args  []any
}

// Scan sends the statement and copies the columns of its first row into dest, as
// [sql.Row.Scan] does. If there is no row the error is [sql.ErrNoRows] itself. Where an
// attempt fails and another one follows, dest may hold what the first one read.
func (r *Row) Scan(dest ...any) error {
	if r == nil {
		return errors.New("gabionsql: Scan of a nil Row")
	}
	args, opts, err := prepare(r.ctx, r.dep, r.db, r.args, asRow)
	if err != nil {
		return err
	}
	_, err = gabion.Do(r.ctx, r.dep, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, r.read(ctx, args, dest)
	}, opts...)
	if errors.Is(err, sql.ErrNoRows) {
		return sql.ErrNoRows
	}
	return err
}

func (r *Row) read(ctx context.Context, args, dest []any) error {
	for _, d := range dest {
		if _, raw := d.(*sql.RawBytes); raw {
			return classify.Permanent(errors.New("gabionsql: RawBytes is not allowed in Row.Scan, since the rows are closed"))
		}
	}
	w := &reach{Context: ctx}
	rows, err := r.db.QueryContext(w, r.query, args...)
	if err != nil {
		return w.waited(r.db, err)
	}
	defer rows.Close()
	if !rows.Next() {
		if err := rows.Err(); err != nil {
			return err
		}
		return sql.ErrNoRows
	}
	if err := rows.Scan(dest...); err != nil {
		return classify.Permanent(err) // the program's, since the row is there
	}
	return rows.Close()
}

// prepare refuses what is a mistake, and takes the options out of the arguments.
func prepare(ctx context.Context, dep *gabion.Dependency, db *sql.DB, args []any, usual []gabion.CallOption) ([]any, []gabion.CallOption, error) {
	if dep == nil { // gabion refuses it
		return args, usual, nil
	}
	switch {
	case db == nil:
		return nil, nil, invalid(dep, errNoPool)
	case ctx != nil && sqltx.In(ctx, db, dep):
		return nil, nil, invalid(dep, ErrInTransaction)
	}
	n := slices.IndexFunc(args, isOption)
	if n < 0 {
		return args, usual, nil
	}
	opts := append(make([]gabion.CallOption, 0, len(usual)+len(args)-n), usual...)
	for _, a := range args[n:] {
		o, ok := a.(gabion.CallOption)
		if !ok {
			return nil, nil, invalid(dep, errOptionFirst)
		}
		opts = append(opts, o)
	}
	return args[:n], opts, nil
}

var errOptionFirst = errors.New("gabionsql: an argument of the statement behind a gabion.CallOption: the options come last")

func isOption(a any) bool { _, is := a.(gabion.CallOption); return is }

// Rows are the rows of [Query]: those of database/sql, and the attempt that brought them,
// which ends when they are closed or read to their end. Like [sql.Rows] they are for one
// goroutine, and must be closed.
type Rows struct {
	*sql.Rows
	dep     *gabion.Dependency
	attempt *gabion.Attempt
}

// Next prepares the next row for Scan, as [sql.Rows.Next] does. timeout.idle bounds how long
// it takes.
func (r *Rows) Next() bool {
	r.attempt.Expect()
	more := r.Rows.Next()
	r.attempt.Arrived()
	if !more {
		r.ended()
	}
	return more
}

// NextResultSet is [sql.Rows.NextResultSet], with the same bound.
func (r *Rows) NextResultSet() bool {
	r.attempt.Expect()
	more := r.Rows.NextResultSet()
	r.attempt.Arrived()
	if !more {
		r.ended()
	}
	return more
}

// ended ends the attempt if database/sql has closed the rows. Else there is another set.
func (r *Rows) ended() {
	err := r.Err()
	if err == nil {
		if _, closed := r.Rows.Columns(); closed == nil {
			return
		}
	}
	r.end(err)
}

func (r *Rows) end(err error) {
	if err != nil && !counts(means(r.dep, err)) {
		err = nil // an answer
	}
	r.attempt.Close(err)
}

// Err is [sql.Rows.Err]. A limit of the policy that ended the rows is a [*gabion.Error].
func (r *Rows) Err() error {
	err := r.Rows.Err()
	if err == nil {
		return nil
	}
	return limited(r.dep, r.attempt, err)
}

// Close closes the rows and ends the attempt. Closing twice is harmless.
func (r *Rows) Close() error {
	defer r.attempt.Close(nil)
	return r.Rows.Close()
}

// limited names the limit that ended a result, if that is why it broke.
func limited(dep *gabion.Dependency, attempt *gabion.Attempt, err error) error {
	why, ours := context.Cause(attempt.Context()).(policy.Reason)
	if !ours {
		return err
	}
	return &gabion.Error{Dependency: dep.Name(), Reason: why, Effect: policy.UnknownEffect, Attempts: 1, Err: err}
}
