package pgxstore

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/internal/sqltable"
	"github.com/gabion-go/gabion/internal/sqltx"
)

// A Store keeps records in one table. Make one with [New]. Safe for concurrent use.
type Store struct {
	pool  *pgxpool.Pool
	table string
	sql   statements
	held  held
	caps  atomic.Pointer[idempotency.Caps]
}

var _ idempotency.TxStore = (*Store)(nil)

// New returns a store in the given table, which [Store.Migrate] creates. It does not
// ask the database anything. The error is about the table's name.
func New(pool *pgxpool.Pool, table string) (*Store, error) {
	texts, err := write(table)
	if err != nil {
		return nil, err
	}
	s := &Store{pool: pool, table: table, sql: texts}
	s.caps.Store(unchecked)
	return s, nil
}

// Migrate creates table and index if they are missing, and then is [Store.Check].
// It refuses a server that is too old.
func (s *Store) Migrate(ctx context.Context) error {
	if err := dialect.Create(ctx, server{s.pool}, s.sql.schema, s.sql.index); err != nil {
		return wrap("migrate", err)
	}
	return s.Check(ctx)
}

// A server is where the table is made.
type server struct{ pool *pgxpool.Pool }

// Ask implements sqlkit.Server.
func (s server) Ask(ctx context.Context, query string) (text string, err error) {
	err = s.pool.QueryRow(ctx, query).Scan(&text)
	return text, err
}

// Exec implements sqlkit.Server.
func (s server) Exec(ctx context.Context, text string) error {
	_, err := s.pool.Exec(ctx, text)
	return err
}

// casTries bounds how often a record is read anew because it changed before the write. Each time
// another writer got ahead, so contention passes.
const casTries = 32

var errContended = errors.New("pgxstore: the record changed too often")

// Begin implements [idempotency.Store].
func (s *Store) Begin(ctx context.Context, c idempotency.Claim) (idempotency.Answer, error) {
	for range casTries {
		a, done, err := s.begin(ctx, c)
		if done || err != nil && !sqltx.Conflict(err) {
			return a, err
		}
	}
	return idempotency.Answer{}, errContended
}

// begin is not done when the record changed since it was read.
func (s *Store) begin(ctx context.Context, c idempotency.Claim) (a idempotency.Answer, done bool, err error) {
	old, granted, err := s.claim(ctx, c)
	switch {
	case err != nil:
		return a, false, err
	case granted:
		s.held.put(c.ID, old)
		return idempotency.Answer{Decision: idempotency.DecisionRun, Record: old.Record}, true, nil
	case old.Rev == 0:
		return a, false, nil // another's claim was faster, and is there to be seen now
	}
	a, changed := old.Record.Begin(c, old.Now)
	if !changed {
		return a, true, nil
	}
	done, err = s.write(ctx, c.ID, old, a.Record, 0)
	return a, done, err
}

// claim claims a key that has no record, or returns the record.
func (s *Store) claim(ctx context.Context, c idempotency.Claim) (x row, granted bool, err error) {
	lease, due := sqltable.Times(c)
	var created pgtype.Int8
	sent := time.Now()
	err = x.scan(s.pool.QueryRow(ctx, s.sql.claim, c.ID[:], sqltable.Version, int(c.Guarantee), c.Fingerprint[:], c.Owner[:],
		lease, int64(c.Retention), due), &created)
	x.sent = sent
	if err != nil || !created.Valid {
		return x, false, wrap("begin", err)
	}
	var none idempotency.Record
	a, _ := none.Begin(c, idempotency.Moment(created.Int64))
	x.Rev, x.Record = 1, a.Record
	return x, true, nil
}

// Apply implements [idempotency.Store].
func (s *Store) Apply(ctx context.Context, ref idempotency.Ref, c idempotency.Change) error {
	if made, err := s.applyHeld(ctx, ref, c); made || err != nil {
		return err
	}
	for range casTries {
		old, err := s.load(ctx, ref.ID)
		if err != nil {
			return err
		}
		next, changed, err := old.Record.Apply(ref, c, old.Now)
		if err != nil || !changed {
			return err
		}
		made, err := s.write(ctx, ref.ID, old, next, 0)
		if made || err != nil && !sqltx.Conflict(err) {
			return err
		}
	}
	return errContended
}

// applyHeld makes a change to a record as it was left here, without reading it again:
// the compare-and-set says whether it still is that record. It is not made, and
// nothing happened, when that or the lease is in doubt.
func (s *Store) applyHeld(ctx context.Context, ref idempotency.Ref, c idempotency.Change) (made bool, err error) {
	old, found := s.held.take(ref)
	now := old.Now.Add(time.Since(old.sent)) // no earlier than the database's
	if !found || c.Point != nil || now >= old.Record.LeaseUntil {
		return false, nil
	}
	next, changed, err := old.Record.Apply(ref, c, now)
	if err != nil || !changed {
		return false, nil //nolint:nilerr // the record itself shall say so
	}
	made, err = s.write(ctx, ref.ID, old, next, now)
	if sqltx.Conflict(err) {
		return false, nil
	}
	return made, err
}

// write stores a record in place of what was read, or deletes that, and reports whether
// it was still there. Moments that the change moved from at, unless that is zero, are moved to the
// database's time of writing.
func (s *Store) write(ctx context.Context, id idempotency.ID, old row, next idempotency.Record, at idempotency.Moment) (bool, error) {
	if next.State == idempotency.StateAbsent {
		tag, err := s.pool.Exec(ctx, s.sql.remove, id[:], old.Rev, old.Record.Token)
		return err == nil && tag.RowsAffected() == 1, wrap("write", err)
	}
	args, err := values(id, old, next, at)
	if err != nil {
		return false, err
	}
	var lease int64
	err = s.pool.QueryRow(ctx, s.sql.update, args...).Scan(&lease)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, wrap("write", err)
	}
	if next.State == idempotency.StateRunning {
		next.LeaseUntil = idempotency.Moment(lease)
		s.held.put(id, row{sqltable.Row{Rev: old.Rev + 1, Now: old.Now, Record: next}, old.sent})
	}
	return true, nil
}

// Get implements [idempotency.Store].
func (s *Store) Get(ctx context.Context, id idempotency.ID) (idempotency.Record, error) {
	r, err := s.load(ctx, id)
	return r.Record, err
}

// Sweep implements [idempotency.Store]. It takes two round trips.
func (s *Store) Sweep(ctx context.Context, limit int) (n int, err error) {
	var changes *pgx.Batch
	err = sqltx.UntilNoConflict(func() (err error) {
		changes, err = s.sweepable(ctx, limit)
		return err
	})
	if err != nil || changes.Len() == 0 {
		return 0, err
	}
	results := s.pool.SendBatch(ctx, changes)
	for range changes.Len() {
		tag, err := results.Exec()
		if err != nil {
			break // Close has it
		}
		n += int(tag.RowsAffected())
	}
	switch err = results.Close(); {
	case sqltx.Conflict(err):
		return 0, nil // all of it was undone: another sweep is at it
	case err != nil:
		return 0, wrap("sweep", err)
	}
	return n, nil
}

// sweepable returns the changes to what is due.
func (s *Store) sweepable(ctx context.Context, limit int) (*pgx.Batch, error) {
	rows, err := s.pool.Query(ctx, s.sql.due, sqltable.Version, limit)
	if err != nil {
		return nil, wrap("sweep", err)
	}
	defer rows.Close()
	changes := new(pgx.Batch)
	for rows.Next() {
		var b []byte
		var old row
		err := old.scan(rows, &b)
		if errors.Is(err, idempotency.ErrUnreadable) {
			continue // left to a program that can read it
		}
		if err != nil {
			return nil, wrap("sweep", err)
		}
		id := idempotency.ID(b)
		next, changed := old.Record.Sweep(old.Now)
		switch {
		case !changed:
		case next.State == idempotency.StateAbsent:
			changes.Queue(s.sql.remove, id[:], old.Rev, old.Record.Token)
		default:
			values, err := values(id, old, next, 0)
			if err != nil {
				return nil, err
			}
			changes.Queue(s.sql.update, values...)
		}
	}
	return changes, wrap("sweep", rows.Err())
}

func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("pgxstore: %s: %w", what, err)
}
