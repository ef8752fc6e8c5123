package gabionprom

import (
	"maps"
	"strings"

	"github.com/gabion-go/gabion/contrib/gabionprom/internal/catalog"
	"github.com/gabion-go/gabion/policy"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// Describe implements [prometheus.Collector].
func (m *Metrics) Describe(to chan<- *prometheus.Desc) {
	for _, metric := range catalog.All() {
		to <- descs[metric]
	}
}

// Collect implements [prometheus.Collector]. It asks the dependencies of the [Config] for
// their states.
func (m *Metrics) Collect(to chan<- prometheus.Metric) {
	s := &scrape{to: to}
	m.states(s) // before the counters: these may find dependencies that had no event
	s.since = nil
	m.collectLetters(s)
	m.collectOutboxes(s)
	m.fleet(s)
	for _, d := range m.dependencies.sorted() {
		d.collect(s)
	}
	if !m.others.unused() {
		m.others.collect(s)
	}
	s.since, s.zero = nil, false
	for label, n := range map[string]*counter{
		"dependency": &m.overflow.dependency, "operation": &m.overflow.operation, "code": &m.overflow.code,
		"partition": &m.overflow.partition, "result": &m.overflow.result, "disposition": &m.overflow.disposition,
	} {
		s.countFromZero(catalog.Overflow, n.Load(), pair("label", label))
	}
	m.collectReload(s)
}

func (m *Metrics) collectReload(s *scrape) {
	m.reload.Lock()
	defer m.reload.Unlock()
	if !m.reload.known {
		return
	}
	s.level(catalog.ReloadSuccess, oneIf(m.reload.success))
	if !m.reload.at.IsZero() {
		s.level(catalog.ReloadTime, float64(m.reload.at.UnixNano())/1e9)
	}
	if m.reload.hash != "" {
		s.level(catalog.ConfigInfo, 1, pair("hash", m.reload.hash))
	}
}

func oneIf(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// unused reports whether nothing of a call was counted.
func (d *dependency) unused() bool {
	return len(d.operations.snapshot()) == 0 && d.others.unused()
}

func (o *operation) unused() bool {
	for v := range o.took {
		for r := range o.took[v] {
			if o.took[v][r].p.Load() != nil {
				return false
			}
		}
	}
	for k := range o.attempts {
		if o.done[k].p.Load() != nil {
			return false
		}
		for c := range o.attempts[k] {
			if o.attempts[k][c].Load() > 0 {
				return false
			}
		}
	}
	return o.plain.unused() && len(o.codes.snapshot()) == 0
}

func (d *dependency) collect(s *scrape) {
	s.since = d.created
	left := new(histogram) // of plain successes
	for _, o := range d.operations.sorted() {
		o.collect(s, left)
	}
	if !d.others.unused() {
		d.others.collect(s, left)
	}
	s.since, s.zero = d.created, d.zero
	if d.left.count()+left.count() > 0 {
		s.durations(catalog.DeadlineLeft, []*histogram{&d.left, left}, d.label)
	}
	s.reasons(catalog.Refused, &d.refused, d.label, refusing)
	s.reasons(catalog.Suppressed, &d.suppressed, d.label, suppressing, refusingRetries)
	s.reasons(catalog.HedgesSkipped, &d.skipped, d.label, skipping)
	s.reasons(catalog.Fallbacks, &d.fallbacks, d.label, unavailable)
	s.reasons(catalog.BodiesFailed, &d.broken, d.label, breaking)
	for i := range d.timeouts {
		s.count(catalog.Timeouts, d.timeouts[i].Load(), d.label, layerLabels[i])
	}
	for i := range d.hedges {
		s.count(catalog.Hedges, d.hedges[i].Load(), d.label, wonLabels[i])
	}
	for word, n := range snapshotOf(&d.waits, d.zero, waiting) {
		s.count(catalog.Waits, n, d.label, pair("wait", word))
	}
	for word, n := range snapshotOf(&d.keys, d.zero && len(d.keys.snapshot()) > 0, deciding) {
		s.count(catalog.Idempotency, n, d.label, pair("result", word))
	}
	for word, n := range snapshotOf(&d.messages, d.zero && len(d.messages.snapshot()) > 0, disposing) {
		disposition, why, _ := strings.Cut(word, "/")
		s.count(catalog.Messages, n, d.label, pair("disposition", disposition), pair("reason", why))
	}
	d.collectState(s)
}

// collectState sends what was counted of the dependency itself.
func (d *dependency) collectState(s *scrape) {
	s.countFromZero(catalog.BreakerOpens, d.opens.Load(), d.label)
	s.countFromZero(catalog.ResentBelow, d.resent.Load(), d.label)
	s.count(catalog.Outlived, d.outlived.Load(), d.label)
	s.count(catalog.PaceSet, d.paceSet.Load(), d.label)
	s.count(catalog.LimitChanges, d.limits.Load(), d.label)
	s.count(catalog.Reloads, d.reloads.Load(), d.label)
	s.count(catalog.Switched, d.switched.Load(), d.label)
	s.count(catalog.DeadLost, d.lettersLost.Load(), d.label)
	s.count(catalog.EventsLost, d.eventsLost.Load(), d.label)
	d.mu.Lock()
	moves, exceeded := maps.Clone(d.moves), maps.Clone(d.exceeded)
	d.mu.Unlock()
	for v, n := range withZeros(moves, d.zero, moving) {
		s.count(catalog.BreakerTransitions, n, pair("cause", v.cause.String()), d.label,
			pair("from", v.from.String()), pair("to", v.to.String()))
	}
	for cause, n := range withZeros(exceeded, d.zero, opening) {
		s.count(catalog.BreakerExceeded, n, pair("cause", cause.String()), d.label)
	}
}

// collect sends what was counted, and adds to left how much plain successes had.
func (o *operation) collect(s *scrape, left *histogram) {
	s.since, s.zero = o.created, false
	d := o.of.label
	plain, slow := o.plain.sum(left)
	o.collectCalls(s, d, plain)
	o.collectAttempts(s, d, plain)
	s.count(catalog.SlowAttempts, o.slow.Load()+slow, d, o.label)
	for code, n := range o.codes.snapshot() {
		s.count(catalog.Retries, n.Load(), pair("code", code), d, o.label)
	}
	o.collectUntil(s, d, plain)
}

func (o *operation) collectCalls(s *scrape, d *dto.LabelPair, plain *histogram) {
	ok := plain.count() + o.took[success][0].p.Load().count() + o.took[success][1].p.Load().count()
	s.count(catalog.Calls, ok, d, o.label, outcomeLabels[policy.None])
	for i := range o.calls {
		if n := o.calls[i].Load(); n > 0 {
			s.count(catalog.Calls, n, d, o.label, outcomeLabels[i])
		}
	}
	for v := range o.took {
		for r := range o.took[v] {
			took := []*histogram{o.took[v][r].p.Load()}
			if v == success && r == 0 {
				took = append(took, plain)
			}
			s.durations(catalog.CallDuration, took, d, o.label, verdictLabels[v], retriedLabels[r])
		}
		s.count(catalog.RetriedCalls, o.took[v][1].p.Load().count(), d, o.label, verdictLabels[v])
	}
}

func (o *operation) collectAttempts(s *scrape, d *dto.LabelPair, plain *histogram) {
	done := make([]*histogram, numKinds, numKinds+1)
	for k := range done {
		kind := kindLabels[k]
		done[k] = o.done[k].p.Load()
		n := done[k].count()
		if k == kindFirst {
			n += plain.count()
		}
		s.count(catalog.Attempts, n, d, kind, o.label, classLabels[policy.ClassSuccess])
		for c := range o.attempts[k] {
			if n := o.attempts[k][c].Load(); n > 0 {
				s.count(catalog.Attempts, n, d, kind, o.label, classLabels[c])
			}
		}
	}
	s.durations(catalog.AttemptDuration, append(done, plain), d, o.label, verdictLabels[success])
	s.durations(catalog.AttemptDuration, []*histogram{o.broken.p.Load()}, d, o.label, verdictLabels[failure])
}

// untilBounds are the buckets of attempts until success.
var untilBounds = []float64{1, 2, 3, 4, 5, 6, 7, 8}

func (o *operation) collectUntil(s *scrape, d *dto.LabelPair, plain *histogram) {
	var alone [untilCells]uint64
	atOnce := plain.count() + o.took[success][0].p.Load().count()
	count := atOnce
	for i := range alone {
		alone[i] = o.until[i].Load()
		count += alone[i]
	}
	alone[0] += atOnce
	if count == 0 {
		return
	}
	sum := float64(o.untilSum.Load() + atOnce)
	x := s.sample(catalog.AttemptsForSuccess, []*dto.LabelPair{d, o.label})
	x.histogram = &dto.Histogram{SampleCount: &count, SampleSum: &sum, Bucket: classicBuckets(untilBounds, alone[:]), CreatedTimestamp: s.since}
	s.to <- x
}
