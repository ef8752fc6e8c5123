package gabionhttp_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/gabionhttp"
	"github.com/gabion-go/gabion/internal/breaker"
	"github.com/gabion-go/gabion/policy"
)

// What an Admission refuses, a Transport takes for what it is: a server that works, has no
// room, and did nothing.
func TestWhatATransportMakesOfARefusal(t *testing.T) {
	refused := func(more ...string) map[string]string {
		h := map[string]string{gabionhttp.HeaderRefused: "queue-full", "Retry-After": "1"}
		for i := 0; i < len(more); i += 2 {
			h[more[i]] = more[i+1]
		}
		return h
	}
	for _, c := range []struct {
		fact     string
		method   string
		trust    policy.Trust
		status   int
		header   map[string]string
		attempts int64 // of 20 calls, each of 3 attempts at most
		open     bool
	}{
		{"an overloaded server is not asked again, and opens no breaker", "GET", policy.Internal, 503, refused("X-Should-Retry", "false"), 1, false},
		{"one tenant's request may be sent again", "GET", policy.Internal, 503, refused(), 3, false},
		{"even if it is unsafe, since nothing was done", "POST", policy.Internal, 503, refused(), 3, false},
		{"but a vendor's gateway may pass on what another server said", "POST", policy.External, 503, refused(), 1, false},
		{"a deadline that has passed is a timeout like others", "GET", policy.Internal, 504, map[string]string{gabionhttp.HeaderRefused: "expired", "X-Should-Retry": "false"}, 1, true},
		{"what gabion gave up on may have been done", "POST", policy.Internal, 503, refused(gabionhttp.HeaderGaveUp, "attempts_exhausted; attempts=3"), 1, true},
		{"any other 503 is an outage", "GET", policy.Internal, 503, map[string]string{"X-Should-Retry": "false"}, 1, true},
	} {
		t.Run(c.fact, func(t *testing.T) {
			asked := int64(0)
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				asked++
				for name, value := range c.header {
					w.Header().Set(name, value)
				}
				w.Header().Del("Retry-After") // the client would wait for it
				w.WriteHeader(c.status)
			}))
			defer server.Close()
			dep := gabion.New("server", policy.Policy{
				Trust: c.trust,
				Retry: policy.Retry{Backoff: backoff.Const(0), Budget: policy.Budget{Off: true}},
				Pace:  policy.Pace{Off: true}, Breaker: policy.Breaker{MinCalls: 20},
			})
			client := &http.Client{Transport: &gabionhttp.Transport{Dependency: dep}}
			defer client.CloseIdleConnections()
			r, _ := http.NewRequest(c.method, server.URL, strings.NewReader(""))
			resp, err := client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			if asked != c.attempts {
				t.Errorf("%d attempts, want %d", asked, c.attempts)
			}
			for range 30 {
				if resp, err := client.Get(server.URL); err == nil {
					resp.Body.Close()
				}
			}
			if got := laneOf(dep).State != breaker.Closed; got != c.open {
				t.Errorf("the breaker is open: %v", got)
			}
		})
	}
}
