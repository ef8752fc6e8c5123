package export

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"
)

type Sink interface {
	Write(ctx context.Context, lines []string) error
}

func Export(ctx context.Context, s Sink, lines []string) error {
	for i := 0; i < 3; i++ {
		if err := s.Write(ctx, lines); err != nil {
			slog.Warn("export", "attempt", i, "err", err)
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(rand.N(time.Second << i)):
			}
			continue
		}
		slog.Info("exported", "lines", len(lines))
		break
	}
	return nil
}
