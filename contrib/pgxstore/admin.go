package pgxstore

import (
	"context"
	"errors"

	"github.com/gabion-go/gabion/idempotency"
)

// Now implements [idempotency.Store].
func (s *Store) Now(ctx context.Context) (at idempotency.Moment, err error) {
	err = s.pool.QueryRow(ctx, "SELECT "+now).Scan((*int64)(&at))
	return at, wrap("now", err)
}

// List implements [idempotency.Store]. The order is that of the IDs.
func (s *Store) List(ctx context.Context, cursor string, limit int) (entries []idempotency.Entry, next string, err error) {
	after, limit := []byte{}, max(limit, 1)
	if cursor != "" {
		id, err := idempotency.ParseID(cursor)
		if err != nil {
			return nil, "", wrap("list", err)
		}
		after = id[:]
	}
	err = untilNoConflict(func() (err error) {
		entries, err = s.page(ctx, after, limit)
		return err
	})
	if len(entries) == limit {
		next = entries[limit-1].ID.Hex()
	}
	return entries, next, err
}

func (s *Store) page(ctx context.Context, after []byte, limit int) (entries []idempotency.Entry, err error) {
	rows, err := s.pool.Query(ctx, s.sql.page, after, limit)
	if err != nil {
		return nil, wrap("list", err)
	}
	defer rows.Close()
	for rows.Next() {
		var id []byte
		var x row
		err := x.scan(rows, &id)
		if err != nil && !errors.Is(err, idempotency.ErrUnreadable) {
			return nil, wrap("list", err)
		}
		e := idempotency.Entry{Record: x.record.Bare(), Err: err}
		copy(e.ID[:], id)
		entries = append(entries, e)
	}
	return entries, wrap("list", rows.Err())
}
