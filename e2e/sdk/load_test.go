package sdk

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/mccutchen/go-httpbin/v2/httpbin"
	"github.com/rs/zerolog"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/gabionhttp"
	"github.com/gabion-go/gabion/policy"
)

// What every load has: 100 calls a second for two seconds, each with a deadline.
const (
	calls   = 200
	every   = 10 * time.Millisecond
	oneCall = time.Second
)

// counted is a transport that counts what it sends.
type counted struct {
	http.RoundTripper
	sent atomic.Int64
}

// RoundTrip implements http.RoundTripper.
func (c *counted) RoundTrip(req *http.Request) (*http.Response, error) {
	c.sent.Add(1)
	return c.RoundTripper.RoundTrip(req)
}

// load makes the calls, each to url, and returns how many brought a whole answer. It
// fails the test if some have not returned long after their deadline.
func load(t *testing.T, rt http.RoundTripper, url string) (ok int64) {
	client := &http.Client{Transport: rt}
	var good, out atomic.Int64
	var wg sync.WaitGroup
	tick := time.NewTicker(every)
	defer tick.Stop()
	for range calls {
		<-tick.C
		out.Add(1)
		wg.Go(func() {
			defer out.Add(-1)
			ctx, cancel := context.WithTimeout(context.Background(), oneCall)
			defer cancel()
			if get(ctx, client, url) {
				good.Add(1)
			}
		})
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(20 * time.Second): // for a machine that is busy: what hangs, hangs for ever
		t.Errorf("%d calls have not returned 20 s after their deadlines", out.Load())
	}
	return good.Load()
}

func get(ctx context.Context, c *http.Client, url string) bool {
	req, err := http.NewRequestWithContext(ctx, "GET", url, nil)
	if err != nil {
		return false
	}
	resp, err := c.Do(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return err == nil && resp.StatusCode < 400
}

// beside runs the load through gabion's zero policy and, at the same time, through a
// plain client with the same deadlines, each against a server of its own, and holds
// gabion to what must be true whatever the fault is.
func beside(t *testing.T, plainURL, gabionURL string, slack int64) {
	plain := &counted{RoundTripper: &http.Transport{DisableKeepAlives: true}}
	below := &counted{RoundTripper: &http.Transport{DisableKeepAlives: true}}
	d := gabion.New("remote", policy.Policy{})
	var plainOK, gabionOK int64
	var wg sync.WaitGroup
	wg.Go(func() { plainOK = load(t, plain, plainURL) })
	wg.Go(func() { gabionOK = load(t, &gabionhttp.Transport{Dependency: d, Base: below}, gabionURL) })
	wg.Wait()
	stats := d.Stats()
	t.Logf("plain %d of %d, %d sent; gabion %d, %d sent; %+v", plainOK, calls, plain.sent.Load(), gabionOK, below.sent.Load(), stats.Budget)
	if gabionOK < plainOK-slack {
		t.Errorf("%d calls succeeded, and %d with a plain client", gabionOK, plainOK)
	}
	if n := stats.Bulkhead.InUse; n != 0 {
		t.Errorf("%d slots are taken without a call", n)
	}
	// Three for each ten successes, and what a quiet client keeps. Part of a re-send is granted
	// with that probability, and one that succeeds gives back its cost, so that some are added for
	// chance. One connection in five that fails, and is sent again each time, makes 250 on average.
	if most := int64(calls + 3*calls/10 + 5 + 10); below.sent.Load() > most {
		t.Errorf("%d requests were sent for %d calls, at most %d are allowed", below.sent.Load(), calls, most)
	}
}

// TestToxiproxysToxics: the faults of Shopify's Toxiproxy, on one connection in five, or on
// all of them where they only slow down. The zero policy.
func TestToxiproxysToxics(t *testing.T) {
	if testing.Short() {
		t.Skip("-short leaves out 20 s of load")
	}
	t.Parallel()
	answer := strings.Repeat("0123456789abcdef", 128)
	tests := []struct{ name, toxic string }{
		{"no toxic: healthy traffic is unharmed", ""},
		{"latency", `{"type":"latency","toxicity":1,"attributes":{"latency":150,"jitter":100}}`},
		{"bandwidth", `{"type":"bandwidth","toxicity":1,"attributes":{"rate":64}}`},
		{"slow_close", `{"type":"slow_close","toxicity":0.2,"attributes":{"delay":300}}`},
		{"timeout", `{"type":"timeout","toxicity":0.2,"attributes":{"timeout":200}}`},
		{"timeout that never ends", `{"type":"timeout","toxicity":0.1,"attributes":{"timeout":0}}`},
		{"reset_peer", `{"type":"reset_peer","toxicity":0.2,"attributes":{"timeout":0}}`},
		{"slicer", `{"type":"slicer","toxicity":1,"attributes":{"average_size":256,"size_variation":64,"delay":2000}}`},
		{"limit_data", `{"type":"limit_data","toxicity":0.2,"attributes":{"bytes":700}}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			beside(t, poisoned(t, answer, tt.toxic).url, poisoned(t, answer, tt.toxic).url, calls/10)
		})
	}
	// Of a longer outage the breaker opens, and stays so for half a minute: then the plain
	// client is the first to be served again, which is what a breaker is for.
	t.Run("down for a moment", func(t *testing.T) {
		a, b := poisoned(t, answer, ""), poisoned(t, answer, "")
		for _, p := range []*poison{a, b} {
			time.AfterFunc(time.Second, p.proxy.Stop)
			time.AfterFunc(1200*time.Millisecond, func() { p.proxy.Start() })
		}
		beside(t, a.url, b.url, calls/10)
	})
}

// poison is a server behind a toxic.
type poison struct {
	proxy *toxiproxy.Proxy
	url   string
}

func poisoned(t *testing.T, answer, toxic string) *poison {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, answer) }))
	t.Cleanup(s.Close)
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	p := toxiproxy.NewProxy(server, t.Name(), "127.0.0.1:0", strings.TrimPrefix(s.URL, "http://"))
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Stop)
	if toxic != "" {
		if _, err := p.Toxics.AddToxicJson(strings.NewReader(toxic)); err != nil {
			t.Fatal(err)
		}
	}
	return &poison{p, "http://" + p.Listen}
}

// TestHTTPBin: what go-httpbin serves. The zero policy.
func TestHTTPBin(t *testing.T) {
	if testing.Short() {
		t.Skip("-short leaves out 20 s of load")
	}
	t.Parallel()
	s := httptest.NewServer(httpbin.New())
	t.Cleanup(s.Close)
	tests := []struct{ name, path string }{
		{"healthy", "/get"},
		{"one answer in ten is 503", "/status/200:0.9,503:0.1"},
		{"one answer in ten is 429", "/status/200:0.9,429:0.1"},
		{"one answer in five is 500", "/unstable?failure_rate=0.2"},
		{"every answer is 503", "/status/503"},
		{"every answer takes 300 ms", "/delay/300ms"},
		{"every answer takes longer than the caller waits", "/delay/3s"},
		{"answers that drip for 500 ms", "/drip?duration=500ms&numbytes=20&delay=0s"},
		{"answers that drip longer than the caller waits", "/drip?duration=5s&numbytes=50&delay=0s"},
		{"streams of lines", "/stream/20"},
		{"streams of bytes", "/stream-bytes/10000"},
		{"events", "/sse?count=5&duration=400ms"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			beside(t, s.URL+tt.path, s.URL+tt.path, calls/10)
		})
	}
}
