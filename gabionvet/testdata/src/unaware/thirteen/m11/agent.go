package m11

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"time"
)

type Settings struct {
	Version int
	Flags   map[string]bool
}

// Agent runs on every machine of the fleet and reads its settings from one server.
type Agent struct {
	server string
	hc     *http.Client
	apply  func(Settings)
}

func (a *Agent) Run(ctx context.Context) {
	for {
		s, err := a.fetch(ctx)
		if err == nil {
			a.apply(s)
			if !rest(ctx, 10*time.Minute) {
				return
			}
			continue
		}
		log.Printf("settings: %v", err)
		if !rest(ctx, 5*time.Second) {
			return
		}
	}
}

func rest(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func (a *Agent) fetch(ctx context.Context) (s Settings, err error) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, a.server+"/settings", nil)
	if err != nil {
		return s, err
	}
	resp, err := a.hc.Do(req)
	if err != nil {
		return s, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return s, fmt.Errorf("settings: %s", resp.Status)
	}
	return s, json.NewDecoder(resp.Body).Decode(&s)
}
