package pgxstore

import (
	"context"

	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/internal/sqltable"
)

// Now implements [idempotency.Store].
func (s *Store) Now(ctx context.Context) (at idempotency.Moment, err error) {
	err = s.pool.QueryRow(ctx, "SELECT "+dialect.Now).Scan((*int64)(&at))
	return at, wrap("now", err)
}

// List implements [idempotency.Store]. The order is that of the IDs.
func (s *Store) List(ctx context.Context, cursor string, limit int) (entries []idempotency.Entry, next string, err error) {
	entries, next, err = sqltable.List(cursor, limit, func(after []byte, limit int) ([]idempotency.Entry, error) {
		rows, err := s.pool.Query(ctx, s.sql.page, after, limit)
		if err != nil {
			return nil, err
		}
		defer rows.Close()
		return sqltable.Entries(rows, number)
	})
	return entries, next, wrap("list", err)
}
