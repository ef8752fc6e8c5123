package m05

import (
	"context"
	"encoding/json"
	"net/http"
	"time"
)

type Status struct{ State string }

type Poller struct {
	hc    *http.Client
	url   string
	every time.Duration
}

func (p *Poller) Wait(ctx context.Context) (*Status, error) {
	t := time.NewTicker(p.every)
	defer t.Stop()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url, nil)
		if err != nil {
			return nil, err
		}
		resp, err := p.hc.Do(req)
		if err != nil {
			return nil, err
		}
		if resp.StatusCode == http.StatusAccepted {
			select {
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-t.C:
				continue
			}
		}
		var s Status
		err = json.NewDecoder(resp.Body).Decode(&s)
		resp.Body.Close()
		return &s, err
	}
}
