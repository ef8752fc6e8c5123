package poll

import (
	"context"
	"encoding/json"
	"net/http"
	"sync/atomic"
	"time"
)

type Flags struct{ On map[string]bool }

type Refresher struct {
	hc  *http.Client
	url string
	cur atomic.Pointer[Flags]
}

func (r *Refresher) fetch(ctx context.Context) (*Flags, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := r.hc.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	f := new(Flags)
	return f, json.NewDecoder(resp.Body).Decode(f)
}

func (r *Refresher) refresh(ctx context.Context) {
	f, err := r.fetch(ctx)
	if err != nil {
		time.AfterFunc(time.Second, func() { r.refresh(ctx) })
		return
	}
	r.cur.Store(f)
}
