package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/internal/sqlgroup"
	"github.com/gabion-go/gabion/internal/sqlkit"
	"github.com/gabion-go/gabion/internal/sqltable"
	"github.com/gabion-go/gabion/internal/sqltx"
)

// A Store keeps records in one table. Make one with [New]. Safe for concurrent use.
type Store struct {
	db      *sql.DB
	dialect Dialect
	table   string
	sql     statements
	group   *group // nil where each change is a transaction of its own
	caps    atomic.Pointer[idempotency.Caps]
	server  atomic.Pointer[session] // with the dialect MySQL: what its server understands
}

var _ idempotency.TxStore = (*Store)(nil)

// New returns a store in the given table, which [Store.Migrate] creates. It does not
// ask the database anything. The error is about the dialect or the table's name.
func New(db *sql.DB, d Dialect, table string) (*Store, error) {
	texts, err := d.statements(table)
	if err != nil {
		return nil, err
	}
	s := &Store{db: db, dialect: d, table: table, sql: texts}
	if d.group {
		s.group = newGroup(db, texts)
	}
	s.caps.Store(unchecked)
	return s, nil
}

// Migrate creates table and index if they are missing, and then is [Store.Check].
// It refuses a server that is too old.
func (s *Store) Migrate(ctx context.Context) error {
	if err := s.dialect.kit.Create(ctx, sqlkit.DB{DB: s.db}, s.sql.schema, s.sql.index); err != nil {
		return wrap("migrate", err)
	}
	return s.Check(ctx)
}

// A queryer is a database or a transaction.
type queryer = sqlgroup.Queryer

// change makes a change, alone or together with others'. Nothing that do assigns may
// be read after an error: do may still be under way.
func (s *Store) change(ctx context.Context, do func(context.Context, queryer) error) error {
	if s.group != nil {
		return s.group.do(ctx, do)
	}
	return sqltx.UntilNoConflict(func() error { return do(ctx, s.db) })
}

type row = sqltable.Row

// number is a column that is never NULL.
func number(n int64) int64 { return n }

// casTries bounds how often a record is read anew because it changed before the write. Each time
// another writer got ahead, so contention passes.
const casTries = 32

var errContended = errors.New("sqlstore: the record changed too often")

// Begin implements [idempotency.Store].
func (s *Store) Begin(ctx context.Context, c idempotency.Claim) (idempotency.Answer, error) {
	got := new(idempotency.Answer)
	err := s.change(ctx, func(ctx context.Context, q queryer) (err error) {
		*got, err = s.begin(ctx, q, c)
		return err
	})
	if err != nil {
		return idempotency.Answer{}, err
	}
	return *got, nil
}

func (s *Store) begin(ctx context.Context, q queryer, c idempotency.Claim) (idempotency.Answer, error) {
	if a, granted, err := s.beginNew(ctx, q, c); granted || err != nil {
		return a, err
	}
	for range casTries {
		old, err := s.load(ctx, q, c.ID)
		if err != nil {
			return idempotency.Answer{}, err
		}
		a, changed := old.Record.Begin(c, old.Now)
		if !changed {
			return a, nil
		}
		if written, err := s.write(ctx, q, c.ID, old, a.Record); err != nil || written {
			return a, err
		}
	}
	return idempotency.Answer{}, errContended
}

// beginNew claims a key that has no record.
func (s *Store) beginNew(ctx context.Context, q queryer, c idempotency.Claim) (a idempotency.Answer, granted bool, err error) {
	lease, due := sqltable.Times(c)
	values := []any{c.ID[:], sqltable.Version, int(c.Guarantee), c.Fingerprint[:], c.Owner[:], lease, int64(c.Retention), due}
	var created int64
	if s.dialect.mysql {
		created, err = mysqlInsert(ctx, q, s.sql.insertNew, values)
	} else {
		err = q.QueryRowContext(ctx, s.sql.insertNew, values...).Scan(&created)
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

// Apply implements [idempotency.Store].
func (s *Store) Apply(ctx context.Context, ref idempotency.Ref, c idempotency.Change) error {
	return s.change(ctx, func(ctx context.Context, q queryer) error { return s.apply(ctx, q, ref, c) })
}

func (s *Store) apply(ctx context.Context, q queryer, ref idempotency.Ref, c idempotency.Change) error {
	for range casTries {
		old, err := s.load(ctx, q, ref.ID)
		if err != nil {
			return err
		}
		next, changed, err := old.Record.Apply(ref, c, old.Now)
		if err != nil || !changed {
			return err
		}
		if written, err := s.write(ctx, q, ref.ID, old, next); err != nil || written {
			return err
		}
	}
	return errContended
}

// Get implements [idempotency.Store].
func (s *Store) Get(ctx context.Context, id idempotency.ID) (idempotency.Record, error) {
	var r row
	err := sqltx.UntilNoConflict(func() (err error) {
		r, err = s.load(ctx, s.db, id)
		return err
	})
	return r.Record, err
}

// Sweep implements [idempotency.Store].
func (s *Store) Sweep(ctx context.Context, limit int) (int, error) {
	n := new(int)
	err := s.change(ctx, func(ctx context.Context, q queryer) (err error) {
		*n, err = s.sweepDue(ctx, q, limit)
		return err
	})
	if err != nil {
		return 0, err
	}
	return *n, nil
}

func (s *Store) sweepDue(ctx context.Context, q queryer, limit int) (n int, err error) {
	ids, err := s.due(ctx, q, limit)
	for _, id := range ids {
		if err != nil {
			break
		}
		var swept bool
		if swept, err = s.sweep(ctx, q, id); swept {
			n++
		}
	}
	return n, err
}

func (s *Store) due(ctx context.Context, q queryer, limit int) (ids []idempotency.ID, err error) {
	rows, err := q.QueryContext(ctx, s.sql.selectDue, sqltable.Version, limit)
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
func (s *Store) sweep(ctx context.Context, q queryer, id idempotency.ID) (bool, error) {
	old, err := s.load(ctx, q, id)
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
	return s.write(ctx, q, id, old, next)
}

// load reads a record and the time. Without a record it asks for the time alone.
func (s *Store) load(ctx context.Context, q queryer, id idempotency.ID) (row, error) {
	return s.loadBy(ctx, q, s.sql.selectOne, id)
}

func (s *Store) loadBy(ctx context.Context, q queryer, text string, id idempotency.ID) (row, error) {
	x, err := sqltable.Scan(q.QueryRowContext(ctx, text, id[:]), number)
	if errors.Is(err, sql.ErrNoRows) {
		err = q.QueryRowContext(ctx, s.sql.selectNow).Scan(&x.Now)
	}
	return x, wrap("load", err)
}

// write stores a record in place of what was read, or deletes that, and reports whether
// it was still there.
func (s *Store) write(ctx context.Context, q queryer, id idempotency.ID, old row, r idempotency.Record) (bool, error) {
	payload, err := r.MarshalBinary()
	if err != nil {
		return false, err
	}
	if r.State == idempotency.StateAbsent {
		return one(q.ExecContext(ctx, s.sql.deleteOne, id[:], old.Rev, old.Record.Token))
	}
	values := []any{old.Rev + 1, sqltable.Version, int(r.State), int(r.Guarantee), r.Token, r.Attempt, r.Fingerprint[:], r.Owner[:],
		int64(r.LeaseUntil), int64(r.Created), int64(r.Finished), int64(r.Expires), int64(r.Retention), int64(r.Due()), payload}
	if old.Rev == 0 {
		return one(q.ExecContext(ctx, s.sql.insertOne, append([]any{id[:]}, values...)...))
	}
	return one(q.ExecContext(ctx, s.sql.updateOne, append(values, id[:], old.Rev, old.Record.Token)...))
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
