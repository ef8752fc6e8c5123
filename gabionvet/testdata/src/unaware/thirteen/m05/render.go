package m05

import (
	"context"
	"errors"
	"time"
)

type Doc struct {
	Title string
	Body  []byte
}

type Engine interface {
	PDF(d Doc) ([]byte, error)
}

type Renderer struct {
	engine Engine
	limit  time.Duration
}

var ErrSlow = errors.New("render: took too long")

type result struct {
	pdf []byte
	err error
}

// Render gives up on a document after the limit. The engine knows no contexts.
func (r *Renderer) Render(ctx context.Context, d Doc) ([]byte, error) {
	done := make(chan result)
	go func() {
		pdf, err := r.engine.PDF(d)
		done <- result{pdf, err}
	}()
	timer := time.NewTimer(r.limit)
	defer timer.Stop()
	select {
	case res := <-done:
		return res.pdf, res.err
	case <-timer.C:
		return nil, ErrSlow
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
