package gabionhttp_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/gabionhttp"
	"github.com/gabion-go/gabion/internal/testrace"
	"github.com/gabion-go/gabion/policy"
)

// stub answers without a network. Like net/http it asks its context for Done.
type stub struct{}

func (stub) RoundTrip(req *http.Request) (*http.Response, error) {
	select {
	case <-req.Context().Done():
		return nil, req.Context().Err()
	default:
	}
	return &http.Response{
		StatusCode: 200, Request: req, Header: http.Header{}, ContentLength: 13,
		Body: io.NopCloser(strings.NewReader("hello, world\n")),
	}, nil
}

// The full stack is the zero policy: deadlines, retry with its budget, breaker,
// bulkhead. (SPEC L4: at most 5 allocations more than WithTimeout.)
func clients(base http.RoundTripper) []struct {
	name string
	get  func(url string) error
} {
	bare := &http.Client{Transport: base}
	full := &http.Client{Transport: &gabionhttp.Transport{Dependency: gabion.New("bench", policy.Policy{}), Base: base}}
	return []struct {
		name string
		get  func(url string) error
	}{
		{"bare", func(url string) error { return get(context.Background(), bare, url) }},
		{"WithTimeout", func(url string) error {
			ctx, cancel := context.WithTimeout(context.Background(), 4*time.Second)
			defer cancel()
			return get(ctx, bare, url)
		}},
		{"gabion", func(url string) error { return get(context.Background(), full, url) }},
	}
}

func get(ctx context.Context, c *http.Client, url string) error {
	req, err := http.NewRequestWithContext(ctx, "GET", url, nil)
	if err != nil {
		return err
	}
	resp, err := c.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}

func BenchmarkStub(b *testing.B) {
	for _, c := range clients(stub{}) {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := c.get("http://stub/"); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkLoopback(b *testing.B) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "hello, world\n")
	}))
	defer server.Close()
	base := &http.Transport{MaxIdleConnsPerHost: 16}
	defer base.CloseIdleConnections()
	for _, c := range clients(base) {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetParallelism(8) // 16 in flight on two CPUs
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if err := c.get(server.URL); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}

// A plain call allocates at most three times more than a deadline alone.
func TestAllocationsOfAPlainCall(t *testing.T) {
	got := map[string]float64{}
	for _, c := range clients(stub{}) {
		got[c.name] = testing.AllocsPerRun(500, func() {
			if err := c.get("http://stub/"); err != nil {
				t.Fatal(err)
			}
		})
	}
	t.Log(got)
	if !testrace.Enabled && got["gabion"] > got["WithTimeout"]+3 { // it allocates
		t.Errorf("a call allocates %.0f times, and with a deadline alone %.0f times", got["gabion"], got["WithTimeout"])
	}
}
