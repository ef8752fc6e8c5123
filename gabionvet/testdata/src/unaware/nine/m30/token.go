package token

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

type Tokens struct {
	mu    sync.Mutex
	tok   string
	until time.Time
	fetch func(ctx context.Context) (string, time.Time, error)
}

func (t *Tokens) Token(ctx context.Context) (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if time.Now().Before(t.until) {
		return t.tok, nil
	}
	return t.renew(ctx)
}

func (t *Tokens) renew(ctx context.Context) (string, error) {
	var err error
	for i := 0; i < 6; i++ {
		t.tok, t.until, err = t.fetch(ctx)
		if err == nil {
			return t.tok, nil
		}
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		time.Sleep(rand.N(time.Second << min(i, 4)))
	}
	return "", err
}
