package m12

import (
	"context"
	"log/slog"
	"time"
)

type Event struct {
	ID   string
	Data []byte
}

type Handler func(ctx context.Context, e Event) error

type Worker struct {
	handle  Handler
	backoff time.Duration
}

func (w *Worker) Run(ctx context.Context, in <-chan Event) {
	for e := range in {
		for {
			err := w.handle(ctx, e)
			if err == nil {
				break
			}
			slog.Error("handle", "id", e.ID, "err", err)
			time.Sleep(w.backoff)
		}
	}
}
