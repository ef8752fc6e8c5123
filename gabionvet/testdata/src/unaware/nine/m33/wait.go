package wait

import (
	"context"
	"math/rand/v2"
	"time"
)

type Prober interface {
	Ready(ctx context.Context) (bool, error)
}

func UntilReady(ctx context.Context, p Prober) error {
	for {
		ok, err := p.Ready(ctx)
		if err == nil && ok {
			return nil
		}
		select {
		case <-ctx.Done():
			break
		case <-time.After(time.Second + rand.N(time.Second)):
		}
	}
}
