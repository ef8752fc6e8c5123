package pgxstore

import (
	"context"
	"errors"

	"github.com/gabion-go/gabion/idempotency"
)

var _ idempotency.Admin = (*Store)(nil)

// Now implements [idempotency.Admin].
func (s *Store) Now(ctx context.Context) (at idempotency.Moment, err error) {
	err = s.pool.QueryRow(ctx, "SELECT "+now).Scan((*int64)(&at))
	return at, wrap("now", err)
}

// List implements [idempotency.Admin]. The order is that of the IDs.
func (s *Store) List(ctx context.Context, cursor string, limit int) (p idempotency.Page, err error) {
	err = untilNoConflict(func() (err error) {
		p, err = s.page(ctx, cursor, limit)
		return err
	})
	return p, err
}

func (s *Store) page(ctx context.Context, cursor string, limit int) (p idempotency.Page, err error) {
	after := []byte{}
	if cursor != "" {
		id, err := idempotency.ParseID(cursor)
		if err != nil {
			return p, wrap("list", err)
		}
		after = id[:]
	}
	limit = max(limit, 1)
	rows, err := s.pool.Query(ctx, s.sql.page, after, limit)
	if err != nil {
		return p, wrap("list", err)
	}
	defer rows.Close()
	for rows.Next() {
		var id []byte
		var x row
		err := x.scan(rows, &id)
		if err != nil && !errors.Is(err, idempotency.ErrUnreadable) {
			return idempotency.Page{}, wrap("list", err)
		}
		e := idempotency.Entry{Record: x.record.Bare(), Err: err}
		copy(e.ID[:], id)
		p.Entries = append(p.Entries, e)
	}
	if len(p.Entries) == limit {
		p.Next = p.Entries[limit-1].ID.Hex()
	}
	return p, wrap("list", rows.Err())
}

// Forget implements [idempotency.Admin].
func (s *Store) Forget(ctx context.Context, ref idempotency.Ref) error {
	return untilNoConflict(func() error { return s.forget(ctx, ref) })
}

func (s *Store) forget(ctx context.Context, ref idempotency.Ref) error {
	old, err := s.load(ctx, ref.ID)
	if err != nil {
		return err
	}
	if err := old.record.Forgettable(ref, old.now); err != nil {
		return err
	}
	tag, err := s.pool.Exec(ctx, s.sql.remove, ref.ID[:], old.rev, ref.Token)
	if err == nil && tag.RowsAffected() == 0 {
		return idempotency.ErrLeaseLost
	}
	return wrap("forget", err)
}
