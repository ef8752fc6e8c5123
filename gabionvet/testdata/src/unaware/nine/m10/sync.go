package sync

import (
	"context"
	"math/rand/v2"
	"time"
)

type Store interface {
	Push(ctx context.Context, rows []string) error
}

type Syncer struct {
	store   Store
	retries int
}

func (s *Syncer) withRetry(ctx context.Context, op func(context.Context) error) error {
	backoff := 250 * time.Millisecond
	var err error
	for i := 0; i <= s.retries; i++ {
		if err = op(ctx); err == nil {
			return nil
		}
		backoff = min(backoff*2, 30*time.Second) + rand.N(time.Second)
		time.Sleep(backoff)
	}
	return err
}

func (s *Syncer) Sync(ctx context.Context, rows []string) error {
	return s.withRetry(ctx, func(ctx context.Context) error { return s.store.Push(ctx, rows) })
}
