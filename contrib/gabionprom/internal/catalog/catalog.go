// Package catalog lists every metric of gabionprom. The collector takes names, help and
// labels from it; documents, dashboards and alerts are made from it and checked against it.
package catalog

import "slices"

// Type is what Prometheus calls the type of a metric.
type Type string

// The types in use.
const (
	Counter   Type = "counter"
	Gauge     Type = "gauge"
	Histogram Type = "histogram"
)

// Metric is one metric. Labels are in alphabetical order, as they are exposed.
type Metric struct {
	Name   string
	Type   Type
	Unit   string // what one is; empty for a plain number of the things that Help names
	Labels []string
	Help   string // one sentence, exposed as HELP
	Note   string // more for readers of the document
	Native bool   // a histogram that is exposed in both forms
}

// Has reports whether the metric has the label.
func (m *Metric) Has(label string) bool { return slices.Contains(m.Labels, label) }

// all is in the order of declaration, which is that of the document.
var all []*Metric

// All returns every metric.
func All() []*Metric { return slices.Clone(all) }

// Find returns the metric that a series belongs to, or nil. A histogram's series end in
// _bucket, _sum and _count.
func Find(series string) *Metric {
	for _, m := range all {
		if m.Name == series || m.Type == Histogram && slices.Contains([]string{m.Name + "_bucket", m.Name + "_sum", m.Name + "_count"}, series) {
			return m
		}
	}
	return nil
}

func add(m Metric) *Metric {
	slices.Sort(m.Labels)
	all = append(all, &m)
	return &m
}

func counter(name, help string, labels ...string) *Metric {
	return add(Metric{Name: name, Type: Counter, Help: help, Labels: labels})
}

func gauge(name, help string, labels ...string) *Metric {
	return add(Metric{Name: name, Type: Gauge, Help: help, Labels: labels})
}

func (m *Metric) unit(unit string) *Metric { m.Unit = unit; return m }

func (m *Metric) note(text string) *Metric { m.Note = text; return m }

func seconds(name, help string, labels ...string) *Metric {
	return add(Metric{Name: name, Type: Histogram, Unit: "seconds", Help: help, Labels: labels, Native: true})
}
