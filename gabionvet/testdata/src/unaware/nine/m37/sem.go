package sem

import (
	"context"
	"net/http"
	"time"
)

type Limited struct {
	hc    *http.Client
	slots chan struct{}
}

func New(n int) *Limited {
	return &Limited{hc: &http.Client{Timeout: 5 * time.Second}, slots: make(chan struct{}, n)}
}

func (l *Limited) Do(ctx context.Context, req *http.Request) (*http.Response, error) {
	select {
	case l.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	resp, err := l.hc.Do(req.WithContext(ctx))
	if err != nil {
		return nil, err
	}
	<-l.slots
	return resp, nil
}
