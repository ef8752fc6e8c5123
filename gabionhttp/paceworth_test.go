package gabionhttp_test

import (
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/gabionhttp"
	"github.com/gabion-go/gabion/policy"
)

// gruff refuses a part of the requests at random, or what is above a limit, and asks for a second.
type gruff struct {
	status int
	part   float64
	limit  float64 // a second

	mu   sync.Mutex
	draw *rand.Rand
	room float64
	at   time.Time
	sent int
}

func (m *gruff) RoundTrip(req *http.Request) (*http.Response, error) {
	m.mu.Lock()
	m.sent++
	refused := m.draw.Float64() < m.part
	if m.limit > 0 {
		m.room = min(m.room+m.limit*time.Since(m.at).Seconds(), m.limit/10)
		if m.at = time.Now(); m.room < 1 {
			refused = true
		} else {
			m.room--
		}
	}
	m.mu.Unlock()
	time.Sleep(20 * time.Millisecond)
	resp := &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("")), Request: req}
	if refused {
		resp.StatusCode = m.status
		resp.Header.Set("Retry-After", "1")
	}
	return resp, nil
}

// TestRetryAfterOfSomeCostsOthersNothing: for two minutes a part of the answers is refused with a Retry-After. Where that part
// is the same at any rate, calls must not be spaced until hardly any is made. Where it is a limit, fewer are sent.
func TestRetryAfterOfSomeCostsOthersNothing(t *testing.T) {
	for _, c := range []struct {
		fact        string
		status      int
		part, limit float64
		answered    float64 // of all calls, at least; a client without gabion has 1 - part, or limit / 100; chance takes half of it at most
		sent        float64 // for each call, at most
	}{
		{fact: "one of three replicas has no room", status: 503, part: 1. / 3, answered: 0.5, sent: 1.3},
		{fact: "one of two has no room", status: 503, part: 0.5, answered: 0.25, sent: 1.3},
		{fact: "one of two keys is used up", status: 429, part: 0.5, answered: 0.25, sent: 1.3},
		{fact: "a server has room for half", status: 503, limit: 50, answered: 0.48, sent: 0.9},
		{fact: "a quota for a fifth", status: 429, limit: 20, answered: 0.19, sent: 0.7},
	} {
		t.Run(c.fact, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &gruff{status: c.status, part: c.part, limit: c.limit, draw: rand.New(rand.NewPCG(3, 1)), at: time.Now()}
				client := &http.Client{Transport: &gabionhttp.Transport{Dependency: gabion.New("remote", policy.Policy{}), Base: m}}
				const calls = 120 * 100
				var mu sync.Mutex
				var wg sync.WaitGroup
				good := 0
				for range calls {
					wg.Go(func() {
						resp, err := client.Get("http://remote/")
						if err != nil {
							return
						}
						resp.Body.Close()
						mu.Lock()
						defer mu.Unlock()
						if resp.StatusCode == 200 {
							good++
						}
					})
					time.Sleep(10 * time.Millisecond)
				}
				wg.Wait()
				answered, sent := float64(good)/calls, float64(m.sent)/calls
				t.Logf("answered %.1f %%, %.2f sent for each call", 100*answered, sent)
				if answered < c.answered || sent > c.sent {
					t.Errorf("answered %.1f %%, at least %.0f %% must be; %.2f sent for each call, at most %.1f may be", 100*answered, 100*c.answered, sent, c.sent)
				}
			})
		})
	}
}
