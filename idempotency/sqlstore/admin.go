package sqlstore

import (
	"context"

	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/internal/sqltable"
)

// Now implements [idempotency.Store].
func (s *Store) Now(ctx context.Context) (now idempotency.Moment, err error) {
	err = s.db.QueryRowContext(ctx, s.sql.selectNow).Scan(&now)
	return now, wrap("now", err)
}

// List implements [idempotency.Store]. The order is that of the IDs.
func (s *Store) List(ctx context.Context, cursor string, limit int) (entries []idempotency.Entry, next string, err error) {
	entries, next, err = sqltable.List(cursor, limit, func(after []byte, limit int) ([]idempotency.Entry, error) {
		rows, err := s.db.QueryContext(ctx, s.sql.selectPage, after, limit) //nolint:rowserrcheck // Entries does
		if err != nil {
			return nil, err
		}
		defer rows.Close()
		return sqltable.Entries(rows, number)
	})
	return entries, next, wrap("list", err)
}
