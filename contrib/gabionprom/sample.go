package gabionprom

import (
	"math"
	"slices"
	"sync"

	"github.com/gabion-go/gabion/contrib/gabionprom/internal/catalog"
	"github.com/gabion-go/gabion/policy"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// descs are what client_golang knows of each metric.
var descs = makeDescs()

func makeDescs() map[*catalog.Metric]*prometheus.Desc {
	all := map[*catalog.Metric]*prometheus.Desc{}
	for _, m := range catalog.All() {
		all[m] = prometheus.NewDesc(m.Name, m.Help, m.Labels, nil)
	}
	return all
}

// maxLabels is the most that a metric has.
const maxLabels = 4

// A sample is a metric as it is at one scrape. It implements prometheus.Metric. There are
// tens of thousands in a scrape, so it is made in one piece.
type sample struct {
	desc      *prometheus.Desc
	labels    [maxLabels]*dto.LabelPair // in alphabetical order of their names
	n         int                       // of labels
	created   *timestamppb.Timestamp
	kind      catalog.Type
	value     float64
	gauge     dto.Gauge
	counter   dto.Counter
	histogram *dto.Histogram
}

// Desc implements prometheus.Metric.
func (s *sample) Desc() *prometheus.Desc { return s.desc }

// Write implements prometheus.Metric.
func (s *sample) Write(out *dto.Metric) error {
	out.Label = s.labels[:s.n]
	switch s.kind {
	case catalog.Gauge:
		s.gauge.Value = &s.value
		out.Gauge = &s.gauge
	case catalog.Counter:
		s.counter.Value, s.counter.CreatedTimestamp = &s.value, s.created
		out.Counter = &s.counter
	default:
		out.Histogram = s.histogram
	}
	return nil
}

// A scrape sends samples.
type scrape struct {
	to    chan<- prometheus.Metric
	since *timestamppb.Timestamp // since when what comes next is counted
	zero  bool                   // it is sent although it has counted nothing
}

// sample makes a sample. Its labels are in alphabetical order of their names.
func (s *scrape) sample(m *catalog.Metric, l []*dto.LabelPair) *sample {
	x := &sample{desc: descs[m], created: s.since, kind: m.Type}
	x.n = copy(x.labels[:], l)
	return x
}

// count sends a counter, unless it has counted nothing and need not begin at zero.
func (s *scrape) count(m *catalog.Metric, n uint64, l ...*dto.LabelPair) {
	if n > 0 || s.zero {
		s.countFromZero(m, n, l...)
	}
}

// countFromZero sends a counter that is there from the beginning, so that its first
// increase is not missed.
func (s *scrape) countFromZero(m *catalog.Metric, n uint64, l ...*dto.LabelPair) {
	s.level(m, float64(n), l...)
}

// level sends a number.
func (s *scrape) level(m *catalog.Metric, v float64, l ...*dto.LabelPair) {
	x := s.sample(m, l)
	x.value = v
	s.to <- x
}

// durations sends histograms as one, if there is any. It is written here, and not when the
// registry asks for it, because that is a goroutine of its own which has enough to do.
func (s *scrape) durations(m *catalog.Metric, all []*histogram, l ...*dto.LabelPair) {
	if slices.ContainsFunc(all, func(h *histogram) bool { return h != nil }) {
		x := s.sample(m, l)
		x.histogram = &dto.Histogram{CreatedTimestamp: s.since}
		write(x.histogram, all)
		s.to <- x
	}
}

// reasons sends what was counted by reason. The known ones begin at zero.
func (s *scrape) reasons(m *catalog.Metric, r *reasons, before *dto.LabelPair, known ...[]policy.Reason) {
	for i := range r {
		n := r[i].Load()
		if n > 0 || s.zero && slices.ContainsFunc(known, func(k []policy.Reason) bool { return slices.Contains(k, policy.Reason(i)) }) {
			s.count(m, n, before, reasonLabels[i])
		}
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

// The labels whose values are of a closed set, by number.
var (
	outcomeLabels = enumerate("outcome", reasonNames)
	reasonLabels  = enumerate("reason", reasonNames)
	kindLabels    = enumerate("kind", kindNames[:])
	classLabels   = enumerate("result", numbered[policy.Class](numClasses))
	verdictLabels = enumerate("result", verdicts[:])
	retriedLabels = enumerate("retried", yesNo[:])
	wonLabels     = enumerate("won", yesNo[:])
	layerLabels   = enumerate("layer", layers[:])
	stateLabels   = enumerate("state", numbered[policy.BreakerState](numStates))
	noPartition   = pair("partition", "")
)

// reasonNames are the texts of the reasons, by number.
var reasonNames = func() (names []string) {
	for _, r := range policy.Reasons() {
		names = append(names, r.String())
	}
	return names
}()

// numbered are the texts of the first n values of an enumeration.
func numbered[T interface {
	~uint8
	String() string
}](n int) (names []string) {
	for i := range n {
		names = append(names, T(i).String())
	}
	return names
}

func enumerate(label string, values []string) (all []*dto.LabelPair) {
	for _, v := range values {
		all = append(all, pair(label, v))
	}
	return all
}

// infinite is the bucket without a bound.
func infinite(count uint64) *dto.Bucket {
	bound := math.Inf(1)
	return &dto.Bucket{UpperBound: &bound, CumulativeCount: &count}
}
