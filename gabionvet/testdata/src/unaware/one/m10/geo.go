package m10

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/gabion-go/gabion"
)

type Geo struct {
	dep  *gabion.Dependency
	http *http.Client
}

func (g *Geo) Locate(ctx context.Context, ip string) ([]byte, error) {
	return gabion.Do(ctx, g.dep, func(ctx context.Context) ([]byte, error) {
		return g.get(ctx, "https://geo.example.com/"+ip)
	})
}

func (g *Geo) get(ctx context.Context, url string) ([]byte, error) {
	for i := range 3 {
		b, status, err := g.once(ctx, url)
		if err == nil && status < 500 {
			return b, nil
		}
		if status != 0 && status < 500 {
			return nil, fmt.Errorf("status %d", status)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(rand.N(100 * time.Millisecond << i)):
		}
	}
	return nil, errors.New("geo: no answer")
}

func (g *Geo) once(ctx context.Context, url string) ([]byte, int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, 0, err
	}
	resp, err := g.http.Do(req)
	if err != nil {
		return nil, 0, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return b, resp.StatusCode, err
}
