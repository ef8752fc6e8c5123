package report

import (
	"fmt"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/gabion-go/gabion/lab/internal/scenario"
)

// headName is what a headline is called where there is little room.
func headName(h *scenario.Headline) string {
	switch h.Key {
	case "goodput":
		if h.Phase == during {
			return "  in the trouble"
		}
		return "answered in time"
	case "failed_time":
		return "waits for nothing"
	case "load":
		if h.Phase == during {
			return "load in the trouble"
		}
		return "load"
	case "peak":
		return "peak afterwards"
	case "recovery":
		return "recovery, " + map[string]string{"p50": "half of runs", "p80": "4 of 5 runs", "worst": "the worst"}[h.At]
	case "stuck":
		return "stays down"
	case "doubled_share":
		return "effects done again"
	case "lost_share":
		return "effects lost"
	}
	return h.Name
}

// headValue writes a headline of a side: where runs end in two ways, both.
func (s *sheet) headValue(i int, h *scenario.Headline) string {
	if m := find(metricsIn(&s.all[i], h.Phase), h.Key); m != nil && h.At == "mean" && m.Modes != nil {
		return value(m)
	}
	return measure(h.Value.Value, h.Unit)
}

// verdictOf is the verdict on a side in a headline against the first side; empty for the first
// side itself.
func (s *sheet) verdictOf(i int, h *scenario.Headline) string {
	if h.At != "mean" && h.At != "p50" {
		return ""
	}
	for _, j := range s.Judgements {
		for k := range j.Heads {
			d := &j.Heads[k]
			switch {
			case d.Key != h.Key || d.Phase != h.Phase:
			case j.A == 0 && j.B == i:
				return d.Verdict
			case j.B == 0 && j.A == i:
				return map[string]string{better: worse, worse: better}[d.Verdict]
			}
		}
	}
	return ""
}

// shortName is the end of a long name, which tells more than its beginning: of files
// that is their name.
func (s *sheet) shortName(i, width int) string {
	name := oneLine(s.all[i].Name)
	if n := utf8.RuneCountInString(name); n > width && width > 1 {
		return "…" + string([]rune(name)[n-width+1:])
	}
	return name
}

// verdict is the figures by which it is judged who wins.
func (s *sheet) verdict() *node {
	if len(s.all) < 2 || len(s.Judgements) == 0 {
		return nil
	}
	parts := []*node{}
	head := el("tr").add(words("th", "", ""))
	for i := range s.all {
		head.add(words("th", "n", s.all[i].Name))
	}
	body := el("tbody")
	for k := range s.all[0].Heads {
		h := &s.all[0].Heads[k]
		row := el("tr").add(words("th", "", strings.TrimSpace(headName(h))))
		for i := range s.all {
			if k >= len(s.all[i].Heads) {
				row.add(el("td"))
				continue
			}
			mine := &s.all[i].Heads[k]
			margin := ""
			if m := mine.Value; !math.IsInf(m.Low, -1) {
				margin = interval(m, mine.Unit)
			}
			cell := numbers(s.headValue(i, mine), "")
			if v := s.verdictOf(i, mine); v == better || v == worse {
				cell.add(&node{text: " "}, words("span", "verdict "+v, v))
			}
			if margin != "" {
				cell.add(words("span", "margin", margin))
			}
			row.add(cell)
		}
		body.add(row)
	}
	note := "Better and worse are against " + s.all[0].Name + ", resolved in pairs of runs with the same arrivals, service times and faults. The plain client makes one try, with the same timeouts and nothing else."
	parts = append(parts, scroll("Who wins", el("table", "class", "heads").add(el("thead").add(head), body)), words("p", "note", note))
	return section("verdict", "Who wins, in figures", parts...)
}

// judgements are the sentences that say who wins.
func (t *screen) judgements() {
	most := lines // the price stands at the end of a sentence
	for _, j := range t.Judgements[:min(len(t.Judgements), 2)] {
		t.wrapped(bold, oneLine(j.Sentence), most)
		if t.short {
			most = 2 // the figures say the rest
		}
	}
}

// headMargin is the interval of a headline that is a mean.
func (t *screen) headMargin(i int, h *scenario.Headline) string {
	if m := h.Value; h.At == "mean" && !math.IsInf(m.Low, -1) && !strings.Contains(t.headValue(i, h), " or ") {
		if said := interval(m, h.Unit); said != "" {
			return " (" + said + ")"
		}
	}
	return ""
}

// heads is the table of the headlines: all sides, by their names.
func (t *screen) heads() {
	if len(t.all) < 2 || len(t.all[0].Heads) == 0 {
		return
	}
	const label = 24
	column := min((t.width-label)/len(t.all), 38)
	head := strings.Repeat(" ", label)
	for i := range t.all {
		head += right(t.shortName(i, column-2), column)
	}
	t.line(faint, head)
	for k := range t.all[0].Heads {
		pieces := []string{"", left(headName(&t.all[0].Heads[k]), label)}
		for i := range t.all {
			if k >= len(t.all[i].Heads) {
				continue
			}
			h := &t.all[i].Heads[k]
			verdict := t.verdictOf(i, h)
			text := t.headValue(i, h)
			said := ""
			if column >= 18 && (verdict == better || verdict == worse) && utf8.RuneCountInString(text+" "+verdict) < column {
				said = " " + verdict
			}
			if with := text + t.headMargin(i, h) + said; column > 26 && utf8.RuneCountInString(with) < column {
				text = with
			} else {
				text += said
			}
			pieces = append(pieces, map[string]string{worse: red, better: green}[verdict], right(text, column))
		}
		t.line(pieces...)
	}
	t.line(faint, cut("better and worse: against "+t.shortName(0, 30)+", resolved in pairs of runs", t.width))
	t.line()
}

// outcome is how runs end, and what hurt. Of sides that are compared the headlines say
// the first.
func (t *screen) outcome() {
	label, before := nameWidth+t.sideWidth(), t.w.Len()
	for i := range t.Sides {
		side := &t.Sides[i]
		whose := ""
		if len(t.Sides) > 1 {
			whose = t.shortName(i, label-12) + " "
		}
		if t.During[1] > t.During[0] && (len(t.Sides) == 1 || len(side.Heads) == 0) {
			t.line("", left(whose+"stays down", label), "", fmt.Sprintf("%s of runs (%s; %s)", percent(side.Stuck.Value), interval(side.Stuck, scenario.Share), stuckText(side)))
		}
		if m := side.Modes; m != nil && t.limit > 1 {
			t.line("", left("  two ways", label), "", fmt.Sprintf("goodput after it %s in %s of runs, else %s", percent(m.High), percent(m.ShareOfHigh), percent(m.Low)))
		}
		if len(side.Worst) > 0 && (t.limit > 1 || len(t.Sides) == 1) {
			t.line("", left(whose+"hurt most", label), "", percent(side.Worst[0].Share)+" "+oneLine(causeText(side.Worst[0])))
		}
	}
	if t.w.Len() > before {
		t.line()
	}
}
