package pgxstore

import (
	"context"

	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/internal/sqltable"
	"github.com/gabion-go/gabion/internal/sqltx"
)

// Now implements [idempotency.Store].
func (s *Store) Now(ctx context.Context) (at idempotency.Moment, err error) {
	err = s.pool.QueryRow(ctx, "SELECT "+sqltable.PostgresNow).Scan((*int64)(&at))
	return at, wrap("now", err)
}

// List implements [idempotency.Store]. The order is that of the IDs.
func (s *Store) List(ctx context.Context, cursor string, limit int) (entries []idempotency.Entry, next string, err error) {
	entries, next, err = sqltable.List(cursor, limit, func(after []byte, limit int) (page []idempotency.Entry, err error) {
		err = sqltx.UntilNoConflict(func() (err error) {
			page, err = s.page(ctx, after, limit)
			return err
		})
		return page, err
	})
	return entries, next, wrap("list", err)
}

func (s *Store) page(ctx context.Context, after []byte, limit int) (entries []idempotency.Entry, err error) {
	rows, err := s.pool.Query(ctx, s.sql.page, after, limit)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var id []byte
		var x row
		err := x.scan(rows, &id)
		e, err := sqltable.EntryOf(id, x.record, err)
		if err != nil {
			return nil, err
		}
		entries = append(entries, e)
	}
	return entries, rows.Err()
}
