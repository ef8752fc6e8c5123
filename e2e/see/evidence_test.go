package see_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/contrib/gabionprom"
	"github.com/gabion-go/gabion/dashboard"
	"github.com/gabion-go/gabion/internal/recording"
	"github.com/gabion-go/gabion/policy"
	"github.com/gabion-go/gabion/record"
)

// What gabion lint --measured decides about times by is the same in a recording, on the page and in
// the metrics: as many attempts within each bound, as many cut off, as many openings.
func TestSourcesCountTheSameAttempts(t *testing.T) { synctest.Test(t, sourcesCountTheSameAttempts) }

func sourcesCountTheSameAttempts(t *testing.T) {
	registry, err := gabion.NewRegistry(map[string]policy.Policy{"stock": {Safe: true, Timeout: policy.Timeout{Attempt: 30 * time.Millisecond, Strict: true},
		Retry: policy.Retry{Backoff: backoff.Const(time.Millisecond), Hold: policy.Off}, Breaker: policy.Breaker{Consecutive: 3, Open: 50 * time.Millisecond}}})
	if err != nil {
		t.Fatal(err)
	}
	stock, _ := registry.Get("stock")
	metrics := gabionprom.New(gabionprom.Config{Registry: registry})
	scraped := prometheus.NewRegistry()
	scraped.MustRegister(metrics)
	var recorded lines
	defer registry.Observe(metrics)()
	defer registry.Observe(record.NewWriter(&recorded))()
	page := dashboard.New(dashboard.Config{Registry: registry})
	defer page.Close()
	for i := range 120 {
		_, err := gabion.Do(t.Context(), stock, func(ctx context.Context) (int, error) {
			took := []time.Duration{0, 2 * time.Millisecond, 12 * time.Millisecond}[i%3]
			if i%40 > 35 {
				took = time.Second
			}
			select {
			case <-time.After(took):
				return 0, nil
			case <-ctx.Done():
				return 0, context.Cause(ctx)
			}
		})
		if err != nil {
			time.Sleep(20 * time.Millisecond) // the breaker is open for longer
		}
	}

	var told struct {
		Dependencies []struct {
			Took        []int64
			Cut, Opened int64
		}
	}
	w := httptest.NewRecorder()
	page.ServeHTTP(w, httptest.NewRequest("GET", "/debug/gabion/api/v1/measured", nil))
	if err := json.Unmarshal(w.Body.Bytes(), &told); err != nil || len(told.Dependencies) != 1 {
		t.Fatalf("%v: %s", err, w.Body)
	}
	d := told.Dependencies[0]
	onPage := fmt.Sprintf("%v, %d cut off, %d openings", d.Took, d.Cut, d.Opened)

	var bounds []float64
	var upTo []int64
	var cut, opened int64
	w = httptest.NewRecorder()
	promhttp.HandlerFor(scraped, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	for line := range strings.Lines(w.Body.String()) {
		series, value, _ := strings.Cut(strings.TrimSpace(line), "} ")
		n, _ := strconv.ParseFloat(value, 64)
		switch name, labels, _ := strings.Cut(series, "{"); {
		case name == "gabion_attempt_duration_seconds_bucket" && label(labels, "result") == "success":
			bound, err := strconv.ParseFloat(label(labels, "le"), 64)
			if err != nil {
				t.Fatal(line)
			}
			at, there := slices.BinarySearch(bounds, bound)
			if !there {
				bounds, upTo = slices.Insert(bounds, at, bound), slices.Insert(upTo, at, 0)
			}
			upTo[at] += int64(n)
		case name == "gabion_timeouts_total" && label(labels, "layer") == "attempt":
			cut += int64(n)
		case name == "gabion_breaker_opens_total":
			opened += int64(n)
		}
	}
	for i := len(upTo) - 1; i > 0; i-- {
		upTo[i] -= upTo[i-1]
	}
	if exposed := fmt.Sprintf("%v, %d cut off, %d openings", upTo, cut, opened); exposed != onPage || d.Cut < 5 || d.Opened < 1 || slices.Max(d.Took) < 20 {
		t.Errorf("the page says %s\nthe metrics say %s", onPage, exposed)
	}

	took := make([]int64, len(bounds))
	cut, opened = 0, 0
	for e, err := range recording.Entries(strings.NewReader(recorded.b.String())) {
		if err != nil {
			t.Fatal(err)
		}
		switch e := e.Event; {
		case e.Kind == policy.KindBreakerMoved && e.From == policy.StateClosed && e.To == policy.StateOpen:
			opened++
		case e.Reason == policy.AttemptTimeout && (e.Kind == policy.KindAttemptSettled || e.Kind == policy.KindLoserSettled):
			cut++
		case e.Class == policy.ClassSuccess && (e.Kind == policy.KindAttemptSettled || e.Kind == policy.KindLoserSettled):
			at, _ := slices.BinarySearch(bounds, e.Took.Seconds())
			took[at]++
		}
	}
	if recording := fmt.Sprintf("%v, %d cut off, %d openings", took, cut, opened); recording != onPage {
		t.Errorf("the page says %s\nthe recording says %s", onPage, recording)
	}
}
