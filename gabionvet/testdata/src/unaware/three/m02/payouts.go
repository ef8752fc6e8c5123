package m02

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net/http"

	"github.com/gabion-go/gabion"
)

type Payouts struct {
	dep *gabion.Dependency
	hc  *http.Client
	url string
}

func headers() http.Header {
	var b [16]byte
	_, _ = rand.Read(b[:])
	h := http.Header{}
	h.Set("Content-Type", "application/json")
	h.Set("Idempotency-Key", hex.EncodeToString(b[:]))
	return h
}

func (p *Payouts) Send(ctx context.Context, body []byte) error {
	return p.dep.Run(ctx, func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url, bytes.NewReader(body))
		if err != nil {
			return err
		}
		req.Header = headers()
		resp, err := p.hc.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode >= 400 {
			return fmt.Errorf("payout: %s", resp.Status)
		}
		return nil
	}, gabion.WithIdempotent())
}
