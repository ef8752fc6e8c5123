package gabionotel

import (
	"context"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/policy"
)

const (
	keyState  = attribute.Key("gabion.breaker.state")
	keyFrom   = attribute.Key("gabion.breaker.from")
	keyTo     = attribute.Key("gabion.breaker.to")
	keyCause  = attribute.Key("gabion.breaker.cause")
	keyResult = attribute.Key("gabion.result")
)

// few returns a label set of an instrument whose labels have few values. What names the
// instrument, whose sets are kept apart.
func (d *dependency) few(what byte, key attribute.Key, value string) *measured {
	l := labels{what: what, a: value}
	if set := d.rest.get(l); set != nil {
		return set
	}
	l.a = strings.Clone(value)
	set := d.rest.put(l, maxFew, func() *measured { return newMeasured(keyDependency.String(d.name), key.String(l.a)) })
	if set == nil {
		return &d.set
	}
	return set
}

// maxFew bounds the label sets of all such instruments of a dependency: the reasons and
// causes are closed sets, and codes of keys and messages are small ones.
const maxFew = 500

// move returns the label set of a breaker's change.
func (d *dependency) move(e *gabion.Event) *measured {
	l := labels{'t', e.From.String(), e.To.String(), e.Cause.String()}
	if set := d.rest.get(l); set != nil {
		return set
	}
	set := d.rest.put(l, maxFew, func() *measured {
		return newMeasured(keyDependency.String(d.name), keyFrom.String(l.a), keyTo.String(l.b), keyCause.String(l.c))
	})
	if set == nil {
		return &d.set
	}
	return set
}

// decided returns the label set of what was decided about a key or a message: what, and of
// messages after a slash why.
func (d *dependency) decided(what byte, code string) *measured {
	if len(code) > maxName {
		code = overflow
	}
	l := labels{what: what}
	l.a, l.b, _ = strings.Cut(code, "/")
	if set := d.rest.get(l); set != nil {
		return set
	}
	l.a, l.b = strings.Clone(l.a), strings.Clone(l.b)
	set := d.rest.put(l, maxFew, func() *measured {
		return newMeasured(keyDependency.String(d.name), keyResult.String(l.a), keyReason.String(l.b))
	})
	if set == nil {
		return &d.set
	}
	return set
}

// gauge is one that is read from the statistics of a dependency.
type gauge struct {
	name, unit, means string
	read              func(*gabion.Stats) (value int64, is bool)
}

var gauges = []gauge{
	{"gabion.bulkhead.in_flight", "{slot}", "Slots of the bulkhead that are taken.",
		func(s *gabion.Stats) (int64, bool) { return int64(s.Bulkhead.InUse), s.Bulkhead.Limit > 0 }},
	{"gabion.bulkhead.queued", "{call}", "Calls that wait for a slot.",
		func(s *gabion.Stats) (int64, bool) { return int64(s.Bulkhead.Queued), s.Bulkhead.Limit > 0 }},
	{"gabion.bulkhead.limit", "{slot}", "The most slots that may be taken.",
		func(s *gabion.Stats) (int64, bool) { return int64(s.Bulkhead.Limit), s.Bulkhead.Limit > 0 }},
	{"gabion.retry_budget.tokens", "{attempt}", "Retries and hedges that the budget allows right now.",
		func(s *gabion.Stats) (int64, bool) { return s.Budget.Level, !s.Budget.Off }},
	{"gabion.streams.open", "{result}", "Results that are open for longer than their attempt's time, such as streams.",
		func(s *gabion.Stats) (int64, bool) { return s.Streams, true }},
	{"gabion.retries.off", "1", "1 where retries are switched off.",
		func(s *gabion.Stats) (int64, bool) {
			if s.RetriesOff {
				return 1, true
			}
			return 0, true
		}},
}

// gauges reads [Config.Stats] once for each collection.
func (m *meters) gauges(o *Observer) {
	if o.config.Stats == nil {
		return
	}
	state, err := m.meter.Int64ObservableGauge("gabion.breaker.partitions", metric.WithUnit("{breaker}"),
		metric.WithDescription("How many breakers of the dependency, one for each partition, are in each state."))
	report(err)
	all := []metric.Observable{state}
	read := make([]metric.Int64ObservableGauge, len(gauges))
	for i, g := range gauges {
		read[i], err = m.meter.Int64ObservableGauge(g.name, metric.WithUnit(g.unit), metric.WithDescription(g.means))
		report(err)
		all = append(all, read[i])
	}
	m.reading, err = m.meter.RegisterCallback(func(_ context.Context, to metric.Observer) error {
		for _, s := range o.config.Stats() {
			d := o.names.dependency(s.Name)
			if d.name != s.Name { // past the bound: sums of others say nothing
				continue
			}
			for i, g := range gauges {
				if value, is := g.read(&s); is {
					to.ObserveInt64(read[i], value, metric.WithAttributeSet(d.set.set))
				}
			}
			for in, n := range states(&s) {
				to.ObserveInt64(state, n, metric.WithAttributeSet(d.few('g', keyState, policy.BreakerState(in).String()).set))
			}
		}
		return nil
	}, all...)
	report(err)
}

// states counts the breakers by state. All states are reported, so that each series goes
// back to 0.
func states(s *gabion.Stats) (n [6]int64) {
	count := func(p *policy.PartitionStats) {
		if p.Guarded && int(p.Breaker.State) < len(n) {
			n[p.Breaker.State]++
		}
	}
	count(&s.Main)
	for i := range s.Partitions {
		count(&s.Partitions[i])
	}
	return n
}
