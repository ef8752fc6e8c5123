// Package see_test shows that everything that tells of a program tells the same.
package see_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/contrib/gabionotel"
	"github.com/gabion-go/gabion/contrib/gabionprom"
	"github.com/gabion-go/gabion/dashboard"
	"github.com/gabion-go/gabion/gabionhttp"
	"github.com/gabion-go/gabion/gabionslog"
	"github.com/gabion-go/gabion/policy"
	"github.com/gabion-go/gabion/record"
)

// stormy is a server of which four of five answers are 503. It counts by itself.
type stormy struct {
	*httptest.Server
	requests atomic.Int64
	mu       sync.Mutex // guards what follows
	status   map[int]int64
	parents  map[string]int // by the traceparent's span
}

func startStorm(t *testing.T) *stormy {
	s := &stormy{status: map[int]int64{}, parents: map[string]int{}}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		code := http.StatusOK
		if s.requests.Add(1)%5 != 0 {
			code = http.StatusServiceUnavailable
		}
		s.mu.Lock()
		s.status[code]++
		if _, rest, ok := strings.Cut(strings.TrimPrefix(r.Header.Get("traceparent"), "00-"), "-"); ok {
			s.parents[rest[:16]]++
		}
		s.mu.Unlock()
		w.WriteHeader(code)
	}))
	t.Cleanup(s.Close)
	return s
}

// lines collects what is written.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// counts is what one reader says: requests by status, calls, and calls that ended well.
type counts struct {
	requests map[string]int64
	calls    int64
	good     int64
}

func (c counts) String() string {
	var b strings.Builder
	for _, code := range slices.Sorted(maps.Keys(c.requests)) {
		fmt.Fprintf(&b, "%s: %d, ", code, c.requests[code])
	}
	return fmt.Sprintf("%scalls: %d, good: %d", b.String(), c.calls, c.good)
}

func TestAllThatIsShownAgreesWithTheServer(t *testing.T) {
	server := startStorm(t)
	registry, err := gabion.NewRegistry(map[string]policy.Policy{"bank": {Retry: policy.Retry{Attempts: 3, Backoff: backoff.Const(time.Millisecond), Budget: policy.Budget{Ratio: 1}}}})
	if err != nil {
		t.Fatal(err)
	}
	bank, _ := registry.Get("bank")

	metrics := gabionprom.New(gabionprom.Config{Registry: registry})
	scraped := prometheus.NewRegistry()
	scraped.MustRegister(metrics)
	spans := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
	var logged, recorded lines
	page := dashboard.New(dashboard.Config{Registry: registry})
	defer page.Close()
	for _, o := range []gabion.Observer{
		metrics,
		gabionotel.New(gabionotel.Config{TracerProvider: provider, NoMetrics: true}),
		&gabionslog.Observer{Attempts: true, Logger: slog.New(slog.NewJSONHandler(&logged, &slog.HandlerOptions{Level: slog.LevelDebug}))},
		record.NewWriter(&recorded),
	} {
		defer registry.Observe(o)()
	}

	web := &http.Client{Transport: &gabionhttp.Transport{Dependency: bank, Base: &gabionotel.Transport{Propagator: propagation.TraceContext{}}}}
	var calls, good atomic.Int64
	var all sync.WaitGroup
	for range 6 {
		all.Go(func() {
			for range 60 {
				calls.Add(1)
				resp, err := web.Get(server.URL)
				if err != nil {
					continue
				}
				if resp.StatusCode == http.StatusOK {
					good.Add(1)
				}
				io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
		})
	}
	all.Wait()

	want := counts{requests: map[string]int64{}, calls: calls.Load(), good: good.Load()}
	for code, n := range server.status {
		want.requests[strconv.Itoa(code)] = n
	}
	if want.requests["503"] < 100 || want.good < 10 {
		t.Fatalf("that was no storm: %v", want)
	}
	for name, read := range map[string]func(*testing.T) counts{
		"the exposition": func(t *testing.T) counts { return ofExposition(t, scraped) },
		"spans":          func(t *testing.T) counts { return ofSpans(t, spans.GetSpans(), server.parents) },
		"the log":        func(t *testing.T) counts { return ofLog(t, &logged.b) },
		"the recording":  func(t *testing.T) counts { return ofRecording(t, &recorded.b) },
	} {
		if got := read(t); got.String() != want.String() {
			t.Errorf("%s: %s\nthe server: %s", name, got, want)
		}
	}
	shown, total := ofPage(t, page), bank.Stats().Totals
	if n := server.requests.Load(); shown.Calls != want.calls || shown.Attempts != n || total.Calls != want.calls || total.Attempts != n || total.Succeeded != want.good {
		t.Errorf("the page: %+v, Stats: %+v, the server: %d requests, %v", shown, total, n, want)
	}
}

// ofExposition reads what Prometheus would scrape over HTTP.
func ofExposition(t *testing.T, r *prometheus.Registry) counts {
	server := httptest.NewServer(promhttp.HandlerFor(r, promhttp.HandlerOpts{}))
	defer server.Close()
	resp, err := http.Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	c, retries := counts{requests: map[string]int64{}}, map[string]int64{}
	for text := bufio.NewScanner(resp.Body); text.Scan(); {
		series, value, _ := strings.Cut(text.Text(), "} ")
		n, _ := strconv.ParseFloat(value, 64)
		switch name, labels, _ := strings.Cut(series, "{"); name {
		case "gabion_attempts_total":
			c.requests[map[string]string{"success": "200", "server": "503"}[label(labels, "result")]] += int64(n)
		case "gabion_retries_total":
			retries[label(labels, "code")] += int64(n)
		case "gabion_calls_total":
			c.calls += int64(n)
			if label(labels, "outcome") == "ok" {
				c.good += int64(n)
			}
		}
	}
	if sent := c.requests["200"] + c.requests["503"]; retries["503"] != sent-c.calls || len(retries) != 1 {
		t.Errorf("retries by status: %v, of %d requests and %d calls", retries, sent, c.calls)
	}
	maps.DeleteFunc(c.requests, func(_ string, n int64) bool { return n == 0 })
	return c
}

func label(labels, name string) string {
	_, rest, _ := strings.Cut(labels, name+`="`)
	value, _, _ := strings.Cut(rest, `"`)
	return value
}

// ofSpans counts spans, and checks that each request carried the span of its attempt.
func ofSpans(t *testing.T, spans tracetest.SpanStubs, parents map[string]int) counts {
	c := counts{requests: map[string]int64{}}
	for _, s := range spans {
		at := map[string]string{}
		for _, a := range s.Attributes {
			at[string(a.Key)] = a.Value.String()
		}
		switch s.SpanKind {
		case trace.SpanKindClient:
			c.requests[at["gabion.code"]]++
			if id := s.SpanContext.SpanID().String(); parents[id] != 1 {
				t.Errorf("the span %s of an attempt was seen %d times by the server", id, parents[id])
			}
		case trace.SpanKindInternal:
			c.calls++
			if at["gabion.reason"] == "" {
				c.good++
			}
		}
	}
	return c
}

func ofLog(t *testing.T, text io.Reader) counts {
	c := counts{requests: map[string]int64{}}
	for in := bufio.NewScanner(text); in.Scan(); {
		var line struct{ Msg, Reason, Code string }
		if err := json.Unmarshal(in.Bytes(), &line); err != nil {
			t.Fatal(err)
		}
		switch line.Msg {
		case "gabion: attempt_settled":
			c.requests[line.Code]++
		case "gabion: returned":
			c.calls++
			if line.Reason == "" {
				c.good++
			}
		}
	}
	return c
}

func ofRecording(t *testing.T, text io.Reader) counts {
	c := counts{requests: map[string]int64{}}
	for e, err := range record.Read(text) {
		if err != nil {
			t.Fatal(err)
		}
		switch e.Kind {
		case policy.KindAttemptSettled:
			c.requests[e.Code]++
		case policy.KindReturned:
			c.calls++
			if e.Reason == policy.None {
				c.good++
			}
		}
	}
	return c
}

// ofPage reads what curl would.
func ofPage(t *testing.T, page http.Handler) (shown struct{ Calls, Attempts int64 }) {
	w := httptest.NewRecorder()
	page.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/api/v1/state", nil))
	var state struct {
		Tiles []struct {
			Name            string
			Calls, Attempts int64
		}
	}
	if err := json.Unmarshal(w.Body.Bytes(), &state); err != nil || len(state.Tiles) != 1 {
		t.Fatalf("%v: %s", err, w.Body)
	}
	shown.Calls, shown.Attempts = state.Tiles[0].Calls, state.Tiles[0].Attempts
	return shown
}
