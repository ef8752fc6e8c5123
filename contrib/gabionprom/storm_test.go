package gabionprom_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/contrib/gabionprom"
	"github.com/gabion-go/gabion/gabionhttp"
	"github.com/gabion-go/gabion/policy"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// registry makes a registry of dependencies, and the metrics of it.
func registry(t testing.TB, c gabionprom.Config, policies map[string]policy.Policy) (*gabion.Registry, *gabionprom.Metrics) {
	t.Helper()
	r, err := gabion.NewRegistry(policies)
	if err != nil {
		t.Fatal(err)
	}
	c.Registry = r
	return r, gabionprom.New(c)
}

// scraped is what a server that scrapes gets, by name.
type scraped map[string]*dto.MetricFamily

// scrape reads the metrics over HTTP, as a server does.
func scrape(t testing.TB, m prometheus.Collector) scraped {
	t.Helper()
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(m)
	s := httptest.NewServer(promhttp.HandlerFor(reg, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError}))
	defer s.Close()
	resp, err := s.Client().Get(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(resp.Body)
		t.Fatalf("%s: %s", resp.Status, body)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return families
}

// gather reads the metrics without a server.
func gather(t testing.TB, m prometheus.Collector) scraped {
	t.Helper()
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(m)
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := scraped{}
	for _, f := range families {
		got[f.GetName()] = f
	}
	return got
}

// sum adds up the series of a metric whose labels are so. Labels are "name=value". Of
// histograms it adds up the counts.
func (s scraped) sum(name string, labels ...string) (sum float64) {
	for _, m := range s[name].GetMetric() {
		if matches(m, labels) {
			sum += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return sum
}

func matches(m *dto.Metric, labels []string) bool {
	for _, want := range labels {
		name, value, _ := strings.Cut(want, "=")
		got := ""
		for _, l := range m.GetLabel() {
			if l.GetName() == name {
				got = l.GetValue()
			}
		}
		if got != value {
			return false
		}
	}
	return true
}

// tally counts events by their names.
type tally struct {
	mu sync.Mutex
	n  map[string]int
}

func (y *tally) add(what string) {
	y.mu.Lock()
	defer y.mu.Unlock()
	if y.n == nil {
		y.n = map[string]int{}
	}
	y.n[what]++
}

// TestExpositionAgreesWithTheServer has real calls over HTTP in a storm of 503. The
// server counts what arrives, by attempt, and the caller counts what came of its calls.
func TestExpositionAgreesWithTheServer(t *testing.T) {
	var server, caller tally
	var bad atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		server.add(r.Header.Get(gabionhttp.HeaderAttempt))
		if rand.Float64() < float64(bad.Load())/100 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer s.Close()
	reg, metrics := registry(t, gabionprom.Config{}, map[string]policy.Policy{"shop": {
		Trust: policy.Internal, // it gets the attempt's number
		// Nothing here may depend on how quick this machine is.
		Timeout: policy.Timeout{Call: 2 * time.Minute, Attempt: time.Minute},
		Retry:   policy.Retry{Attempts: 4, Backoff: backoff.Full(time.Millisecond, 2*time.Millisecond)},
	}})
	dep, _ := reg.Get("shop")
	client := &http.Client{Transport: &gabionhttp.Transport{Dependency: dep, Operation: func(r *http.Request) string { return r.Pattern }}}
	call := func() {
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL, nil)
		req.Pattern = "GET /cart"
		resp, err := client.Do(req)
		if err != nil {
			caller.add("error")
			return
		}
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		caller.add(fmt.Sprint(resp.StatusCode))
	}
	for _, phase := range []int{0, 80, 0} {
		bad.Store(int64(phase))
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				for range 50 {
					call()
				}
			})
		}
		all.Wait()
	}
	s.CloseClientConnections()

	got := scrape(t, metrics)
	const calls = 3 * 8 * 50
	total := 0
	for _, n := range server.n {
		total += n
	}
	for _, c := range []struct {
		what      string
		got, want float64
	}{
		{"calls", got.sum("gabion_calls_total", "dependency=shop", "operation=GET /cart"), calls},
		{"calls that succeeded", got.sum("gabion_calls_total", "outcome=ok"), float64(caller.n["200"])},
		{"durations of calls", got.sum("gabion_call_duration_seconds"), calls},
		{"attempts", got.sum("gabion_attempts_total"), float64(total)},
		{"first attempts", got.sum("gabion_attempts_total", "kind=first"), float64(server.n["1"])},
		{"retries", got.sum("gabion_attempts_total", "kind=retry"), float64(total - server.n["1"])},
		{"retries by code", got.sum("gabion_retries_total", "code=503", "operation=GET /cart"), float64(total - server.n["1"])},
		{"durations of attempts", got.sum("gabion_attempt_duration_seconds"), float64(total)},
		{"deadlines", got.sum("gabion_deadline_remaining_seconds"), float64(total)},
		{"calls that sent a retry", got.sum("gabion_retried_calls_total"), float64(server.n["2"])},
		{"successes by attempts", got.sum("gabion_attempts_until_success"), float64(caller.n["200"])},
		{"hedges", got.sum("gabion_hedges_total"), 0},
	} {
		if c.got != c.want {
			t.Errorf("%s: %v, want %v", c.what, c.got, c.want)
		}
	}
	if server.n["2"] == 0 || caller.n["200"] == calls {
		t.Errorf("there was no storm: server %v, caller %v", server.n, caller.n)
	}
	if off := got.sum("gabion_retries_suppressed_total"); off == 0 {
		t.Error("no retry was suppressed, but the budget can't have sufficed")
	}
	if level := got["gabion_retry_budget_tokens"].GetMetric(); len(level) != 1 {
		t.Errorf("levels of the budget: %v", level)
	}
}
