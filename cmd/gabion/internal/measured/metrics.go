package measured

import (
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/gabion-go/gabion/internal/formulas"
)

// errNoSeries says that an endpoint has nothing of gabion's.
var errNoSeries = errors.New("it has no series of gabion: is contrib/gabionprom registered there, and observing?")

// readMetrics measures what contrib/gabionprom exposes. Counters count since the program
// began, so the span is known if the endpoint tells when that was. A text that is cut off is
// used as far as it goes, and the error says so.
func readMetrics(in io.Reader, now time.Time) (map[string]*vitals, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(in)
	s := scrape{all: map[string]*vitals{}}
	for name, f := range families {
		for _, m := range f.GetMetric() {
			s.sample(name, m)
		}
	}
	if len(s.all) == 0 {
		return nil, errors.Join(errNoSeries, err)
	}
	for _, v := range s.all {
		if s.began > 0 {
			v.span = now.Sub(time.UnixMilli(int64(s.began * 1000))).Round(time.Second)
		}
	}
	if err != nil {
		err = fmt.Errorf("the metrics are used up to a mistake: %w", err)
	}
	return s.all, err
}

type scrape struct {
	all   map[string]*vitals
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
		v.attempts += value
		if labels["kind"] == "retry" {
			v.retries += value
		}
	case "gabion_attempt_duration_seconds":
		if labels["result"] == "success" {
			v.read(m.GetHistogram())
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
	}
}

// read adds a classic histogram. A bucket of other bounds counts within the next of ours.
func (v *vitals) read(h *dto.Histogram) {
	seen := uint64(0)
	for _, b := range h.GetBucket() {
		if n := b.GetCumulativeCount(); n > seen {
			v.took.Add(seconds(b.GetUpperBound()), int64(n-seen))
			seen = n
		}
	}
	if n := h.GetSampleCount(); n > seen {
		v.took.Add(formulas.Unbounded, int64(n-seen))
	}
}

// seconds is a bound of a bucket, to the microsecond.
func seconds(s float64) time.Duration {
	if !(s < 1e9) {
		return formulas.Unbounded
	}
	return time.Duration(s * float64(time.Second)).Round(time.Microsecond)
}
