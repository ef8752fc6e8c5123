package report

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/gabion-go/gabion/lab/internal/scenario"
)

// A card is one number of each side.
type card struct {
	name, when string
	values     []string // by side; all of them, the plain client included
	margins    []string
	verdicts   []string
	decides    bool
}

// same reports whether a card tells no side from another.
func (c *card) same() bool {
	for _, v := range c.values {
		if v != c.values[0] {
			return false
		}
	}
	return true
}

// cards are the few numbers that matter most, what decides first. What is the same on
// all sides is no card: it is returned apart.
func (s *sheet) cards() (list []card, same []string) {
	const most = 5
	all := s.headCards()
	if len(all) == 0 {
		all = s.plainCards()
	}
	for _, c := range all {
		switch {
		case len(s.all) > 1 && c.same():
			same = append(same, strings.ToLower(c.name[:1])+c.name[1:]+" "+c.values[0])
		case len(list) < most:
			list = append(list, c)
		}
	}
	return list, same
}

// headCards are the headlines by which sides are judged, those that weigh most first.
func (s *sheet) headCards() (list []card) {
	if len(s.all) < 2 || len(s.Judgements) == 0 {
		return nil
	}
	heads := s.all[0].Heads
	points := func(h *scenario.Headline) float64 {
		for _, w := range s.Judgements[0].Heads {
			if w.Key == h.Key && w.Phase == h.Phase {
				return math.Abs(w.Points)
			}
		}
		return 0
	}
	order := []int{}
	for k := range heads {
		if heads[k].At == "mean" || heads[k].At == "p50" {
			order = append(order, k)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(points(&heads[b]), points(&heads[a])) })
	for _, k := range order {
		c := card{name: cardName(&heads[k]), when: cardTime(&heads[k])}
		c.decides = len(list) == 0 && points(&heads[k]) > 0
		for i := range s.all {
			if k >= len(s.all[i].Heads) {
				continue
			}
			h := &s.all[i].Heads[k]
			margin := ""
			if m := h.Value; h.At == "mean" && !math.IsInf(m.Low, -1) {
				margin = interval(m, h.Unit)
			}
			c.values, c.margins, c.verdicts = append(c.values, s.headValue(i, h)), append(c.margins, margin), append(c.verdicts, s.verdictOf(i, h))
		}
		list = append(list, c)
	}
	return list
}

// cardName is what a headline is called on a card.
func cardName(h *scenario.Headline) string {
	switch h.Key {
	case "goodput":
		if h.Phase == during {
			return "Answered in the trouble"
		}
		return "Answered in time"
	case "failed_time":
		return "Waits for nothing"
	case "load":
		return "Load"
	case "peak":
		return "Peak afterwards"
	case "recovery":
		return "Recovery"
	case "stuck":
		return "Stays down"
	case "doubled_share":
		return "Effects done again"
	case "lost_share":
		return "Effects lost"
	}
	return h.Name
}

func cardTime(h *scenario.Headline) string {
	switch h.Key {
	case "goodput":
		if h.Phase == during {
			return "in time, of the calls that began in it"
		}
	case "failed_time":
		return "in calls that failed, per call"
	case "load":
		if h.Phase == during {
			return "in the trouble; 1 is what is needed"
		}
		return "1 is what is needed"
	case "peak":
		return "of the usual load"
	case "recovery":
		return "after the trouble, half of runs"
	case "stuck":
		return "probability, after the trouble"
	case "doubled_share", "lost_share":
		return "to messages, in the whole run"
	}
	return strings.ToLower(tileTime(h.Phase))
}

// plainCards are those of a study without a comparison.
func (s *sheet) plainCards() (list []card) {
	middle := whole
	if s.During[1] > s.During[0] {
		middle = during
	}
	for _, t := range []struct{ phase, key, name string }{
		{middle, "goodput", "Answered in time"}, {whole, "recovery", "Back to normal after"}, {middle, "amplification", "Attempts per call"}, {middle, "p99", "p99 of answers"},
	} {
		c := card{name: t.name, when: strings.ToLower(tileTime(t.phase))}
		for i := range s.Sides {
			if m := s.pick(i, t.phase, t.key); m != nil {
				c.values, c.margins, c.verdicts = append(c.values, value(m)), append(c.margins, margin(m)), append(c.verdicts, "")
			}
		}
		if len(c.values) == len(s.Sides) && slices.ContainsFunc(c.values, func(v string) bool { return v != none }) {
			list = append(list, c)
		}
	}
	if middle == during {
		c := card{name: "Stays down", when: "probability, after the trouble"}
		for i := range s.Sides {
			side := &s.Sides[i]
			c.values, c.verdicts = append(c.values, percent(side.Stuck.Value)), append(c.verdicts, "")
			c.margins = append(c.margins, interval(side.Stuck, scenario.Share)+"; "+stuckText(side))
		}
		list = append(list, c)
	}
	return list
}

// glance is the cards, and what they leave out.
func (s *sheet) glance() *node {
	list, same := s.cards()
	tiles := el("div", "class", "tiles n"+strconv.Itoa(max(len(list), 1)))
	for _, c := range list {
		tile := el("div", "class", "tile").add(words("p", "what", c.name), words("p", "when", c.when))
		if c.decides {
			tile = el("div", "class", "tile first").add(words("p", "what", c.name).add(words("span", "decides", "weighs most")), words("p", "when", c.when))
		}
		for i, v := range c.values {
			tile.add(s.reading(i, v, c.margins[i], c.verdicts[i]))
		}
		tiles.add(tile)
	}
	if len(list) == 0 {
		tiles = nil
	}
	var note *node
	if len(same) > 0 {
		note = words("p", "note", "The same on all sides: "+strings.Join(same, ", ")+".")
	}
	return section("glance", "At a glance", tiles, note, s.modes())
}

func (s *sheet) reading(i int, value, margin, verdict string) *node {
	class := "reading"
	if i > 1 {
		class += " third"
	}
	n := el("p", "class", class)
	if len(s.all) > 1 {
		n.add(words("span", "letter", s.all[i].Name))
	}
	n.add(words("span", "value", value))
	if verdict == better || verdict == worse {
		n.add(&node{text: " "}, words("span", "verdict "+verdict, verdict))
	}
	if margin != "" {
		n.add(&node{text: " "}, words("span", "margin", margin))
	}
	return n
}

func tileTime(phase string) string {
	if phase == whole {
		return "the whole run"
	}
	return phaseName(phase)
}
