package m11

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

type TopUp struct {
	Phone string
	Cents int64
}

func (t TopUp) key() string {
	return fmt.Sprintf("%s/%d/%d", t.Phone, t.Cents, time.Now().UnixMilli())
}

type Carrier interface {
	TopUp(ctx context.Context, t TopUp, idempotencyKey string) error
}

func Send(ctx context.Context, c Carrier, t TopUp) (err error) {
	for try := range 3 {
		if err = c.TopUp(ctx, t, t.key()); err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(rand.N(time.Second << try)):
		}
	}
	return err
}
