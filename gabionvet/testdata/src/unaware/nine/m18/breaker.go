package breaker

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/sony/gobreaker"
)

type Score struct {
	cb   *gobreaker.CircuitBreaker
	call func(ctx context.Context, id string) (any, error)
}

func (s *Score) Of(ctx context.Context, id string) (v any, err error) {
	for i := range 4 {
		v, err = s.cb.Execute(func() (any, error) {
			return s.call(ctx, id)
		})
		if err == nil {
			return v, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(rand.N(100 * time.Millisecond << i)):
		}
	}
	return nil, err
}
