package gabionprom

import (
	"math"
	"sync"

	"github.com/gabion-go/gabion/contrib/gabionprom/internal/catalog"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// descs are what client_golang knows of each metric.
var descs = makeDescs()

func makeDescs() map[*catalog.Metric]*prometheus.Desc {
	all := map[*catalog.Metric]*prometheus.Desc{}
	for _, m := range catalog.Exposed() {
		all[m] = prometheus.NewDesc(m.Name, m.Help, m.Labels, nil)
	}
	return all
}

// A sample is a metric as it is at one scrape. It implements prometheus.Metric.
type sample struct {
	desc    *prometheus.Desc
	labels  []*dto.LabelPair // in alphabetical order
	created *timestamppb.Timestamp
	gauge   *dto.Gauge
	counter *dto.Counter
	from    *histogram     // a histogram of durations
	ready   *dto.Histogram // or another one
}

// Desc implements prometheus.Metric.
func (s *sample) Desc() *prometheus.Desc { return s.desc }

// Write implements prometheus.Metric.
func (s *sample) Write(out *dto.Metric) error {
	out.Label, out.Gauge, out.Counter, out.Histogram = s.labels, s.gauge, s.counter, s.ready
	if s.from != nil {
		out.Histogram = &dto.Histogram{CreatedTimestamp: s.created}
		s.from.write(out.Histogram)
	}
	return nil
}

// A scrape sends samples.
type scrape struct {
	to    chan<- prometheus.Metric
	since *timestamppb.Timestamp // since when what comes next is counted
}

// labels are the values of a sample's labels, in the order of their names.
type labels = []*dto.LabelPair

// count sends a counter, unless it has counted nothing.
func (s *scrape) count(m *catalog.Metric, n uint64, l ...*dto.LabelPair) {
	if n > 0 {
		s.countFromZero(m, n, l...)
	}
}

// countFromZero sends a counter that is there from the beginning, so that its first
// increase is not missed.
func (s *scrape) countFromZero(m *catalog.Metric, n uint64, l ...*dto.LabelPair) {
	v := float64(n)
	s.to <- &sample{desc: descs[m], labels: l, counter: &dto.Counter{Value: &v, CreatedTimestamp: s.since}}
}

func (s *scrape) level(m *catalog.Metric, v float64, l ...*dto.LabelPair) {
	s.to <- &sample{desc: descs[m], labels: l, gauge: &dto.Gauge{Value: &v}}
}

// durations sends a histogram, if there is one.
func (s *scrape) durations(m *catalog.Metric, h *histogram, l ...*dto.LabelPair) {
	if h != nil {
		s.to <- &sample{desc: descs[m], labels: l, created: s.since, from: h}
	}
}

func (s *scrape) reasons(m *catalog.Metric, r *reasons, before *dto.LabelPair) {
	for i := range r {
		if n := r[i].Load(); n > 0 {
			s.count(m, n, before, enumerated("reason", reasonName(i)))
		}
	}
}

func (s *scrape) words(m *catalog.Metric, label string, w *words, before *dto.LabelPair) {
	for word, n := range w.snapshot() {
		s.count(m, n.Load(), before, pair(label, word))
	}
}

// names are the names of labels, of which there are few.
var names sync.Map

func nameOf(label string) *string {
	if p, ok := names.Load(label); ok {
		return p.(*string)
	}
	p, _ := names.LoadOrStore(label, &label)
	return p.(*string)
}

func pair(label, value string) *dto.LabelPair {
	return &dto.LabelPair{Name: nameOf(label), Value: &value}
}

// pairs are the labels whose values are of a closed set.
var pairs sync.Map

// enumerated is pair for a value of a closed set, which is kept.
func enumerated(label, value string) *dto.LabelPair {
	key := [2]string{label, value}
	if p, ok := pairs.Load(key); ok {
		return p.(*dto.LabelPair)
	}
	p, _ := pairs.LoadOrStore(key, pair(label, value))
	return p.(*dto.LabelPair)
}

// infinite is the bucket without a bound.
func infinite(count uint64) *dto.Bucket {
	bound := math.Inf(1)
	return &dto.Bucket{UpperBound: &bound, CumulativeCount: &count}
}
