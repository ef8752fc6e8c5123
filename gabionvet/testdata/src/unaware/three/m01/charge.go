package m01

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"
)

const maxAttempts = 5

type Gateway struct {
	hc   *http.Client
	base string
}

func (g *Gateway) Charge(ctx context.Context, body []byte) error {
	return g.charge(ctx, body, 1)
}

func (g *Gateway) charge(ctx context.Context, body []byte, attempt int) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, g.base+"/charge", bytes.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := g.hc.Do(req)
	if err == nil {
		defer resp.Body.Close()
		if resp.StatusCode < 500 {
			return nil
		}
		err = fmt.Errorf("gateway: %s", resp.Status)
	}
	if attempt >= maxAttempts {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(rand.N(time.Duration(attempt) * time.Second)):
	}
	return g.charge(ctx, body, attempt+1)
}
