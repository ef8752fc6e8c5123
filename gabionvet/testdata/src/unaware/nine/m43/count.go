package count

import (
	"context"
	"math/rand/v2"
	"time"
)

type Publisher interface {
	Publish(ctx context.Context, topic string, b []byte) error
}

func Publish(ctx context.Context, p Publisher, topic string, b []byte) error {
	tries := 0
	var err error
	for tries < 5 {
		if err = p.Publish(ctx, topic, b); err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		time.Sleep(time.Second + rand.N(time.Second))
	}
	return err
}
