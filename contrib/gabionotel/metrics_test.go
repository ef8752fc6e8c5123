package gabionotel_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/contrib/gabionotel"
	"github.com/gabion-go/gabion/policy"
)

// measuring makes an observer whose metrics can be read.
func measuring(stats func() []gabion.Stats) (*gabionotel.Observer, *sdkmetric.ManualReader) {
	r := sdkmetric.NewManualReader()
	return gabionotel.New(gabionotel.Config{MeterProvider: sdkmetric.NewMeterProvider(sdkmetric.WithReader(r), sdkmetric.WithCardinalityLimit(0)), NoTraces: true, Stats: stats}), r
}

// read returns one line for each series: name, labels and value, of histograms count and
// sum.
func read(t *testing.T, r *sdkmetric.ManualReader) []string {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := r.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	var lines []string
	add := func(name string, set attribute.Set, value string) {
		lines = append(lines, name+attributes(set.ToSlice())+" "+value)
	}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			switch data := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					add(m.Name, p.Attributes, fmt.Sprint(p.Value))
				}
			case metricdata.Gauge[int64]:
				for _, p := range data.DataPoints {
					add(m.Name, p.Attributes, fmt.Sprint(p.Value))
				}
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					add(m.Name, p.Attributes, fmt.Sprintf("%d of %gs", p.Count, p.Sum))
				}
			default:
				t.Errorf("%s is a %T", m.Name, data)
			}
		}
	}
	slices.Sort(lines)
	return lines
}

func TestMetricsCountCallsAndAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, r := measuring(nil)
		p := retried
		p.Safe, p.Timeout = true, once.Timeout
		p.Retry.Attempts, p.Retry.Backoff = 2, every(time.Second)
		p.Breaker = policy.Breaker{Consecutive: 4, MinCalls: 100, OpenJitter: policy.Off}
		d := gabion.New("db", p, gabion.WithObserver(o))
		charge := gabion.WithOperation("charge")
		gabion.Do(t.Context(), d, scripted(fails(errDown), takes(time.Second)), charge)
		for range 2 {
			gabion.Do(t.Context(), d, fails(errDown), charge)
		}
		gabion.Do(t.Context(), d, takes(0))
		d.Stats() // sends the event of the breaker's move, if it was not sent yet
		want := `
gabion.attempt.duration attempt.kind=first class=server dependency=db operation=charge 3 of 0s
gabion.attempt.duration attempt.kind=retry class=server dependency=db operation=charge 2 of 0s
gabion.attempt.duration attempt.kind=retry class=success dependency=db operation=charge 1 of 1s
gabion.attempts attempt.kind=first class=server dependency=db operation=charge 3
gabion.attempts attempt.kind=retry class=server dependency=db operation=charge 2
gabion.attempts attempt.kind=retry class=success dependency=db operation=charge 1
gabion.attempts.refused dependency=db reason=breaker_open 1
gabion.breaker.transitions breaker.cause=consecutive breaker.from=closed breaker.to=open dependency=db 1
gabion.call.duration dependency=db operation=charge outcome=attempts_exhausted 2 of 2s
gabion.call.duration dependency=db operation=charge outcome=ok 1 of 2s
gabion.call.duration dependency=db outcome=breaker_open 1 of 0s
gabion.calls dependency=db operation=charge outcome=attempts_exhausted 2
gabion.calls dependency=db operation=charge outcome=ok 1
gabion.calls dependency=db outcome=breaker_open 1
gabion.deadline.remaining dependency=db operation=charge 6 of 57s`
		if got := strings.Join(read(t, r), "\n"); got != strings.TrimSpace(want) {
			t.Errorf("the metrics are\n%s\nwant%s", got, want)
		}
	})
}

func TestMetricsTellHedgesApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, r := measuring(nil)
		p := once
		p.Hedge = policy.Hedge{Max: 2, Delay: time.Second, Percentile: policy.Off}
		p.Retry = policy.Retry{Attempts: 3, Budget: policy.Budget{Off: true}}
		d := gabion.New("db", p, gabion.WithObserver(o))
		gabion.Do(t.Context(), d, scripted(takes(time.Minute), takes(time.Minute), takes(time.Millisecond)))
		synctest.Wait()
		got := read(t, r)
		for _, want := range []string{"gabion.hedges dependency=db won=true 1", "gabion.hedges dependency=db won=false 1",
			"gabion.attempts attempt.kind=hedge class=success dependency=db 1", "gabion.attempts attempt.kind=hedge class=ignored dependency=db 1"} {
			if !slices.Contains(got, want) {
				t.Errorf("%q is missing in\n%s", want, strings.Join(got, "\n"))
			}
		}
	})
}

// An event that stands for several is counted as several.
func TestEventsThatTellOfManyCountThem(t *testing.T) {
	o, r := measuring(nil)
	for _, k := range []policy.Kind{policy.KindResent, policy.KindLettersLost, policy.KindEventsLost} {
		o.Observe(t.Context(), gabion.Event{Kind: k, Dependency: "db", Count: 3})
	}
	got := read(t, r)
	for _, want := range []string{"gabion.resent_below dependency=db 3", "gabion.dead_letters.lost dependency=db 3", "gabion.events.lost dependency=db 3"} {
		if !slices.Contains(got, want) {
			t.Errorf("%q is missing in\n%s", want, strings.Join(got, "\n"))
		}
	}
}

func TestGaugesAreReadFromTheDependencies(t *testing.T) {
	var d *gabion.Dependency
	o, r := measuring(func() []gabion.Stats { return []gabion.Stats{d.Stats()} })
	d = gabion.New("db", policy.Policy{Bulkhead: policy.Bulkhead{Limit: 7}}, gabion.WithObserver(o))
	a, err := gabion.Begin(t.Context(), d, gabion.WithPartition("eu"))
	if err != nil {
		t.Fatal(err)
	}
	got := read(t, r)
	a.Close(nil)
	for _, want := range []string{"gabion.bulkhead.in_flight dependency=db 1", "gabion.bulkhead.limit dependency=db 7", "gabion.bulkhead.queued dependency=db 0",
		"gabion.retry_budget.tokens dependency=db 1", "gabion.breaker.partitions breaker.state=closed dependency=db 2", "gabion.breaker.partitions breaker.state=open dependency=db 0", "gabion.retries.off dependency=db 0"} {
		if !slices.Contains(got, want) {
			t.Errorf("%q is missing in\n%s", want, strings.Join(got, "\n"))
		}
	}
	if err := o.Close(); err != nil {
		t.Error(err)
	}
	for _, line := range read(t, r) {
		if strings.HasPrefix(line, "gabion.bulkhead") {
			t.Errorf("after Close: %s", line)
		}
	}
}

// Names that come from traffic fill neither the memory nor the reader. What has no room is
// counted under _other, and its count is exact.
func TestTooManyNamesAreCountedTogether(t *testing.T) {
	o, r := measuring(nil)
	const events = 3000
	see := func(e gabion.Event) { o.Observe(context.Background(), e) }
	for i := range events {
		name := fmt.Sprint("user-", i)
		see(gabion.Event{Kind: policy.KindReturned, Call: 1, Dependency: "db", Operation: name, Reason: policy.Reason(i % 3)})
		see(gabion.Event{Kind: policy.KindAttemptSettled, Call: 1, Dependency: "db", Operation: name, Attempt: 1, Class: policy.ClassServer, Code: name})
		see(gabion.Event{Kind: policy.KindReturned, Call: 1, Dependency: name})
		see(gabion.Event{Kind: policy.KindReturned, Call: 1, Dependency: "other", Operation: strings.Repeat("x", 200+i%10)})
		see(gabion.Event{Kind: policy.KindKeyDecided, Dependency: "db", Code: name})
		see(gabion.Event{Kind: policy.KindAttemptSettled, Call: 1, Dependency: "codes", Attempt: 1, Code: name})
		see(gabion.Event{Kind: policy.KindAttemptSettled, Call: 1, Dependency: "long", Attempt: 1, Code: strings.Repeat("y", 300+i%10)})
		see(gabion.Event{Kind: policy.KindReturned, Call: 1, Dependency: "reasons", Operation: fmt.Sprint(i % 150), Reason: policy.Reason(i / 150 % 20)})
	}
	series, total, others := map[string]int{}, map[string]int{}, map[string]bool{}
	for _, line := range read(t, r) {
		name, labels, _ := strings.Cut(line, " ")
		var n int
		fmt.Sscan(line[strings.LastIndex(line, " "):], &n)
		for _, d := range []string{"db", "codes", "reasons", "other", "long"} {
			if strings.Contains(labels, "dependency="+d+" ") {
				series[d+" "+name]++
				total[d+" "+name] += n
			}
		}
		others[name] = others[name] || strings.Contains(labels, "operation=_other")
		if len(line) > 300 {
			t.Errorf("a label is too long: %s", line)
		}
	}
	for name, most := range map[string]int{
		"db gabion.calls": 230, "db gabion.attempts": 240, "db gabion.idempotency": 501,
		"codes gabion.attempts": 240, "reasons gabion.calls": 230, "other gabion.calls": 1, "long gabion.attempts": 1,
	} {
		if series[name] > most || total[name] != events {
			t.Errorf("%s has %d series with %d together", name, series[name], total[name])
		}
	}
	if !others["gabion.calls"] || !others["gabion.attempts"] || total["db gabion.label.overflow"] == 0 {
		t.Errorf("nothing is counted under _other: %v %v", others, total)
	}
}
