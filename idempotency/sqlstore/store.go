package sqlstore

import (
	"context"
	"database/sql"
	"sync/atomic"

	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/internal/sqlgroup"
	"github.com/gabion-go/gabion/internal/sqlkit"
	"github.com/gabion-go/gabion/internal/sqltx"
)

// A Store keeps records in one table. Make one with [New]. Safe for concurrent use.
type Store struct {
	records
	db     *sql.DB
	table  string
	group  *group // nil where each change is a transaction of its own
	caps   atomic.Pointer[idempotency.Caps]
	server atomic.Pointer[session] // with the dialect MySQL: what its server understands
}

var _ idempotency.TxStore = (*Store)(nil)

// New returns a store in the given table, which [Store.Migrate] creates. It does not
// ask the database anything. The error is about the dialect or the table's name.
func New(db *sql.DB, d Dialect, table string) (*Store, error) {
	texts, err := d.statements(table)
	if err != nil {
		return nil, err
	}
	s := &Store{records: records{d, texts}, db: db, table: table}
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

// Apply implements [idempotency.Store].
func (s *Store) Apply(ctx context.Context, ref idempotency.Ref, c idempotency.Change) error {
	return s.change(ctx, func(ctx context.Context, q queryer) error { return s.apply(ctx, q, ref, c) })
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
