package m17

import (
	"context"
	"log/slog"
	"time"
)

type broker interface {
	Publish(ctx context.Context, topic string, body []byte) error
}

func Announce(ctx context.Context, b broker, body []byte) error {
	for i := 1; i <= 3; i++ {
		err := b.Publish(ctx, "orders", body)
		if err == nil {
			return nil
		}
		slog.Warn("publish failed", "attempt", i, "err", err)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Duration(i) * time.Second):
		}
	}
	return nil
}
