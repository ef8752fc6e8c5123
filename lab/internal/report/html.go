package report

import (
	"bufio"
	_ "embed" // the page's style
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/gabion-go/gabion/lab/internal/scenario"
)

//go:embed style.css
var style string

// HTML writes the page: one file that asks nothing of a network, and whose only script
// zooms. It returns what w returned.
func HTML(w io.Writer, s *scenario.Study) error {
	b := bufio.NewWriter(w)
	b.WriteString("<!doctype html>\n")
	page(newSheet(s)).write(b)
	return b.Flush()
}

func page(s *sheet) *node {
	css := "\n" + style
	head := el("head").add(
		el("meta", "charset", "utf-8"),
		el("meta", "name", "viewport", "content", "width=device-width, initial-scale=1"),
		el("meta", "name", "color-scheme", "content", "light dark"),
		el("meta", "http-equiv", "Content-Security-Policy", "content", policyOf(css, script)),
		el("title").say(title(s.Study)+" · gabion lab"), el("style").add(&node{text: css, safe: true}))
	pictures := el("div").add(s.zoomBar(), s.lead(), s.glance(), s.pictures())
	main := el("main").add(pictures, s.verdict(), s.worst(), s.asserts(), s.phases(), s.spread(), s.compare(), s.vulnerable(), s.timeline(), s.assumptions(), s.reproduce())
	return el("html", "lang", "en").add(head, el("body").add(s.header(), main, el("script").add(&node{text: script, safe: true})))
}

func title(s *scenario.Study) string {
	if s.Title != "" {
		return s.Title
	}
	return s.Name
}

func (s *sheet) header() *node {
	h := el("header").add(words("p", "kicker", "gabion lab · "+s.Name), words("h1", "", title(s.Study)))
	if len(s.Sides) == 2 {
		h.add(el("p", "class", "sides").add(words("b", "", s.Sides[0].Name), &node{text: " against "}, words("b", "", s.Sides[1].Name)))
	}
	h.add(s.sentences())
	for _, w := range s.Warnings {
		h.add(words("p", "broken", "Beware: "+w))
	}
	for i := range s.Sides {
		for _, broken := range s.Sides[i].Broken {
			h.add(words("p", "broken", "The simulation contradicts itself, so believe nothing below: "+broken))
		}
	}
	story := el("div", "class", "panel")
	for _, par := range strings.Split(strings.TrimSpace(s.Story), "\n\n") {
		if text := strings.Join(strings.Fields(par), " "); text != "" {
			story.add(words("p", "story", text))
		}
	}
	facts := el("p", "class", "facts")
	for _, f := range []string{counted(s.Replications, "run"), span(s.Duration) + " each", "seed " + strconv.FormatUint(s.Seed, 10), grouped(strconv.FormatUint(s.Events, 10)) + " events"} {
		facts.add(words("span", "", f))
	}
	return h.add(el("div", "class", "intro").add(story.add(facts), s.diagram()))
}

// sentences say who wins, for whom, at what price; of one side, how its assertions went.
func (s *sheet) sentences() *node {
	if len(s.all) < 2 || len(s.Judgements) == 0 {
		if len(s.Sides) == 1 && len(s.Sides[0].Asserts) > 0 {
			class := "lead"
			if _, no, _ := tally(s.Sides[0].Asserts); no > 0 {
				class = "lead bad"
			}
			return words("p", class, tallyText(s.Sides[0].Asserts))
		}
		return nil
	}
	all := el("div", "class", "judged").add(s.naming("lead", s.Judgements[0].Sentence))
	for _, j := range s.Judgements[1:] {
		all.add(s.naming("also", j.Sentence))
	}
	return all
}

// naming is a sentence in which the names of sides stand out: one may be called none.
func (s *sheet) naming(class, sentence string) *node {
	names := []string{"$."} // matches nothing
	for i := range s.all {
		if name := printable(s.all[i].Name); name != "" {
			names = append(names, regexp.QuoteMeta(name))
		}
	}
	sentence = printable(sentence)
	slices.SortFunc(names, func(a, b string) int { return len(b) - len(a) })
	n, at := el("p", "class", class), 0
	for _, m := range regexp.MustCompile(`(?:^|\s)(`+strings.Join(names, "|")+`)(?:[\s',.:;]|$)`).FindAllStringSubmatchIndex(sentence, -1) {
		n.add(&node{text: together(sentence[at:m[2]])}, words("b", "", sentence[m[2]:m[3]]))
		at = m[3]
	}
	return n.add(&node{text: together(sentence[at:])})
}

// section is a part of the page; nil when there is nothing in it.
func section(id, heading string, parts ...*node) *node {
	n := el("section", "id", id).add(words("h2", "", heading))
	had := len(n.kids)
	if n.add(parts...); len(n.kids) == had {
		return nil
	}
	return n
}

// modes says that runs end in two ways.
func (s *sheet) modes() *node {
	list := el("div")
	for i := range s.Sides {
		if t := s.Sides[i].Modes; t != nil {
			list.add(words("p", "note", s.whose(i)+modesText(t)))
		}
	}
	if len(list.kids) == 0 {
		return nil
	}
	return list
}

func (s *sheet) whose(i int) string {
	if len(s.Sides) == 1 {
		return ""
	}
	return s.Sides[i].Name + ": "
}

func modesText(t *scenario.TwoModes) string {
	return fmt.Sprintf("Runs end in two ways, and a mean would describe neither: goodput after the trouble is about %s in %s of the runs, and about %s in the others.",
		percent(t.High), percent(t.ShareOfHigh), percent(t.Low))
}

// worst is what hurt most.
func (s *sheet) worst() *node {
	panels := el("div", "class", "panels n"+strconv.Itoa(len(s.Sides)))
	most := 1.0 // of what is beyond need there may be more than all
	for i := range s.Sides {
		for _, c := range s.Sides[i].Worst {
			most = max(most, c.Share)
		}
	}
	some := false
	for i := range s.Sides {
		panel := el("div", "class", "panel")
		if len(s.Sides) > 1 {
			panel.add(words("p", "side", s.sideName(i)))
		}
		list := el("ul", "class", "causes")
		for _, c := range s.Sides[i].Worst {
			some = true
			bar := el("svg", "class", "bar", "width", "100%", "height", "5", "aria-hidden", "true").add(el("rect", "width", percentage(max(c.Share, 0)/most), "height", "5", "rx", "2"))
			list.add(el("li").add(bar, words("span", "share", percent(c.Share)), words("span", "", " "+causeText(c))))
		}
		panels.add(panel.add(list))
	}
	if !some {
		return nil
	}
	return section("worst", "What hurt most", panels)
}

func causeText(c scenario.Cause) string {
	text := c.Text
	if c.Of != "" && !strings.Contains(c.Text, c.Of) {
		text += " (" + c.Of + ")"
	}
	switch c.Phase {
	case "before", after:
		text += ", " + c.Phase + " the trouble"
	case during:
		text += ", in the trouble"
	}
	return text
}

// asserts is what the scenario asserts, and what became of it.
func (s *sheet) asserts() *node {
	if len(s.Sides[0].Asserts) == 0 {
		return nil
	}
	t := el("table", "class", "asserts")
	head := el("tr").add(words("th", "", "Assertion"))
	for i := range s.Sides {
		name := "measured"
		if len(s.Sides) > 1 {
			name = s.Sides[i].Name
		}
		head.add(el("th", "class", "n", "colspan", "2").say(name))
	}
	body := el("tbody")
	for k, v := range s.Sides[0].Asserts {
		row := el("tr").add(el("td", "class", "claim").add(words("code", "", v.Text)))
		for i := range s.Sides {
			if k >= len(s.Sides[i].Asserts) {
				continue
			}
			v := s.Sides[i].Asserts[k]
			measured := numbers(measure(v.Measured.Value, v.Unit), interval(v.Measured, v.Unit))
			if len(s.Sides) > 1 {
				measured.attr = append(measured.attr, "data-side", s.Sides[i].Name)
			}
			row.add(measured, el("td", "class", "ruling").add(holds(v.Holds)))
		}
		body.add(row)
	}
	var says []string
	for i := range s.Sides {
		says = append(says, s.whose(i)+tallyText(s.Sides[i].Asserts))
	}
	return section("assertions", "Assertions", words("p", "note", strings.Join(says, " ")), scroll("Assertions", t.add(el("thead").add(head), body)))
}

func holds(h scenario.Holds) *node {
	switch h {
	case scenario.Yes:
		return words("span", "verdict yes", "✓ holds")
	case scenario.No:
		return words("span", "verdict no", "✗ fails")
	}
	return words("span", "verdict unsure", "? unresolved")
}

// numbers is a cell with a value and its interval.
func numbers(value, interval string) *node {
	n := el("td", "class", "n").add(words("span", "value", value))
	if interval != "" {
		n.add(words("span", "margin", interval))
	}
	return n
}

// scroll lets a table be wider than a phone. Shadows at its edges say that there is more.
func scroll(name string, table *node) *node {
	return el("div", "class", "scroll", "tabindex", "0", "role", "region", "aria-label", name).add(table)
}

// lead is the picture that comes first.
func (s *sheet) lead() *node { return section("lead", "Over time", s.goodput()) }

func (s *sheet) pictures() *node {
	return section("time", "Behind it", s.attempts(), s.latency(), s.breakers(), s.budget(), s.tail(), s.queues(), s.useful())
}

// spread shows runs one by one, which no mean does.
func (s *sheet) spread() *node {
	if s.Replications < 2 {
		return nil
	}
	var parts []*node
	for _, t := range []struct{ phase, key, title string }{
		{after, "goodput", "Goodput after the trouble"}, {whole, "recovery", "Time until goodput was back"},
	} {
		m := s.pick(0, t.phase, t.key)
		if m == nil {
			continue
		}
		values := func(side int) []scenario.Number {
			if m := s.pick(side, t.phase, t.key); m != nil {
				return m.Values
			}
			return nil
		}
		parts = append(parts, s.dots("spread-"+t.key, t.title, m.Unit, values))
	}
	if len(parts) == 0 {
		return nil
	}
	note := "Each dot is one run; one that stands apart at the right, in another colour, never got there. Where the dots make two heaps, the probability of each is what counts."
	return section("runs", "Run by run", words("p", "note", note), el("div", "class", "panels n2").add(parts...))
}

func (s *sheet) timeline() *node {
	if len(s.Timeline) == 0 {
		return nil
	}
	const limit = 200 // lines; more are not read
	body := el("tbody")
	for i, l := range s.Timeline[:min(len(s.Timeline), limit)] {
		row := el("tr")
		if i > 0 && s.Timeline[i-1].Call != l.Call {
			row = el("tr", "class", "next")
		}
		body.add(row.add(words("td", "n", instant(l.At)), words("td", "n", strconv.FormatUint(l.Call, 10)), words("td", "", l.Of), words("td", "", l.Text)))
	}
	head := el("tr").add(words("th", "n", "at"), words("th", "n", "call"), words("th", "", "on"), words("th", "", "decision"))
	note := "What the policy decided about one client's calls, one after the other."
	if len(s.Timeline) > limit {
		note += fmt.Sprintf(" These are the first %d of %d decisions.", limit, len(s.Timeline))
	}
	return section("timeline", "One client", words("p", "note", note), scroll("Decisions", el("table", "class", "timeline").add(el("thead").add(head), body)))
}

// instant writes a time after the start to the millisecond.
func instant(seconds float64) string { return strconv.FormatFloat(seconds, 'f', 3, 64) + " s" }

func (s *sheet) assumptions() *node {
	if len(s.Assumptions) == 0 {
		return nil
	}
	list := el("ul")
	for _, a := range s.Assumptions {
		list.add(words("li", "", a))
	}
	n := section("assumptions", "What this leaves out", list)
	n.attr = append(n.attr, "class", "aside")
	return n
}

func (s *sheet) reproduce() *node {
	facts := el("p", "class", "facts").add(words("span", "", "hash of all events "+s.Hash))
	for i := range s.Sides {
		facts.add(words("span", "", s.whose(i)+"policies "+s.Sides[i].Config))
	}
	n := section("reproduce", "Once more", words("p", "note", "The same seed gives the same runs, event by event, on every machine."), el("pre").add(words("code", "", s.Command)), facts)
	if s.Text != "" {
		n.add(el("details").add(words("summary", "", "The scenario"), el("pre").add(words("code", "", s.Text))))
	}
	for i := range s.Sides {
		n.add(s.policies(i))
	}
	return n
}

func (s *sheet) policies(i int) *node {
	if len(s.Sides[i].Policies) == 0 {
		return nil
	}
	d := el("details").add(words("summary", "", "The policies"+s.of(i)))
	for _, p := range s.Sides[i].Policies {
		body := el("tbody")
		for _, v := range p.Settings {
			body.add(el("tr").add(el("td").add(words("code", "", v.Path)), el("td").add(words("code", "", v.Value)), words("td", "margin", v.Source)))
		}
		name := p.Name
		if p.Source != "" {
			name += ", from " + p.Source
		}
		d.add(words("h3", "", name), scroll(name, el("table", "class", "settings").add(body)))
	}
	return d
}
