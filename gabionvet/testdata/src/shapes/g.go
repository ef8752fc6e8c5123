package shapes

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"time"
)

// a session has its own end
type mailSession struct {
	ctx context.Context
	hc  *http.Client
}

func NewMailSession(ctx context.Context) *mailSession {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	context.AfterFunc(ctx, cancel)
	return &mailSession{ctx: ctx}
}

func (s *mailSession) next() (*http.Response, error) {
	req, err := http.NewRequestWithContext(s.ctx, http.MethodGet, "https://mail/next", nil)
	if err != nil {
		return nil, err
	}
	return s.hc.Do(req)
}

// a wait that has a cap, in a loop that connects again
func reconnects(ctx context.Context, session func(context.Context) error) {
	wait := time.Second
	for ctx.Err() == nil {
		if err := session(ctx); err == nil {
			wait = time.Second
			continue
		}
		select {
		case <-time.After(rand.N(wait)):
		case <-ctx.Done():
		}
		wait = min(2*wait, time.Minute)
	}
}

// an attempt that has a part of the time
func shorter(ctx context.Context, c *cell) (v string, err error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	for i := range 3 {
		if v, err = part(ctx, c); err == nil || errors.Is(err, context.Canceled) {
			return v, err
		}
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-time.After(rand.N(time.Second << i)):
		}
	}
	return "", err
}

func part(ctx context.Context, c *cell) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	return c.load(ctx)
}

// the goroutine's context outlives the request
func (c *cell) warm(w http.ResponseWriter, r *http.Request) {
	go c.refresh(context.WithoutCancel(r.Context()))
	w.WriteHeader(http.StatusAccepted)
}

func (c *cell) refresh(ctx context.Context) {
	if v, err := c.load(ctx); err == nil {
		c.mu.Lock()
		c.v = v
		c.mu.Unlock()
	}
}
