package m04

import (
	"context"
	"encoding/json"
	"net/http"
	"time"
)

type Options struct {
	Addr    string
	Timeout time.Duration
}

// Search is the client of the search service. One is made at the start of the program.
type Search struct {
	addr   string
	ctx    context.Context
	cancel context.CancelFunc
	hc     *http.Client
}

func New(parent context.Context, o Options) *Search {
	if o.Timeout == 0 {
		o.Timeout = 10 * time.Second
	}
	ctx, cancel := context.WithTimeout(parent, o.Timeout)
	return &Search{
		addr:   o.Addr,
		ctx:    ctx,
		cancel: cancel,
		hc:     &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 32}},
	}
}

func (s *Search) Close() { s.cancel() }

type Hit struct {
	ID    string
	Score float64
}

func (s *Search) Find(words string) ([]Hit, error) {
	req, err := http.NewRequestWithContext(s.ctx, http.MethodGet, s.addr+"/find", nil)
	if err != nil {
		return nil, err
	}
	q := req.URL.Query()
	q.Set("q", words)
	req.URL.RawQuery = q.Encode()
	resp, err := s.hc.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var hits []Hit
	return hits, json.NewDecoder(resp.Body).Decode(&hits)
}
