package m25

import (
	"bytes"
	"context"
	"fmt"
	"net/http"

	"github.com/gabion-go/gabion"
)

type Push struct {
	dep *gabion.Dependency
	hc  *http.Client
	url string
}

func (p *Push) Notify(ctx context.Context, body []byte) error {
	_, err := gabion.Do(ctx, p.dep, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, p.post(ctx, body)
	}, gabion.WithIdempotent())
	return err
}

func (p *Push) post(ctx context.Context, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := p.hc.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode >= 300 {
		return fmt.Errorf("push: %s", resp.Status)
	}
	return nil
}
