package m11

import (
	"context"
	"time"
)

type Store interface {
	Get(ctx context.Context, key string) ([]byte, error)
}

type answer struct {
	value []byte
	err   error
}

func Get(ctx context.Context, primary, replica Store, key string) ([]byte, error) {
	results := make(chan answer)
	ask := func(s Store) {
		v, err := s.Get(ctx, key)
		results <- answer{v, err}
	}
	go ask(primary)
	select {
	case a := <-results:
		return a.value, a.err
	case <-time.After(20 * time.Millisecond):
		go ask(replica)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	a := <-results
	return a.value, a.err
}
