package gabionpgx

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/classify"
	"github.com/gabion-go/gabion/policy"
)

// target is what statements are sent on: a connection.
type target interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
	CopyFrom(ctx context.Context, table pgx.Identifier, columns []string, rows pgx.CopyFromSource) (int64, error)
	Conn() *pgx.Conn
}

// source lends a target. It is given back with the error of what was done on it.
type source func(ctx context.Context) (on target, release func(error), err error)

// closing bounds the goodbye to a server whose connection is thrown away.
const closing = time.Second

// borrow lends a connection of the pool. One that leads to a server that refuses to write is
// closed, so that the next one may lead to another.
func (p *Pool) borrow(ctx context.Context) (target, func(error), error) {
	c, err := p.acquire(ctx)
	if err != nil {
		return nil, nil, err
	}
	return c, func(err error) {
		var state *pgconn.PgError
		if errors.As(err, &state) && state.Code == "25006" {
			end, cancel := context.WithTimeout(context.WithoutCancel(ctx), closing)
			_ = c.Conn().Close(end)
			cancel()
		}
		c.Release()
	}, nil
}

func exec(ctx context.Context, p *Pool, from source, opts []gabion.CallOption, sql string, args []any) (pgconn.CommandTag, error) {
	once := func(ctx context.Context) (tag pgconn.CommandTag, err error) {
		c, release, err := from(ctx)
		if err != nil {
			return tag, err
		}
		defer func() { release(err) }()
		tag, err = c.Exec(ctx, sql, args...)
		return tag, blame(c.Conn(), err)
	}
	if p.part(ctx) {
		return once(ctx)
	}
	return gabion.Do(ctx, p.dep, once, opts...)
}

func query(ctx context.Context, p *Pool, from source, opts []gabion.CallOption, sql string, args []any) (pgx.Rows, error) {
	once := func(ctx context.Context) (_ *rows, err error) {
		c, release, err := from(ctx)
		if err != nil {
			return nil, err
		}
		x := &rows{pool: p, release: release, first: true}
		defer func() {
			if !x.more { // nor after a panic
				x.giveBack(err)
			}
		}()
		x.Rows, err = c.Query(ctx, sql, args...)
		if err != nil {
			return nil, blame(c.Conn(), err)
		}
		if x.more = x.Rows.Next(); !x.more { // else pgx has not read what the server says to it
			err = x.Rows.Err()
		}
		return x, err
	}
	if p.part(ctx) {
		r, err := once(ctx)
		if err != nil {
			return failedRows{err}, err
		}
		return r, nil
	}
	r, attempt, err := gabion.Open(ctx, p.dep, once, append(opts, gabion.WithDiscard(discard))...)
	if attempt == nil {
		return failedRows{err}, err
	}
	r.attempt = attempt
	if err != nil || !r.more { // a classifier took the rows for a failure, or there is no row
		r.Close()
	}
	if err != nil {
		return failedRows{err}, err
	}
	return r, nil
}

func discard(result any) {
	if r, ok := result.(*rows); ok && r != nil {
		r.Close()
	}
}

// rows are an open result, of which the first row was read already.
type rows struct {
	pgx.Rows
	pool    *Pool
	attempt *gabion.Attempt // nil where they are part of another one
	release func(error)     // nil once the connection is given back
	first   bool            // the row that was read is still to be returned
	more    bool            // there is one
}

// Next implements pgx.Rows.
func (r *rows) Next() bool {
	if r.first {
		r.first = false
		return r.more
	}
	if r.attempt != nil {
		r.attempt.Expect()
		defer r.attempt.Arrived()
	}
	if r.more = r.Rows.Next(); !r.more {
		r.end()
	}
	return r.more
}

// Scan implements pgx.Rows, which closes rows after an error.
func (r *rows) Scan(dest ...any) error {
	err := r.Rows.Scan(dest...)
	if err != nil {
		r.Close()
	}
	return err
}

// Err implements pgx.Rows. A limit of the policy that ended the rows is a *gabion.Error.
func (r *rows) Err() error {
	err := r.Rows.Err()
	if err == nil || r.attempt == nil {
		return err
	}
	why, ours := context.Cause(r.attempt.Context()).(policy.Reason)
	if !ours {
		return err
	}
	return &gabion.Error{Dependency: r.pool.dep.Name(), Reason: why, Effect: policy.UnknownEffect, Attempts: 1, Err: err}
}

// Close implements pgx.Rows. The connection is free before the slot is.
func (r *rows) Close() {
	r.Rows.Close()
	r.giveBack(r.Rows.Err())
	if r.attempt != nil {
		r.attempt.Close(nil)
	}
}

// end is the end of rows that were read until it, or until they broke.
func (r *rows) end() {
	err := r.Err()
	r.giveBack(r.Rows.Err())
	if r.attempt == nil {
		return
	}
	if err != nil && !counts(r.pool.seen.Means(err)) {
		err = nil // an answer
	}
	r.attempt.Close(err)
}

func (r *rows) giveBack(err error) {
	if r.release != nil {
		r.release(err)
		r.release = nil
	}
}

// counts reports whether an outcome is a failure of the database.
func counts(o policy.Outcome) bool {
	switch o.Class {
	case policy.ClassNetwork, policy.ClassTimeout, policy.ClassServer, policy.ClassUnclassified:
		return true
	}
	return false
}

// row is a statement that was not sent yet.
type row struct {
	ctx  context.Context
	pool *Pool
	from source
	opts []gabion.CallOption
	sql  string
	args []any
	err  error
}

// Scan implements pgx.Row.
func (r *row) Scan(dest ...any) error {
	if r.err != nil {
		return r.err
	}
	once := func(ctx context.Context) (_ struct{}, err error) {
		c, release, err := r.from(ctx)
		if err != nil {
			return struct{}{}, err
		}
		defer func() { release(err) }()
		found, err := c.Query(ctx, r.sql, r.args...)
		if err != nil {
			return struct{}{}, blame(c.Conn(), err)
		}
		defer found.Close()
		return struct{}{}, read(found, dest)
	}
	var err error
	if r.pool.part(r.ctx) {
		_, err = once(r.ctx)
	} else {
		_, err = gabion.Do(r.ctx, r.pool.dep, once, append(r.opts, gabion.WithoutHedge())...)
	}
	if errors.Is(err, pgx.ErrNoRows) {
		return pgx.ErrNoRows
	}
	return err
}

func read(r pgx.Rows, dest []any) error {
	if !r.Next() {
		if err := r.Err(); err != nil {
			return err
		}
		return pgx.ErrNoRows
	}
	if err := r.Scan(dest...); err != nil {
		return classify.Permanent(err) // the program's, since the row is there
	}
	r.Close()
	return r.Err()
}
