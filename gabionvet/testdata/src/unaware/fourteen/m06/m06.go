package m06

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"
)

type feedSession interface {
	// Pump blocks until the connection breaks.
	Pump(ctx context.Context, sink func([]byte)) error
	Close() error
}

type priceFeed struct {
	dial          func(context.Context) (feedSession, error)
	sink          func([]byte)
	base, ceiling time.Duration // 500ms, 30s
}

func (f *priceFeed) Run(ctx context.Context) error {
	for attempt := 0; ctx.Err() == nil; attempt++ {
		connected, err := f.session(ctx)
		if connected {
			attempt = 0
		}
		slog.WarnContext(ctx, "feed down", "attempt", attempt, "err", err)
		// WRONG: the shift overflows after some 35 failures and is 0 or negative from then on: a broker down for half an hour is dialled in a hot loop by every pod
		delay := f.base << attempt
		if delay > f.ceiling {
			delay = f.ceiling
		}
		feedWait(ctx, delay)
	}
	return ctx.Err()
}

// RIGHT
func (f *priceFeed) RunBounded(ctx context.Context) error {
	delay := f.base
	for attempt := 0; ctx.Err() == nil; attempt++ {
		connected, err := f.session(ctx)
		if connected {
			attempt, delay = 0, f.base
		}
		slog.WarnContext(ctx, "feed down", "attempt", attempt, "err", err)
		feedWait(ctx, delay)
		delay = min(delay*2, f.ceiling)
	}
	return ctx.Err()
}

func (f *priceFeed) session(ctx context.Context) (connected bool, err error) {
	dctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	s, err := f.dial(dctx)
	if err != nil {
		return false, err
	}
	defer s.Close()
	began := time.Now()
	err = s.Pump(ctx, f.sink)
	return time.Since(began) > time.Minute, err // a session that dies at once does not count
}

func feedWait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(time.Duration(float64(d) * (0.75 + rand.Float64()/2)))
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
