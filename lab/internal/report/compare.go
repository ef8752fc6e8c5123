package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/gabion-go/gabion/lab/internal/scenario"
)

// compare is the two sides with the same random numbers.
func (s *sheet) compare() *node {
	if len(s.Sides) < 2 || len(s.Diffs) == 0 {
		return nil
	}
	a, b := s.Sides[0].Name, s.Sides[1].Name
	note := "Both sides had the same arrivals, service times and faults, run by run, so that the differences of pairs say more than two means. " +
		"Unresolved is where the interval of the difference holds zero, and the latency of answers where other calls were answered. Many of these metrics say the same thing, so they are not counted: who wins is said above."
	main, rest := s.headline(), []*scenario.Diff{}
	for i := range s.Diffs {
		if d := &s.Diffs[i]; !dull(d) && !slices.Contains(main, d) {
			rest = append(rest, d)
		}
	}
	slices.SortStableFunc(rest, func(a, b *scenario.Diff) int { return cmp.Compare(order(a), order(b)) })
	parts := []*node{words("p", "note", note)}
	if len(main) > 0 {
		parts = append(parts, s.differences("w", main))
	}
	if len(main) == 0 && len(s.headline()) == 0 {
		parts = append(parts, words("p", "note", "None of the metrics that people ask for first differs by more than chance explains."))
	}
	for _, phase := range [...]string{during, after, "before", whole} {
		if of := inPhase(rest, phase); len(of) > 0 {
			parts = append(parts, el("details").add(words("summary", "", "More metrics, "+strings.ToLower(tileTime(phase))+": "+resolvedText(of)), s.differences("u-"+phase, of)))
		}
	}
	return section("compare", "What differs: "+b+" against "+a, append(parts, s.settings())...)
}

func inPhase(all []*scenario.Diff, phase string) (of []*scenario.Diff) {
	for _, d := range all {
		if d.Phase == phase {
			of = append(of, d)
		}
	}
	return of
}

// resolvedText says how many of some metrics differ.
func resolvedText(of []*scenario.Diff) string {
	n := 0
	for _, d := range of {
		if order(d) < 2 {
			n++
		}
	}
	return fmt.Sprintf("%d of %d differ", n, len(of))
}

func (s *sheet) differences(id string, diffs []*scenario.Diff) *node {
	head := el("tr").add(words("th", "", "Metric"), words("th", "", s.Sides[1].Name+" is"), words("th", "n", "difference"), words("th", "n", s.Sides[0].Name), words("th", "n", s.Sides[1].Name), words("th", "whisker", "less or more, in pairs"))
	body := el("tbody")
	for i, d := range diffs {
		a, b, delta := s.both(d)
		name := el("th").add(&node{text: metricName(&scenario.Metric{Key: d.Key, Of: d.Of, Name: d.Name})}, words("span", "margin", strings.ToLower(tileTime(d.Phase))))
		body.add(el("tr").add(name, el("td").add(words("span", "verdict "+d.Verdict, d.Verdict)), numbers(delta, between(d.Delta, d.Unit, change)),
			numbers(a, ""), numbers(b, ""), el("td", "class", "whisker").add(whisker(d, id+strconv.Itoa(i)))))
	}
	return scroll("Paired differences", el("table", "class", "diffs").add(el("thead").add(head), body))
}

// whisker draws the interval of a difference around nothing.
func whisker(d *scenario.Diff, id string) *node {
	far := 0.0
	for _, x := range [...]float64{d.Delta.Low, d.Delta.High, d.Delta.Value} {
		if !math.IsInf(x, 0) && !math.IsNaN(x) {
			far = max(far, math.Abs(x))
		}
	}
	out := picture(id, "Difference in "+d.Name, "From "+change(d.Delta.Low, d.Unit)+" to "+change(d.Delta.High, d.Unit)+".", 16)
	out.attr = append(out.attr, "class", "whisk "+d.Verdict)
	out.add(el("line", "class", "zero", "x1", "50%", "x2", "50%", "y1", "0", "y2", "16"))
	if far == 0 || math.IsNaN(d.Delta.Value) {
		return out
	}
	at := func(x float64) string { return percentage(0.5 + float64(0.46*max(min(x/far, 1), -1))) }
	return out.add(el("line", "class", "range", "x1", at(d.Delta.Low), "x2", at(d.Delta.High), "y1", "8", "y2", "8"),
		el("circle", "cx", at(d.Delta.Value), "cy", "8", "r", "3.5"))
}
