package gabionhttp_test

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/gabionhttp"
	"github.com/gabion-go/gabion/policy"
)

// moody answers after a while, and refuses one request in ten at random with 429.
type moody struct {
	takes time.Duration
	after string // Retry-After of what it refuses; "" for none
	first []int  // statuses of the first answers

	mu   sync.Mutex
	draw *rand.Rand
	n    int
}

func (m *moody) RoundTrip(req *http.Request) (*http.Response, error) {
	m.mu.Lock()
	status := 200
	if m.draw.Float64() < 0.1 {
		status = 429
	}
	if m.n < len(m.first) {
		status = m.first[m.n]
	}
	m.n++
	m.mu.Unlock()
	select {
	case <-time.After(m.takes):
	case <-req.Context().Done():
		return nil, req.Context().Err()
	}
	resp := &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("")), Request: req}
	if status == 429 && m.after != "" {
		resp.Header.Set("Retry-After", m.after)
	}
	return resp, nil
}

// TestAFewRefusalsPaceNobodyIntoLateness: a new client makes 100 calls a second, each with a
// second to spare, and one answer in ten is 429. No call is late because others were refused,
// but those that come while nothing has succeeded yet and a second was asked for.
func TestAFewRefusalsPaceNobodyIntoLateness(t *testing.T) {
	tests := []struct {
		name  string
		first []int // of 500, the first answers
		after string
		late  int // at the most
	}{
		{name: "as it comes"},
		{name: "the first is refused", first: []int{429}},
		{name: "the second is refused", first: []int{200, 429}},
		// A third and a fourth before sixteen succeeded: for a second calls are spaced, and those
		// whose answer would not come in time after their wait are refused.
		{name: "the first two are refused", first: []int{429, 429, 200}, late: 12},
		{name: "the tenth is refused", first: []int{200, 200, 200, 200, 200, 200, 200, 200, 200, 429}},
		{name: "as it comes, with a time", after: "1", first: []int{200}},
		{name: "the second is refused, with a time", after: "1", first: []int{200, 429}},
		{name: "the first is refused, with a time", after: "1", first: []int{429, 200}, late: 100},
	}
	for _, tt := range tests {
		for _, takes := range []time.Duration{time.Millisecond, 35 * time.Millisecond} {
			t.Run(tt.name+", answers take "+takes.String(), func(t *testing.T) {
				if takes > 10*time.Millisecond { // the successes that are on their way tell soon
					tt.late = min(tt.late, 12)
				}
				for seed := range uint64(8) {
					synctest.Test(t, func(t *testing.T) {
						m := &moody{takes: takes, after: tt.after, first: tt.first, draw: rand.New(rand.NewPCG(seed, 1))}
						late, ok := crowd(t, m)
						if late > tt.late || ok < 425-tt.late {
							t.Errorf("seed %d: %d of 500 calls were late, at most %d may be; %d succeeded", seed, late, tt.late, ok)
						}
					})
				}
			})
		}
	}
}

// TestAHostThatRefusesEverythingIsPacedBesideAHealthyOne: 429 without a time, of one host of
// two. What the other answers well says nothing of it.
func TestAHostThatRefusesEverythingIsPacedBesideAHealthyOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var refused atomic.Int64
		rt := roundTripper(func(req *http.Request) (*http.Response, error) {
			if req.URL.Host == "full" {
				refused.Add(1)
				return answer(req, 429, ""), nil
			}
			return answer(req, 200, ""), nil
		})
		c, _ := client(t, policy.Policy{Retry: policy.Retry{Attempts: 1}}, rt)
		var wg sync.WaitGroup
		for i := range 100 {
			wg.Go(func() {
				resp, err := c.Get([]string{"http://full", "http://free"}[i%2])
				if err == nil {
					resp.Body.Close()
				} else if i%2 == 1 {
					t.Errorf("the healthy host: %v", err)
				}
			})
			time.Sleep(10 * time.Millisecond)
		}
		if n := refused.Load(); n > 5 {
			t.Errorf("the host that refuses everything got %d of 50 calls within a second", n)
		}
		wg.Wait()
	})
}

// crowd makes 500 calls in 5 s and returns how many were kept from being sent in time,
// and how many succeeded.
func crowd(t *testing.T, base http.RoundTripper) (late, ok int) {
	d := gabion.New("remote", policy.Policy{})
	client := &http.Client{Transport: &gabionhttp.Transport{Dependency: d, Base: base}}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range 500 {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			var v gabionhttp.LastVerdict
			req, _ := http.NewRequestWithContext(gabionhttp.WithVerdict(ctx, &v), "GET", "http://remote/", nil)
			resp, err := client.Do(req)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case errors.Is(err, policy.Paced), v.Attempts() == 0:
				late++
			case err == nil && resp.StatusCode == 200:
				ok++
			}
			if err == nil {
				resp.Body.Close()
			}
		})
		time.Sleep(10 * time.Millisecond)
	}
	wg.Wait()
	return late, ok
}
