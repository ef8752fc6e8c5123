package m09

import (
	"context"
	"errors"
	"log"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

type StockClient interface {
	Level(ctx context.Context, sku string) (int, error)
}

type Stock struct{ c StockClient }

func withRetries(fn func() error) error {
	backoff := 100 * time.Millisecond
	for i := 0; i < 6; i++ {
		err := fn()
		if err == nil {
			return nil
		}
		if status.Code(err) != codes.Unavailable {
			return err
		}
		log.Printf("try %d: %v", i, err)
		time.Sleep(backoff)
		backoff *= 2
	}
	return errors.New("too many attempts")
}

func (s *Stock) Level(ctx context.Context, sku string) (n int, err error) {
	err = withRetries(func() error {
		n, err = s.c.Level(ctx, sku)
		return err
	})
	return n, err
}
