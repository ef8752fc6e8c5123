package proxy

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// The provider is down, and all local clients call it through one proxy. However many attempts
// the policy allows, the provider gets a tenth more than they ask for and the floor: the clients
// share one budget. The breaker is off, as it would keep away nearly everything.
func TestStorm(t *testing.T) {
	long(t, "an outage of some seconds")
	const outage, perSecond, floor, start = 5 * time.Second, 200, 1.0, 10.0
	load := map[int]float64{}
	var mu sync.Mutex
	var storms sync.WaitGroup
	for _, attempts := range []int{3, 8} {
		storms.Go(func() {
			var came, asked atomic.Int64
			provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				came.Add(1)
				w.WriteHeader(http.StatusServiceUnavailable)
			}))
			defer provider.Close()
			at := front(t, egress(provider.URL, fmt.Sprintf("retry: {attempts: %d, backoff: {base: 20ms, cap: 100ms}}, breaker: off, bulkhead: off", attempts)))
			client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100}}
			defer client.CloseIdleConnections()
			var calls sync.WaitGroup
			tick := time.NewTicker(time.Second / perSecond)
			defer tick.Stop()
			for over := time.After(outage); ; {
				select {
				case <-tick.C:
					calls.Go(func() {
						asked.Add(1)
						if resp, err := client.Get("http://" + at); err == nil {
							_, _ = io.Copy(io.Discard, resp.Body)
							resp.Body.Close()
						}
					})
					continue
				case <-over:
				}
				break
			}
			calls.Wait()
			mu.Lock()
			defer mu.Unlock()
			load[attempts] = float64(came.Load()) / float64(asked.Load())
			t.Logf("%d attempts allowed: %d asked for, %d came to the provider: %.3f", attempts, asked.Load(), came.Load(), load[attempts])
			if most := 1.1*float64(asked.Load()) + floor*outage.Seconds() + start; float64(came.Load()) > most {
				t.Errorf("%d attempts: the provider got %d, and %.0f is the most", attempts, came.Load(), most)
			}
		})
	}
	storms.Wait()
	if d := load[8] - load[3]; d > 0.03 || d < -0.03 {
		t.Errorf("the load is %.3f with 3 attempts and %.3f with 8", load[3], load[8])
	}
}
