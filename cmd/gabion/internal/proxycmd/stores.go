package proxycmd

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/gabion-go/gabion/cmd/gabion/internal/operator"
	"github.com/gabion-go/gabion/contrib/boltstore"
	"github.com/gabion-go/gabion/contrib/gabionpgx/pgxstore"
	"github.com/gabion-go/gabion/contrib/gabionredis/redisstore"
	"github.com/gabion-go/gabion/contrib/sqlitestore"
	"github.com/gabion-go/gabion/idempotency"
)

// stores are those that are open, by the names that the file has for them. Routes and reloads share them.
type stores struct {
	mu   sync.Mutex
	open map[string]idempotency.Store
	shut []func()
}

// openTime bounds how long a server may take to answer at all.
const openTime = 10 * time.Second

// table is where records are in an SQL database.
const table = "gabion_idempotency"

// get opens a store, and makes its file or its table if that is missing.
func (s *stores) get(name string) (idempotency.Store, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if store := s.open[name]; store != nil {
		return store, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), openTime)
	defer cancel()
	store, shut, err := opened(ctx, name)
	if err != nil {
		return nil, err
	}
	if s.open == nil {
		s.open = map[string]idempotency.Store{}
	}
	s.open[name] = store
	sweeping, stop := context.WithCancel(context.Background())
	swept := make(chan struct{})
	go func() {
		defer close(swept)
		idempotency.Sweep(sweeping, store, idempotency.SweepConfig{})
	}()
	s.shut = append(s.shut, func() {
		stop()
		<-swept
		shut()
	})
	return store, nil
}

func opened(ctx context.Context, name string) (idempotency.Store, func(), error) {
	kind, rest, url := strings.Cut(name, ":")
	switch {
	case kind == "bolt":
		s, err := boltstore.Open(rest, boltstore.Options{})
		return s, func() { _ = s.Close() }, err
	case kind == "sqlite" || !url || filepath.IsAbs(name):
		db, s, err := sqlitestore.Open(ctx, strings.TrimPrefix(name, "sqlite:"), table)
		return s, func() { db.Close() }, err
	case kind == "postgres" || kind == "postgresql":
		return postgres(ctx, name)
	case kind == "redis" || kind == "rediss":
		client, err := operator.Redis(name)
		if err != nil {
			return nil, nil, err
		}
		s, err := redisstore.New(ctx, client, redisstore.Options{})
		return s, func() { _ = client.Close() }, err
	}
	return nil, nil, fmt.Errorf("%q is not known: write a file's name, sqlite:FILE, bolt:FILE, postgres:// or redis://", kind)
}

func postgres(ctx context.Context, dsn string) (idempotency.Store, func(), error) {
	pool, err := pgxpool.New(ctx, dsn)
	if err != nil {
		return nil, nil, err
	}
	s, err := pgxstore.New(pool, table)
	if err == nil {
		err = s.Migrate(ctx)
	}
	return s, pool.Close, err
}

func (s *stores) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, shut := range s.shut {
		shut()
	}
}
