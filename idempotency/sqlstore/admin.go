package sqlstore

import (
	"context"
	"errors"

	"github.com/gabion-go/gabion/idempotency"
)

var _ idempotency.Admin = (*Store)(nil)

// Now implements [idempotency.Admin].
func (s *Store) Now(ctx context.Context) (now idempotency.Moment, err error) {
	err = s.db.QueryRowContext(ctx, s.sql.selectNow).Scan(&now)
	return now, wrap("now", err)
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
	rows, err := s.db.QueryContext(ctx, s.sql.selectPage, after, limit)
	if err != nil {
		return p, wrap("list", err)
	}
	defer rows.Close()
	for rows.Next() {
		var id []byte
		var x row
		err := x.scan(rows, &id)
		if err != nil && !errors.Is(err, idempotency.ErrUnreadable) {
			return idempotency.Page{}, err
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
	return s.change(ctx, func(ctx context.Context, q queryer) error {
		old, err := s.load(ctx, q, ref.ID)
		if err != nil {
			return err
		}
		if err := old.record.Forgettable(ref, old.now); err != nil {
			return err
		}
		gone, err := one(q.ExecContext(ctx, s.sql.deleteOne, ref.ID[:], old.rev, ref.Token))
		if err == nil && !gone {
			err = idempotency.ErrLeaseLost
		}
		return err
	})
}
