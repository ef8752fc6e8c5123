package see_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/gabion-go/gabion/contrib/gabionprom"
	"github.com/gabion-go/gabion/internal/recording"
	"github.com/gabion-go/gabion/internal/testrace"
	"github.com/gabion-go/gabion/lab"
	"github.com/gabion-go/gabion/policy"
)

// The worlds of which metrics are replayed: what is true of each is what the lab was told.
var pastWorlds = []struct{ name, faults string }{
	{"nothing wrong", ""},
	{"errors for a tenth", "faults:\n  - {kind: errors, service: db, at: 1m, for: 1m, share: 10%, status: 503}\n"},
	{"slower", "faults:\n  - {kind: slow, service: db, at: 1m, for: 1m, factor: 4, ramp: 20s}\n"},
	{"resets", "faults:\n  - {kind: reset, service: db, at: 1m, for: 40s, share: 30%}\n"},
}

// What gabion had as its policy, and what a client without gabion had.
const (
	gabionHad = "db: {safe: true, timeout: {call: 2s, attempt: 800ms}}"
	plainHad  = "db: {safe: true, timeout: {call: 2s, attempt: 800ms}, retry: off, breaker: off}"
)

// The metrics that a real registry of Prometheus has at virtual times, asked for as a range, are replayed: under the
// policy that was in force the replay agrees with what happened, by the command's own bounds (5 points, 15 %).
func TestMetricsOfARegistryAreReplayed(t *testing.T) {
	if testing.Short() {
		t.Skip("long: it builds the command and runs worlds of three minutes")
	}
	testrace.Serial(t)
	command := filepath.Join(t.TempDir(), "gabion")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", command, "github.com/gabion-go/gabion/cmd/gabion").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, exporter := range []struct {
		name, policy string
		make         func() collector
		args         []string
	}{
		{"gabionprom", gabionHad, func() collector { return ours{gabionprom.New(gabionprom.Config{})} }, []string{"--dependency", "db"}},
		{"OpenTelemetry", plainHad, openTelemetry, []string{"--policy", "db"}},
		{"gRPC", plainHad, grpcMiddleware, []string{"--policy", "db"}},
		{"Istio", plainHad, istio, []string{"--policy", "db"}},
		{"own", plainHad, own, []string{"--policy", "db", "--requests", "backend_requests_total", "--durations", "backend_request_ms", "--status", "result", "--by", "backend"}},
	} {
		for _, w := range pastWorlds {
			t.Run(exporter.name+"/"+w.name, func(t *testing.T) {
				dir := t.TempDir()
				file := filepath.Join(dir, "metrics.json")
				calls, answered, p99 := rangeOfWorld(t, w.name, w.faults, exporter.policy, exporter.make(), file)
				config := filepath.Join(dir, "gabion.yaml")
				if err := os.WriteFile(config, []byte("version: 1\ndependencies:\n  "+exporter.policy+"\n"), 0o600); err != nil {
					t.Fatal(err)
				}
				replay := exec.CommandContext(t.Context(), command, append([]string{"lab", "replay", file, "--config", config}, exporter.args...)...)
				out, err := replay.CombinedOutput()
				if err != nil || !strings.HasPrefix(string(out), "The replay agrees with what happened.") {
					t.Errorf("%v\n%s", err, out)
				}
				holdsAgainst(t, string(out), calls, answered, p99)
			})
		}
	}
}

// holdsAgainst reads the row of the whole, and holds its replay against what the lab knows.
func holdsAgainst(t *testing.T, out string, calls int, answered float64, p99 time.Duration) {
	t.Helper()
	for line := range strings.Lines(out) {
		f := strings.Fields(line)
		if len(f) < 8 || f[0] != "whole" {
			continue
		}
		// A series that is not there before its first request lacks its first step, 1 of 36.
		if read, err := strconv.Atoi(f[1]); err != nil || math.Abs(float64(read-calls)) > 0.05*float64(calls) {
			t.Errorf("%s calls were read, and there were %d", f[1], calls)
		}
		share, err := strconv.ParseFloat(strings.TrimSuffix(f[3], "%"), 64)
		took, err2 := time.ParseDuration(f[7])
		if err != nil || err2 != nil {
			t.Fatal(line)
		}
		t.Logf("answered %.1f%%, replayed %.1f%%; p99 %s, replayed %s", answered, share, p99.Round(time.Millisecond), took)
		if math.Abs(share-answered) > 5 || math.Abs(took.Seconds()/p99.Seconds()-1) > 0.15 {
			t.Errorf("the replay has %.1f%% answered and a p99 of %s, and in truth it was %.1f%% and %s", share, took, answered, p99)
		}
		return
	}
	t.Errorf("there is no row of the whole in\n%s", out)
}

// A collector counts events, as an exporter does.
type collector interface {
	prometheus.Collector
	event(e policy.Event)
}

// ours is gabionprom.
type ours struct{ *gabionprom.Metrics }

func (o ours) event(e policy.Event) { o.Observe(context.Background(), e) }

// theirs counts the requests of clients without gabion.
type theirs struct {
	prometheus.Collector
	settled func(e *policy.Event, status int)
}

func (c theirs) event(e policy.Event) {
	if e.Kind != policy.KindAttemptSettled {
		return
	}
	status, _ := strconv.Atoi(e.Code)
	if e.Class == policy.ClassSuccess {
		status = 200
	}
	c.settled(&e, status)
}

// several are the collectors of one exporter.
type several []prometheus.Collector

func (s several) Describe(to chan<- *prometheus.Desc) {
	for _, c := range s {
		c.Describe(to)
	}
}

func (s several) Collect(to chan<- prometheus.Metric) {
	for _, c := range s {
		c.Collect(to)
	}
}

// Finer than the usual buckets: of these a p99 may be off by a fourth, as docs/replay.md says.
var fine = prometheus.ExponentialBuckets(0.001, 1.25, 42)

func histogram(name string, unit float64, labels ...string) *prometheus.HistogramVec {
	bounds := make([]float64, len(fine))
	for i, b := range fine {
		bounds[i] = b * unit
	}
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Buckets: bounds}, labels)
}

func counter(name string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name}, labels)
}

func openTelemetry() collector {
	h := histogram("http_client_request_duration_seconds", 1, "http_request_method", "server_address", "http_response_status_code", "error_type")
	return theirs{h, func(e *policy.Event, status int) {
		code, what := strconv.Itoa(status), ""
		switch {
		case status == 0 && e.Class == policy.ClassTimeout:
			code, what = "", "timeout"
		case status == 0:
			code, what = "", "*net.OpError"
		case status >= 500:
			what = code
		}
		h.WithLabelValues("GET", "db.example.com", code, what).Observe(e.Took.Seconds())
	}}
}

func grpcMiddleware() collector {
	labels := []string{"grpc_type", "grpc_service", "grpc_method"}
	n, h := counter("grpc_client_handled_total", append(labels, "grpc_code")...), histogram("grpc_client_handling_seconds", 1, labels...)
	return theirs{several{n, h}, func(e *policy.Event, status int) {
		code := "Unavailable"
		switch {
		case status == 200:
			code = "OK"
		case e.Class == policy.ClassTimeout:
			code = "DeadlineExceeded"
		}
		n.WithLabelValues("unary", "shop.DB", "Get", code).Inc()
		h.WithLabelValues("unary", "shop.DB", "Get").Observe(e.Took.Seconds())
	}}
}

// istio counts on both sides of the connection, as a mesh does.
func istio() collector {
	labels := []string{"reporter", "destination_service_name", "response_code", "response_flags"}
	n, h := counter("istio_requests_total", labels...), histogram("istio_request_duration_milliseconds", 1000, labels...)
	return theirs{several{n, h}, func(e *policy.Event, status int) {
		code, flag := strconv.Itoa(status), "-"
		switch {
		case status == 0 && e.Class == policy.ClassTimeout:
			code, flag = "504", "UT"
		case status == 0:
			code, flag = "503", "UC"
		}
		for _, reporter := range []string{"source", "destination"} {
			n.WithLabelValues(reporter, "db", code, flag).Inc()
			h.WithLabelValues(reporter, "db", code, flag).Observe(e.Took.Seconds() * 1000)
		}
	}}
}

// own is an exporter whose names can't be known.
func own() collector {
	n, h := counter("backend_requests_total", "backend", "result"), histogram("backend_request_ms", 1000, "backend", "result")
	return theirs{several{n, h}, func(e *policy.Event, status int) {
		result := "error"
		switch {
		case status == 200:
			result = "ok"
		case e.Class == policy.ClassTimeout:
			result = "timeout"
		}
		n.WithLabelValues("db", result).Inc()
		h.WithLabelValues("db", result).Observe(e.Took.Seconds() * 1000)
	}}
}

// rangeOfWorld runs a world in the lab, tells a collector of its events, and writes what a server has that scrapes it every
// five seconds of the world's time. It returns the truth: how many calls there were, how many were answered, in percent, and their p99.
func rangeOfWorld(t *testing.T, name, faults, had string, c collector, file string) (calls int, answered float64, p99 time.Duration) {
	t.Helper()
	s, err := lab.Parse(name, []byte("version: 1\ntitle: "+name+"\nduration: 3m\nreplications: 1\nclients:\n  shop: {count: 1, rate: 100/s, deadline: 2s, calls: [{to: db, network: exp 1ms}]}\n"+
		"services:\n  db: {time: lognormal 40ms/200ms}\n"+faults+"policies:\n  "+had+"\n"))
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	_, err = s.Run(t.Context(), lab.Options{Alone: true, Record: &lab.Recording{Max: 1_000_000, Open: func(int, string) (io.Writer, error) { return &text, nil }}})
	if err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(c)
	scraped := scrapes{}
	next := policy.Instant(0)
	var took []time.Duration
	for entry, err := range recording.Entries(&text) {
		if err != nil {
			t.Fatal(err)
		}
		e := entry.Event
		for e.At >= next {
			scraped.take(t, registry, next)
			next += policy.Instant(5 * time.Second)
		}
		if c.event(e); e.Kind == policy.KindReturned {
			if calls++; e.Reason == policy.None {
				took = append(took, e.Took)
			}
		}
	}
	scraped.take(t, registry, next)
	scraped.write(t, file)
	slices.Sort(took)
	return calls, 100 * float64(len(took)) / float64(calls), took[len(took)*99/100]
}

// scrapes are the samples of series, by their labels.
type scrapes map[string][]string

func (s scrapes) take(t *testing.T, registry *prometheus.Registry, at policy.Instant) {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	// The beginning is that of a server that scraped the program when it had served nothing.
	seconds := 1_795_000_000 + time.Duration(at).Seconds()
	for _, f := range families {
		for _, m := range f.GetMetric() {
			add := func(name string, value float64, more ...string) {
				labels := map[string]string{"__name__": name, "instance": "shop-1:8080", "job": "shop"}
				for _, l := range m.GetLabel() {
					if l.GetValue() != "" { // Prometheus drops labels that are empty
						labels[l.GetName()] = l.GetValue()
					}
				}
				for i := 0; i < len(more); i += 2 {
					labels[more[i]] = more[i+1]
				}
				key, _ := json.Marshal(labels)
				s[string(key)] = append(s[string(key)], fmt.Sprintf(`[%.3f,"%v"]`, seconds, value))
			}
			switch f.GetType() {
			case dto.MetricType_COUNTER:
				add(f.GetName(), m.GetCounter().GetValue())
			case dto.MetricType_GAUGE:
				add(f.GetName(), m.GetGauge().GetValue())
			case dto.MetricType_HISTOGRAM:
				s.histogram(f.GetName(), m, seconds, add)
			}
		}
	}
}

// histogram adds a histogram: native where it is, as a server that scrapes these does, else its classic buckets.
func (s scrapes) histogram(name string, m *dto.Metric, seconds float64, add func(string, float64, ...string)) {
	h := m.GetHistogram()
	add(name+"_count", float64(h.GetSampleCount()))
	add(name+"_sum", h.GetSampleSum())
	if len(h.GetPositiveSpan()) == 0 {
		for _, b := range h.GetBucket() {
			if !math.IsInf(b.GetUpperBound(), 1) {
				add(name+"_bucket", float64(b.GetCumulativeCount()), "le", strconv.FormatFloat(b.GetUpperBound(), 'g', -1, 64))
			}
		}
		add(name+"_bucket", float64(h.GetSampleCount()), "le", "+Inf")
		return
	}
	labels := map[string]string{"__name__": name, "instance": "shop-1:8080", "job": "shop"}
	for _, l := range m.GetLabel() {
		labels[l.GetName()] = l.GetValue()
	}
	var buckets []string
	index, n, k := int32(0), int64(0), 0
	for _, span := range h.GetPositiveSpan() {
		index += span.GetOffset()
		for range span.GetLength() {
			n += h.GetPositiveDelta()[k]
			bound := func(i int32) float64 { return math.Pow(2, float64(i)*math.Pow(2, -float64(h.GetSchema()))) }
			buckets = append(buckets, fmt.Sprintf(`[0,"%g","%g","%d"]`, bound(index-1), bound(index), n))
			index, k = index+1, k+1
		}
	}
	key, _ := json.Marshal(labels)
	s["native "+string(key)] = append(s["native "+string(key)], fmt.Sprintf(`[%.3f,{"count":"%d","sum":"%g","buckets":[%s]}]`, seconds, h.GetSampleCount(), h.GetSampleSum(), strings.Join(buckets, ",")))
}

// write writes what Prometheus answers to /api/v1/query_range.
func (s scrapes) write(t *testing.T, file string) {
	t.Helper()
	var series []string
	for _, key := range slices.Sorted(maps.Keys(s)) {
		labels, native := strings.CutPrefix(key, "native ")
		what := map[bool]string{true: "histograms", false: "values"}[native]
		series = append(series, fmt.Sprintf(`{"metric":%s,%q:[%s]}`, labels, what, strings.Join(s[key], ",")))
	}
	text := `{"status":"success","data":{"resultType":"matrix","result":[` + strings.Join(series, ",") + `]}}`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
