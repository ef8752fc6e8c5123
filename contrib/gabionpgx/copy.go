package gabionpgx

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/policy"
)

// CopyFrom copies rows into a table. It is sent once, since the rows can be read once. An error
// of rows, a value that can't be encoded and rows that take most of the time until it is over say
// nothing about the database: they are no failures of it.
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
	from := &watched{CopyFromSource: rows, ctx: ctx, began: time.Now()}
	judged := make(chan struct{})
	stop := context.AfterFunc(ctx, func() { defer close(judged); from.expire() })
	n, err := on.CopyFrom(ctx, table, columns, from)
	if !stop() { // the time is over, and the copy may have ended first
		<-judged
	}
	switch {
	case err == nil:
		return n, nil
	case from.late.Load():
		return n, mistaken{err, policy.NoEffect}
	case ctx.Err() != nil:
		return n, err
	case refusedByUs(err):
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

// watched are rows of which it is known how long the copy waited for them, and which end when
// its time is over: pgx waits for the rows until it has a buffer full.
type watched struct {
	pgx.CopyFromSource
	ctx   context.Context
	began time.Time
	since atomic.Int64 // when they were asked, plus one; zero while they are not
	spent atomic.Int64 // in earlier questions
	late  atomic.Bool
	cut   bool // the rows ended before their end; for the goroutine that reads them
}

// expire is called when the copy's time is over. Rows that took most of it are why.
func (w *watched) expire() {
	now := int64(time.Since(w.began))
	spent := w.spent.Load()
	if since := w.since.Load(); since > 0 {
		spent += now + 1 - since
	}
	w.late.Store(2*spent > now)
}

func (w *watched) ask() { w.since.Store(int64(time.Since(w.began)) + 1) }

func (w *watched) answer() {
	w.spent.Add(int64(time.Since(w.began)) + 1 - w.since.Swap(0))
}

// Next implements pgx.CopyFromSource.
func (w *watched) Next() bool {
	if w.cut = w.ctx.Err() != nil; w.cut {
		return false
	}
	w.ask()
	defer w.answer()
	return w.CopyFromSource.Next()
}

// Values implements pgx.CopyFromSource.
func (w *watched) Values() ([]any, error) {
	w.ask()
	defer w.answer()
	return w.CopyFromSource.Values()
}

// Err implements pgx.CopyFromSource. With an error the server keeps nothing of the copy.
func (w *watched) Err() error {
	if w.cut {
		return w.ctx.Err()
	}
	return w.CopyFromSource.Err()
}
