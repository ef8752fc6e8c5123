package m07

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"
)

type routeTable struct {
	Version int64             `json:"version"`
	Routes  map[string]string `json:"routes"`
}

type routeWatcher struct {
	hc    *http.Client // Timeout: 10s
	url   string
	every time.Duration
	cur   atomic.Pointer[routeTable]
}

func (w *routeWatcher) Watch(ctx context.Context) error {
	tick := time.NewTicker(w.every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		resp, err := w.get(ctx)
		if err != nil {
			slog.WarnContext(ctx, "routes unreachable, keeping old table", "err", err)
			continue
		}
		// WRONG: defer in a loop that ends with the process; each poll answered with an error page keeps its connection and its body open forever
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			slog.WarnContext(ctx, "routes refused, keeping old table", "status", resp.Status)
			continue
		}
		w.store(ctx, resp.Body)
	}
}

// RIGHT
func (w *routeWatcher) WatchScoped(ctx context.Context) error {
	tick := time.NewTicker(w.every)
	defer tick.Stop()
	poll := func() error {
		resp, err := w.get(ctx)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10))
			return fmt.Errorf("routes refused: %s", resp.Status)
		}
		w.store(ctx, resp.Body)
		return nil
	}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		if err := poll(); err != nil {
			slog.WarnContext(ctx, "keeping old table", "err", err)
		}
	}
}

func (w *routeWatcher) get(ctx context.Context) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, w.url, nil)
	if err != nil {
		return nil, err
	}
	return w.hc.Do(req)
}

func (w *routeWatcher) store(ctx context.Context, body io.Reader) {
	var t routeTable
	if err := json.NewDecoder(io.LimitReader(body, 8<<20)).Decode(&t); err != nil {
		slog.WarnContext(ctx, "routes unreadable, keeping old table", "err", err)
		return
	}
	w.cur.Store(&t)
}
