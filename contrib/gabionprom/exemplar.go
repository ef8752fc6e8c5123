package gabionprom

import (
	"context"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// exemplars are the last example of each classic bucket, the one without a bound included.
type exemplars [len(bounds) + 1]atomic.Pointer[dto.Exemplar]

// exemplify keeps an observation as an example, if the context has a trace.
func (m *Metrics) exemplify(ctx context.Context, h *histogram, d time.Duration) {
	labels := m.config.Exemplar(ctx)
	runes := 0
	for name, value := range labels {
		runes += utf8.RuneCountInString(name) + utf8.RuneCountInString(value)
		if !utf8.ValidString(name) || !utf8.ValidString(value) {
			return
		}
	}
	if runes == 0 || runes > prometheus.ExemplarMaxRunes {
		return
	}
	h.example(d, labels, time.Now())
}

func (h *histogram) example(d time.Duration, labels prometheus.Labels, now time.Time) {
	v := max(d, 0).Seconds()
	e := &dto.Exemplar{Value: &v, Timestamp: timestamppb.New(now)}
	for name, value := range labels {
		e.Label = append(e.Label, &dto.LabelPair{Name: &name, Value: &value})
	}
	all := h.exemplars.Load()
	if all == nil {
		h.exemplars.CompareAndSwap(nil, new(exemplars))
		all = h.exemplars.Load()
	}
	bucket := 0
	for bucket < len(bounds) && bounds[bucket] < v {
		bucket++
	}
	all[bucket].Store(e)
}

// write puts the examples to their buckets. A nil one has none.
func (x *exemplars) write(out *dto.Histogram) {
	if x == nil {
		return
	}
	for i := range x {
		e := x[i].Load()
		if e == nil {
			continue
		}
		if i == len(bounds) && len(out.Bucket) == i {
			out.Bucket = append(out.Bucket, infinite(out.GetSampleCount()))
		}
		out.Exemplars = append(out.Exemplars, e)
		if b := out.Bucket[i]; b.Exemplar == nil || b.Exemplar.GetTimestamp().AsTime().Before(e.GetTimestamp().AsTime()) {
			b.Exemplar = e
		}
	}
}
