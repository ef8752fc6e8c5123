package report

import (
	"math"
	"slices"
	"strconv"

	"github.com/gabion-go/gabion/lab/internal/scenario"
)

// phases is every metric in every phase.
func (s *sheet) phases() *node {
	if len(s.Sides[0].Phases) == 0 {
		return nil
	}
	why := el("div", "class", "panels n"+strconv.Itoa(len(s.Sides)))
	for i := range s.Sides {
		if list := endings(&s.Sides[i]); list != nil {
			panel := el("div", "class", "panel")
			if len(s.Sides) > 1 {
				panel.add(words("p", "side", s.sideName(i)))
			}
			why.add(panel.add(list))
		}
	}
	if len(why.kids) > 0 {
		why = el("div", "class", "apart").add(words("h3", "", "Why calls failed"), why)
	}
	note := "Each number is the mean of the runs, or the middle one where it is a time to recover; below it is the interval that holds the truth with 95 % confidence. What is zero everywhere is left out."
	return section("phases", "Before, during, after", words("p", "note", note), scroll("Phases", s.phaseTable(false)), s.parts(), why)
}

// parts are the metrics of single services and fleets.
func (s *sheet) parts() *node {
	if !slices.ContainsFunc(s.Sides[0].Phases[0].Metrics, func(m scenario.Metric) bool { return m.Of != "" }) {
		return nil
	}
	return el("details").add(words("summary", "", "By service and fleet"), scroll("Phases, by service and fleet", s.phaseTable(true)))
}

// phaseTable has the sides of a phase next to each other, for what is about
// everything or for its parts.
func (s *sheet) phaseTable(parts bool) *node {
	phases := s.Sides[0].Phases
	head, letters := el("tr").add(el("th")), el("tr").add(el("th"))
	for _, ph := range phases {
		when := words("span", "margin", moment(clock(ph.From))+" to "+moment(clock(ph.To)))
		head.add(el("th", "class", "n over", "scope", "colgroup", "colspan", strconv.Itoa(len(s.Sides))).add(el("span", "class", "span").add(words("span", "", phaseName(ph.Name)), when)))
		for i := range s.Sides {
			class := "n letterhead"
			if i == 0 {
				class += " begins"
			}
			letters.add(words("th", class, s.Sides[i].Name))
		}
	}
	top := el("thead").add(head)
	if len(s.Sides) > 1 {
		top.add(letters)
	}
	body := el("tbody")
	for k := range phases[0].Metrics {
		m := &phases[0].Metrics[k]
		if (m.Of != "") != parts || s.nothing(m) {
			continue
		}
		row := el("tr").add(words("th", "", metricName(m)))
		for p := range phases {
			for i := range s.Sides {
				row.add(phaseCell(&s.Sides[i], p, m))
			}
		}
		body.add(row)
	}
	return el("table", "class", "phases").add(top, body)
}

// nothing reports whether a metric is zero or unknown in every phase of every side.
func (s *sheet) nothing(like *scenario.Metric) bool {
	for i := range s.Sides {
		for _, ph := range s.Sides[i].Phases {
			if m := matching(ph.Metrics, like); m != nil && m.Mean.Value != 0 && !math.IsNaN(m.Mean.Value) {
				return false
			}
		}
	}
	return true
}

func phaseCell(side *scenario.Side, phase int, like *scenario.Metric) *node {
	if phase < len(side.Phases) {
		if m := matching(side.Phases[phase].Metrics, like); m != nil {
			return numbers(value(m), margin(m))
		}
	}
	return el("td")
}

// endings is how calls ended in each phase, but for success.
func endings(side *scenario.Side) *node {
	list := el("dl", "class", "endings")
	for _, ph := range side.Phases {
		dd := el("dd")
		for _, e := range failed(ph.Ended) {
			name := e.Reason
			if e.Local {
				name += ", without an attempt"
			}
			dd.add(el("span", "class", "ending").add(words("b", "", percent(e.Share)), &node{text: " " + name}))
		}
		if len(dd.kids) > 0 {
			list.add(words("dt", "", phaseName(ph.Name)), dd)
		}
	}
	if len(list.kids) == 0 {
		return nil
	}
	return list
}

// failed returns the endings that are no success, and that more than one call in
// ten thousand had.
func failed(list []scenario.Ending) (out []scenario.Ending) {
	for _, e := range list {
		if e.Reason != "ok" && e.Share >= 1e-4 {
			out = append(out, e)
		}
	}
	return out
}
