package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/internal/sqlkit"
	"github.com/gabion-go/gabion/internal/sqltable"
)

// records reads and writes the rows of a table, within a transaction or without.
type records struct {
	dialect Dialect
	sql     statements
}

type row = sqltable.Row

// number is a column that is never NULL.
func number(n int64) int64 { return n }

// casTries bounds how often a record is read anew because it changed before the write. Each time
// another writer got ahead, so contention passes.
const casTries = 32

var errContended = errors.New("sqlstore: the record changed too often")

// load reads a record and the time. Without a record it asks for the time alone.
func (r *records) load(ctx context.Context, q queryer, id idempotency.ID) (row, error) {
	return r.loadBy(ctx, q, r.sql.selectOne, id)
}

func (r *records) loadBy(ctx context.Context, q queryer, text string, id idempotency.ID) (row, error) {
	x, err := sqltable.Scan(q.QueryRowContext(ctx, text, id[:]), number)
	if errors.Is(err, sql.ErrNoRows) {
		err = q.QueryRowContext(ctx, r.sql.selectNow).Scan(&x.Now)
	}
	return x, wrap("load", err)
}

// write stores a record in place of what was read, or deletes that, and reports whether
// it was still there.
func (r *records) write(ctx context.Context, q queryer, id idempotency.ID, old row, now idempotency.Record) (bool, error) {
	payload, err := now.MarshalBinary()
	if err != nil {
		return false, err
	}
	if now.State == idempotency.StateAbsent {
		return one(q.ExecContext(ctx, r.sql.deleteOne, id[:], old.Rev, old.Record.Token))
	}
	values := []any{old.Rev + 1, sqltable.Version, int(now.State), int(now.Guarantee), now.Token, now.Attempt, now.Fingerprint[:], now.Owner[:],
		int64(now.LeaseUntil), int64(now.Created), int64(now.Finished), int64(now.Expires), int64(now.Retention), int64(now.Due()), payload}
	if old.Rev == 0 {
		return one(q.ExecContext(ctx, r.sql.insertOne, append([]any{id[:]}, values...)...))
	}
	return one(q.ExecContext(ctx, r.sql.updateOne, append(values, id[:], old.Rev, old.Record.Token)...))
}

func (r *records) begin(ctx context.Context, q queryer, c idempotency.Claim) (idempotency.Answer, error) {
	if a, granted, err := r.beginNew(ctx, q, c); granted || err != nil {
		return a, err
	}
	for range casTries {
		old, err := r.load(ctx, q, c.ID)
		if err != nil {
			return idempotency.Answer{}, err
		}
		a, changed := old.Record.Begin(c, old.Now)
		if !changed {
			return a, nil
		}
		if written, err := r.write(ctx, q, c.ID, old, a.Record); err != nil || written {
			return a, err
		}
	}
	return idempotency.Answer{}, errContended
}

// beginNew claims a key that has no record.
func (r *records) beginNew(ctx context.Context, q queryer, c idempotency.Claim) (a idempotency.Answer, granted bool, err error) {
	lease, due := sqltable.Times(c)
	values := []any{c.ID[:], sqltable.Version, int(c.Guarantee), c.Fingerprint[:], c.Owner[:], lease, int64(c.Retention), due}
	var created int64
	if r.dialect.mysql {
		created, err = mysqlInsert(ctx, q, r.sql.insertNew, values)
	} else {
		err = q.QueryRowContext(ctx, r.sql.insertNew, values...).Scan(&created)
	}
	if errors.Is(err, sql.ErrNoRows) {
		return a, false, nil
	}
	if err != nil {
		return a, false, fmt.Errorf("sqlstore: begin: %w", err)
	}
	var none idempotency.Record
	a, _ = none.Begin(c, idempotency.Moment(created))
	return a, true, nil
}

func (r *records) apply(ctx context.Context, q queryer, ref idempotency.Ref, c idempotency.Change) error {
	for range casTries {
		old, err := r.load(ctx, q, ref.ID)
		if err != nil {
			return err
		}
		next, changed, err := old.Record.Apply(ref, c, old.Now)
		if err != nil || !changed {
			return err
		}
		if written, err := r.write(ctx, q, ref.ID, old, next); err != nil || written {
			return err
		}
	}
	return errContended
}

func (r *records) sweepDue(ctx context.Context, q queryer, limit int) (n int, err error) {
	ids, err := r.due(ctx, q, limit)
	for _, id := range ids {
		if err != nil {
			break
		}
		var swept bool
		if swept, err = r.sweep(ctx, q, id); swept {
			n++
		}
	}
	return n, err
}

func (r *records) due(ctx context.Context, q queryer, limit int) (ids []idempotency.ID, err error) {
	rows, err := q.QueryContext(ctx, r.sql.selectDue, sqltable.Version, limit)
	if err != nil {
		return nil, fmt.Errorf("sqlstore: sweep: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var b []byte
		var id idempotency.ID
		if err := rows.Scan(&b); err != nil {
			return nil, fmt.Errorf("sqlstore: sweep: %w", err)
		}
		copy(id[:], b)
		ids = append(ids, id)
	}
	return ids, rows.Err()
}

// sweep looks at one record. If it changed since, the next sweep will see.
func (r *records) sweep(ctx context.Context, q queryer, id idempotency.ID) (bool, error) {
	old, err := r.load(ctx, q, id)
	if errors.Is(err, idempotency.ErrUnreadable) {
		return false, nil // left to a program that can read it
	}
	if err != nil || old.Rev == 0 {
		return false, err
	}
	next, changed := old.Record.Sweep(old.Now)
	if !changed {
		return false, nil
	}
	return r.write(ctx, q, id, old, next)
}

func one(res sql.Result, err error) (bool, error) {
	changed, err := sqlkit.One(res, err)
	return changed, wrap("write", err)
}

func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("sqlstore: %s: %w", what, err)
}
