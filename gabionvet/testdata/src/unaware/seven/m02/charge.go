package m02

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

type Charge struct {
	Account string `json:"account"`
	Cents   int64  `json:"cents"`
}

type Payments struct {
	URL  string
	HTTP *http.Client
}

func (p *Payments) Charge(ctx context.Context, c Charge) error {
	raw, err := json.Marshal(c)
	if err != nil {
		return err
	}
	wait := 200 * time.Millisecond
	for try := 1; ; try++ {
		err = p.post(ctx, raw)
		if err == nil {
			return nil
		}
		if try == 4 {
			return fmt.Errorf("charge %s: %w", c.Account, err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
		wait *= 2
	}
}

func (p *Payments) post(ctx context.Context, raw []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.URL+"/charges", bytes.NewReader(raw))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := p.HTTP.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode >= 300 {
		return fmt.Errorf("payments: status %d", resp.StatusCode)
	}
	return nil
}
