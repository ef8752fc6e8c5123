package pgxstore

import (
	"context"

	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/internal/sqltable"
)

// unchecked is what a store claims of which nothing is known.
var unchecked = &idempotency.Caps{ServerClock: true, Warnings: []string{
	"whether PostgreSQL keeps what it acknowledged was not looked at: call Migrate or Check before the store is used",
}}

// Caps implements [idempotency.Store]. Durable is false, with a warning, until
// [Store.Check] or [Store.Migrate] has looked at the database.
func (s *Store) Caps() idempotency.Caps {
	caps := *s.caps.Load()
	caps.Connections = int(s.pool.Config().MaxConns)
	return caps
}

// Check reads the database's settings, from which [Store.Caps] then says whether
// records survive a crash of its machine. Call it, or Migrate, before the store is
// given to a Handler. It sees the settings of one connection: what a program sets on
// others it has to set on all.
func (s *Store) Check(ctx context.Context) error {
	flaws, err := sqltable.Flaws(s.table, s.pool.QueryRow(ctx, s.sql.settings))
	if err != nil {
		return wrap("check", err)
	}
	s.caps.Store(&idempotency.Caps{Durable: len(flaws) == 0, ServerClock: true, Warnings: flaws})
	return nil
}
