package m13

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

// stockReader asks a second replica when the first one is slow; reads only.
type stockReader struct {
	hc       *http.Client // Timeout: 3s
	replicas []string
	hedge    time.Duration
}

type stockAnswer struct {
	body []byte
	err  error
}

func (s *stockReader) Stock(ctx context.Context, sku string) ([]byte, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// WRONG: unbuffered; once the winner has been returned the loser blocks forever on its send, one goroutine leaked per hedged read, most when replicas are slow
	answers := make(chan stockAnswer)
	return s.race(ctx, sku, answers)
}

// RIGHT
func (s *stockReader) StockBuffered(ctx context.Context, sku string) ([]byte, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answers := make(chan stockAnswer, len(s.replicas))
	return s.race(ctx, sku, answers)
}

func (s *stockReader) race(ctx context.Context, sku string, answers chan stockAnswer) ([]byte, error) {
	next, failed := 0, 0
	launch := func() {
		if next == len(s.replicas) {
			return
		}
		base := s.replicas[next]
		next++
		go func() {
			b, err := s.read(ctx, base, sku)
			answers <- stockAnswer{b, err}
		}()
	}
	launch()
	hedge := time.NewTimer(s.hedge)
	defer hedge.Stop()
	errs := errors.New("no replica answered")
	for failed < len(s.replicas) {
		select {
		case a := <-answers:
			if a.err == nil {
				return a.body, nil
			}
			errs = errors.Join(errs, a.err)
			failed++
			launch()
		case <-hedge.C:
			launch()
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return nil, errs
}

func (s *stockReader) read(ctx context.Context, base, sku string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/stock/"+url.PathEscape(sku), nil)
	if err != nil {
		return nil, err
	}
	resp, err := s.hc.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", base, resp.Status)
	}
	return io.ReadAll(io.LimitReader(resp.Body, 1<<20))
}
