package gabionprom_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/contrib/gabionprom"
	"github.com/gabion-go/gabion/contrib/gabionprom/internal/catalog"
	"github.com/gabion-go/gabion/gabionhttp"
	"github.com/gabion-go/gabion/policy"
)

// TestCallsOfAnOutageCountAsFailed has real outages. What ends the calls differs, and the
// alerts must count all of it.
func TestCallsOfAnOutageCountAsFailed(t *testing.T) {
	turned := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "30")
		w.WriteHeader(http.StatusTooManyRequests)
	}))
	defer turned.Close()
	broken := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }))
	defer broken.Close()
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	noSuch := httptest.NewServer(http.NotFoundHandler())
	defer noSuch.Close()
	for _, c := range []struct {
		outage, url, method string
		failed              float64       // of 40
		call                time.Duration // calls that are held back wait for as long
	}{
		{"429 with Retry-After", turned.URL, http.MethodGet, 40, 50 * time.Millisecond},
		{"429 to what can't be repeated", turned.URL, http.MethodPost, 40, 50 * time.Millisecond},
		{"503", broken.URL, http.MethodGet, 40, time.Minute},
		{"refused connections", gone.URL, http.MethodGet, 40, time.Minute},
		{"refused connections of what can't be repeated", gone.URL, http.MethodPost, 40, time.Minute},
		{"none: it says that there is no such thing", noSuch.URL, http.MethodGet, 0, time.Minute},
	} {
		t.Run(c.outage, func(t *testing.T) {
			reg, m := registry(t, gabionprom.Config{}, map[string]policy.Policy{"shop": {
				Timeout: policy.Timeout{Call: c.call}, Retry: policy.Retry{Backoff: backoff.Const(time.Millisecond)},
			}})
			dep, _ := reg.Get("shop")
			client := &http.Client{Transport: &gabionhttp.Transport{Dependency: dep}}
			for range 40 {
				req, _ := http.NewRequestWithContext(t.Context(), c.method, c.url, nil)
				if resp, err := client.Do(req); err == nil {
					resp.Body.Close()
				}
			}
			failed, outcomes := 0.0, map[string]float64{}
			for _, s := range gather(t, m)["gabion_calls_total"].GetMetric() {
				for _, l := range s.GetLabel() {
					if l.GetName() == "outcome" {
						outcomes[l.GetValue()] += s.GetCounter().GetValue()
						if !slices.Contains(catalog.NoFailures, l.GetValue()) {
							failed += s.GetCounter().GetValue()
						}
					}
				}
			}
			if failed != c.failed {
				t.Errorf("%v of 40 calls failed: %v", failed, outcomes)
			}
		})
	}
}
