package doctorcmd

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/gabion-go/gabion/policy"
)

// errNoSeries says that an endpoint has nothing of gabion's.
var errNoSeries = errors.New("it has no series of gabion: is contrib/gabionprom registered there, and observing?")

// readMetrics measures what contrib/gabionprom exposes. Counters count since the program
// began, so the span is known if the endpoint tells when that was. A text that is cut off is
// used as far as it goes, and the error says so.
func readMetrics(in io.Reader, now time.Time) (map[string]*vitals, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(in)
	s := scrape{all: map[string]*vitals{}, took: map[string]*buckets{}}
	for name, f := range families {
		for _, m := range f.GetMetric() {
			s.sample(name, m)
		}
	}
	if len(s.all) == 0 {
		return nil, errors.Join(errNoSeries, err)
	}
	for name, v := range s.all {
		if s.began > 0 {
			v.span = now.Sub(time.UnixMilli(int64(s.began * 1000))).Round(time.Second)
		}
		if b := s.took[name]; b != nil {
			v.latency = b.stats()
		}
	}
	if err != nil {
		err = fmt.Errorf("the metrics are used up to a mistake: %w", err)
	}
	return s.all, err
}

type scrape struct {
	all   map[string]*vitals
	took  map[string]*buckets
	began float64 // seconds since 1970
}

func (s *scrape) sample(name string, m *dto.Metric) {
	value := m.GetCounter().GetValue() + m.GetGauge().GetValue() + m.GetUntyped().GetValue()
	if name == "process_start_time_seconds" {
		s.began = value
		return
	}
	labels := map[string]string{}
	for _, l := range m.GetLabel() {
		labels[l.GetName()] = l.GetValue()
	}
	dependency := labels["dependency"]
	if len(name) < 7 || name[:7] != "gabion_" || dependency == "" || math.IsNaN(value) {
		return
	}
	v := s.all[dependency]
	if v == nil {
		v = newVitals(dependency)
		v.knowOpens = true
		s.all[dependency] = v
	}
	switch name {
	case "gabion_calls_total":
		v.calls += value
		if outcome := labels["outcome"]; outcome == "ok" {
			v.succeeded += value
		} else {
			v.ended[outcome] += value
		}
	case "gabion_attempts_total":
		v.attempts, v.settled = v.attempts+value, v.settled+value
		switch labels["kind"] {
		case "retry":
			v.retries += value
		case "hedge":
			v.hedges += value
		}
	case "gabion_attempt_duration_seconds":
		if labels["result"] == "success" {
			if s.took[dependency] == nil {
				s.took[dependency] = &buckets{}
			}
			s.took[dependency].add(m.GetHistogram())
		}
	case "gabion_timeouts_total":
		if labels["layer"] == "attempt" {
			v.cut += value
		}
	case "gabion_attempts_refused_total":
		v.refused[labels["reason"]] += value
	case "gabion_breaker_opens_total":
		v.opens += value
	case "gabion_bulkhead_limit":
		v.limit = value
	case "gabion_waits_total":
		if labels["wait"] == policy.ForSlot {
			v.waited += value
		}
	}
}

// buckets is a classic histogram, added up over operations.
type buckets struct {
	upper []float64
	upTo  map[float64]float64 // cumulative, by upper bound in seconds
	n     float64
}

func (b *buckets) add(h *dto.Histogram) {
	if b.upTo == nil {
		b.upTo = map[float64]float64{}
	}
	for _, bucket := range h.GetBucket() {
		b.upTo[bucket.GetUpperBound()] += float64(bucket.GetCumulativeCount())
	}
	b.n += float64(h.GetSampleCount())
	b.upper = b.upper[:0]
	for u := range b.upTo {
		b.upper = append(b.upper, u)
	}
	slices.Sort(b.upper)
}

// quantile is the upper bound of the bucket that holds it: the true one is not longer. It is
// 0 where it is above all bounds.
func (b *buckets) quantile(q float64) time.Duration {
	for _, u := range b.upper {
		if b.upTo[u] >= q*b.n && !math.IsInf(u, 1) {
			return time.Duration(u * float64(time.Second))
		}
	}
	return 0
}

func (b *buckets) stats() (l policy.LatencyStats) {
	l.Samples = int64(b.n)
	if b.n == 0 {
		return l
	}
	l.P50, l.P95 = b.quantile(0.5), b.quantile(0.95)
	if b.n >= 100 {
		l.P99 = b.quantile(0.99)
	}
	if b.n >= 1000 {
		l.P999 = b.quantile(0.999)
	}
	return l
}
