package gabionpgx

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/policy"
)

// CopyFrom copies rows into a table. It is sent once, since the rows can be read once. An error
// of rows, a value that can't be encoded and rows that keep the copy waiting until its time is
// over say nothing about the database: they are no failures of it.
func (p *Pool) CopyFrom(ctx context.Context, table pgx.Identifier, columns []string, rows pgx.CopyFromSource) (int64, error) {
	_, opts, err := p.split(ctx, "copy", nil)
	if err != nil {
		return 0, err
	}
	once := func(ctx context.Context) (n int64, err error) {
		c, release, err := p.borrow(ctx)
		if err != nil {
			return 0, err
		}
		defer func() { release(err) }()
		return copyFrom(ctx, c, table, columns, rows)
	}
	if p.part(ctx) {
		return once(ctx)
	}
	return gabion.Do(ctx, p.dep, once, append(opts, gabion.WithoutRetry(), gabion.WithoutHedge())...)
}

func copyFrom(ctx context.Context, on target, table pgx.Identifier, columns []string, rows pgx.CopyFromSource) (int64, error) {
	if rows == nil {
		return 0, mistaken{errNoRows, policy.NoEffect}
	}
	from := &watched{CopyFromSource: rows}
	stop := context.AfterFunc(ctx, func() { from.late.Store(from.asked.Load()) })
	n, err := on.CopyFrom(ctx, table, columns, from)
	stop()
	if err == nil {
		return n, nil
	}
	if from.late.Load() || refusedByUs(err) {
		return n, mistaken{err, policy.NoEffect}
	}
	return n, blame(on.Conn(), err)
}

var errNoRows = errors.New("gabionpgx: the rows to copy are nil")

// refusedByUs reports whether the server ended a COPY because pgx told it to: the rows had an
// error, or one of them could not be encoded. The server then names the function that read
// pgx's word, in whatever language it speaks.
func refusedByUs(err error) bool {
	var state *pgconn.PgError
	return errors.As(err, &state) && state.Code == "57014" && state.Routine == "CopyGetData"
}

// watched are rows of which it is known whether they were asked for a row when the copy's time
// was over: the database then waited for them.
type watched struct {
	pgx.CopyFromSource
	asked, late atomic.Bool
}

// Next implements pgx.CopyFromSource.
func (w *watched) Next() bool {
	w.asked.Store(true)
	defer w.asked.Store(false)
	return w.CopyFromSource.Next()
}

// Values implements pgx.CopyFromSource.
func (w *watched) Values() ([]any, error) {
	w.asked.Store(true)
	defer w.asked.Store(false)
	return w.CopyFromSource.Values()
}
