package gabionotel_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/contrib/gabionotel"
	"github.com/gabion-go/gabion/gabionhttp"
	"github.com/gabion-go/gabion/policy"
)

// In a storm in which four of five answers are failures, spans and metrics say what the
// server counted by itself: each request is one attempt's, and none is missing.
func TestSpansAndMetricsAgreeWithTheServerInAStorm(t *testing.T) {
	var mu sync.Mutex
	requests, statuses := map[string]int{}, map[int]int{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status := http.StatusOK
		if rand.IntN(5) > 0 {
			status = http.StatusServiceUnavailable
		}
		mu.Lock()
		requests[r.Header.Get("traceparent")]++
		statuses[status]++
		mu.Unlock()
		w.WriteHeader(status)
	}))
	t.Cleanup(s.Close)

	x, reader := newExporter(), sdkmetric.NewManualReader()
	o := gabionotel.New(gabionotel.Config{TracerProvider: x.provider, MeterProvider: sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))})
	d := gabion.New("shop", policy.Policy{
		Retry:   policy.Retry{Attempts: 3, Backoff: backoff.Const(0), Budget: policy.Budget{Shape: policy.BudgetWindow, Floor: 20}, Hold: policy.Off},
		Breaker: policy.Breaker{Off: true},
	}, gabion.WithObserver(o))
	base := &gabionotel.Transport{Propagator: traceContext}
	client := &http.Client{Transport: &gabionhttp.Transport{Dependency: d, Base: base}}
	const callers, each = 4, 50
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for range each {
				resp, err := client.Get(s.URL)
				if err != nil {
					t.Error(err)
					return
				}
				io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
		})
	}
	all.Wait()
	client.CloseIdleConnections()

	sent := 0
	for id, n := range requests {
		sent += n
		if n != 1 {
			t.Errorf("%d requests have the traceparent %q", n, id)
		}
	}
	attempts, byCode := x.named("shop GET attempt"), map[string]int{}
	for _, a := range attempts {
		byCode[value(a, "http.response.status_code")]++
		if requests[parent(a)] != 1 {
			t.Errorf("no request has the traceparent of %s", a.SpanContext.SpanID())
		}
	}
	if calls := len(x.named("shop GET")); calls != callers*each || len(attempts) != sent {
		t.Errorf("%d calls and %d attempts are spans, of %d calls and %d requests", calls, len(attempts), callers*each, sent)
	}
	for status, n := range statuses {
		if byCode[fmt.Sprint(status)] != n {
			t.Errorf("%d spans have the status %d, and %d answers had", byCode[fmt.Sprint(status)], status, n)
		}
	}
	counted := map[string]int{}
	for _, line := range read(t, reader) {
		name, _, _ := strings.Cut(line, " ")
		var n int
		fmt.Sscan(line[strings.LastIndex(line, " "):], &n)
		counted[name] += n
	}
	if counted["gabion.calls"] != callers*each || counted["gabion.attempts"] != sent {
		t.Errorf("%d calls and %d attempts are counted, of %d calls and %d requests", counted["gabion.calls"], counted["gabion.attempts"], callers*each, sent)
	}
	if sent <= callers*each {
		t.Errorf("nothing was repeated: %d requests", sent)
	}
}
