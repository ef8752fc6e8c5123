package tune

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/gabion-go/gabion/internal/finding"
	"github.com/gabion-go/gabion/internal/suggest"
	"github.com/gabion-go/gabion/lab/internal/scenario"
	"github.com/gabion-go/gabion/policy"
)

// UsualGoal is the goal of who says none: more is answered, and nothing gets worse than it is
// with the file or with the defaults.
const UsualGoal = "goodput first, amplification <= usual, recovery <= usual"

// Goal is what is to be had: one metric is to be as good as possible, and the others
// have bounds.
type Goal struct {
	Text      string
	Objective Column
	Bounds    []Bound
}

// Bound is what a metric must keep to.
type Bound struct {
	Text   string // as it was given
	Column Column
	AtMost bool    // or at least
	Now    bool    // the bound is what the file comes to today, in the same run
	Usual  bool    // or what the defaults come to, if that is easier to keep; Now is set
	Slack  float64 // and this share more, or less
	Value  float64 // in seconds, as a share of one, or as a number; of no use with Now
	Added  bool    // it was not in the text
}

// GoalError says what is wrong with the text of a goal.
type GoalError struct{ finding.Finding }

// maxGoal is the length of the longest goal.
const maxGoal = 1000

// ParseGoal reads a goal such as
//
//	goodput first, amplification <= 1.2, recovery <= 10s
//
// Its parts have commas between them. One of them names what is to be as good as possible:
// METRIC first. The others are METRIC <= VALUE or METRIC >= VALUE, where a value is now for
// what the file comes to today, now+10% for a tenth more, usual and usual+10% for the same or
// what the defaults come to, if that is easier to keep, a duration, a percentage or a
// number. A phase may follow a metric or a value: before, during, during faults, after, or
// overall. Without one the whole run counts, but for amplification and load the trouble. The
// error is a *[GoalError].
func ParseGoal(text string) (*Goal, error) {
	if strings.TrimSpace(text) == "" {
		text = UsualGoal
	}
	g := &Goal{Text: text}
	if len(text) > maxGoal || !utf8.ValidString(text) {
		return nil, &GoalError{finding.Finding{File: "goal", Line: 1, Col: 1, Reason: "the text is too long, or no text", Proposal: "write one such as " + UsualGoal}}
	}
	at, found := 0, false
	for part := range strings.SplitSeq(text, ",") {
		p := &parser{text: text, end: at + len(part), at: at}
		first, err := p.clause(g)
		if err == nil && first && found {
			err = p.fail(at, "two metrics are first", "say of one of them what it must keep to, such as recovery <= 10s")
		}
		if err != nil {
			return nil, err
		}
		found = found || first
		at += len(part) + 1
	}
	if !found {
		return nil, (&parser{text: text}).fail(0, "nothing is first", "name what is to be as good as possible, such as goodput first")
	}
	g.guard()
	return g, nil
}

// guard adds what keeps an objective honest: latencies are those of answers, and to send
// nothing is the least load.
func (g *Goal) guard() {
	of := func(b Bound) bool { return b.Column.Key == "goodput" || b.Column.Key == "success" }
	if key := g.Objective.Key; key != "goodput" && key != "success" && !slices.ContainsFunc(g.Bounds, of) {
		g.Bounds = append(g.Bounds, Bound{Text: "goodput >= now", Column: Column{Key: "goodput"}, Now: true, Added: true})
	}
}

// parser reads one part of a goal from left to right.
type parser struct {
	text    string
	at, end int
}

// fail says what is wrong at a place of the text.
func (p *parser) fail(at int, reason, proposal string) error {
	at += len(p.text[at:]) - len(strings.TrimLeft(p.text[at:], " \t"))
	return &GoalError{finding.Finding{File: "goal", Line: 1, Col: 1 + utf8.RuneCountInString(p.text[:at]), Reason: reason, Proposal: proposal, Snippet: p.text}}
}

// word takes the next word: of signs, or of all else but blanks.
func (p *parser) word() (word string, at int) {
	for p.at < p.end && (p.text[p.at] == ' ' || p.text[p.at] == '\t') {
		p.at++
	}
	at = p.at
	signs := false
	for i, r := range p.text[at:p.end] {
		isSign := strings.ContainsRune("<>=≤≥!", r)
		if i == 0 {
			signs = isSign
		}
		if r == ' ' || r == '\t' || isSign != signs {
			break
		}
		p.at = at + i + utf8.RuneLen(r)
	}
	return p.text[at:p.at], at
}

// clause reads one part, and says whether it is what is first.
func (p *parser) clause(g *Goal) (first bool, err error) {
	key, at := p.word()
	m := metricOf(key)
	switch {
	case key == "":
		return false, p.fail(at, "a part is empty", "remove the comma")
	case m == nil:
		return false, p.fail(at, fmt.Sprintf("there is no metric %q", key), suggest.For(key, keys(), "use one of "+strings.Join(keys(), ", ")))
	}
	column := Column{key, m.phase}
	op, opAt := p.word()
	if slices.Contains(phaseWords, op) {
		if err := p.phase(m, op, opAt, &column); err != nil {
			return false, err
		}
		op, opAt = p.word()
	}
	if op == "first" {
		g.Objective = column
		return true, p.rest(m, &column)
	}
	b := Bound{Column: column}
	switch op {
	case "<=", "≤":
		b.AtMost = true
	case ">=", "≥":
	default:
		return false, p.fail(opAt, fmt.Sprintf("%q follows %s", op, key), operatorFor(op, m))
	}
	if b.AtMost == m.more {
		return false, p.fail(opAt, fmt.Sprintf("%s is better if there is %s of it", key, map[bool]string{true: "more", false: "less"}[m.more]),
			"write "+map[bool]string{true: ">=", false: "<="}[m.more])
	}
	if err := p.value(m, &b); err != nil {
		return false, err
	}
	if err := p.rest(m, &b.Column); err != nil {
		return false, err
	}
	b.Text = strings.Join(strings.Fields(p.text[at:p.end]), " ")
	g.Bounds = append(g.Bounds, b)
	return false, nil
}

// operatorFor proposes what to write after a metric.
func operatorFor(op string, m *metric) string {
	if suggest.Nearest(op, []string{"first"}) != "" {
		return `did you mean "first"?`
	}
	return "write first, or " + map[bool]string{true: ">=", false: "<="}[m.more] + " and a value"
}

// phaseWords are the words for phases.
var phaseWords = []string{"before", "during", "after", "overall"}

// phase takes a phase, of which the first word is read.
func (p *parser) phase(m *metric, word string, at int, c *Column) error {
	if m.whole {
		return p.fail(at, m.key+" is of the whole run", "remove "+word)
	}
	c.Phase = word
	if word == "overall" {
		c.Phase = ""
	}
	for before := p.at; ; before = p.at {
		if next, _ := p.word(); word != "during" || next != "the" && next != "faults" {
			p.at = before
			return nil
		}
	}
}

// rest takes a phase at the end of a part, and wants nothing else there.
func (p *parser) rest(m *metric, c *Column) error {
	word, at := p.word()
	if slices.Contains(phaseWords, word) {
		if err := p.phase(m, word, at, c); err != nil {
			return err
		}
		word, at = p.word()
	}
	if word != "" {
		return p.fail(at, fmt.Sprintf("%q is at the end of a part", word), "write a comma between parts, and before, during, after or overall for a phase")
	}
	return nil
}

// value reads what a metric must keep to.
func (p *parser) value(m *metric, b *Bound) error {
	text, at := p.word()
	if text == "" {
		return p.fail(at, "a value is missing", "write "+exampleOf(m)+", or now")
	}
	word := "now"
	if b.Usual = strings.HasPrefix(text, "usual"); b.Usual {
		word = "usual"
	}
	if slack, now := strings.CutPrefix(text, word); now {
		b.Now = true
		if slack == "" {
			return nil
		}
		sign := map[bool]string{true: "+", false: "-"}[b.AtMost]
		share, ok := strings.CutPrefix(slack, sign)
		x, err := percentage(share)
		if !ok || err != nil {
			return p.fail(at, fmt.Sprintf("%q is no bound", text), "write "+word+", or "+word+sign+"10%")
		}
		b.Slack = x
		return nil
	}
	x, err := valueOf(m.unit, text)
	if err != nil {
		return p.fail(at, fmt.Sprintf("%q is no value of %s", text, m.key), "write "+exampleOf(m)+", or now")
	}
	b.Value = x
	return nil
}

func exampleOf(m *metric) string {
	switch {
	case m.unit == scenario.Share && m.more:
		return "one such as 95%"
	case m.unit == scenario.Share:
		return "one such as 5%"
	case m.unit == scenario.Seconds && m.whole:
		return "one such as 10s"
	case m.unit == scenario.Seconds:
		return "one such as 250ms"
	}
	return "one such as 1.2"
}

func valueOf(unit, text string) (float64, error) {
	switch unit {
	case scenario.Share:
		return percentage(text)
	case scenario.Seconds:
		if text == "0s" {
			return 0, nil
		}
		d, err := policy.ParseDuration(text)
		if err == nil && d < 0 {
			err = strconv.ErrSyntax
		}
		return d.Seconds(), err
	}
	if strings.Trim(text, "0123456789.") != "" {
		return 0, strconv.ErrSyntax
	}
	x, err := strconv.ParseFloat(text, 64)
	if err == nil && (math.IsNaN(x) || x > 1e9) {
		err = strconv.ErrRange
	}
	return x, err
}

// percentage reads 0% to 100%.
func percentage(text string) (float64, error) {
	number, ok := strings.CutSuffix(text, "%")
	if !ok || strings.Trim(number, "0123456789.") != "" {
		return 0, strconv.ErrSyntax
	}
	x, err := strconv.ParseFloat(number, 64)
	if err == nil && x > 100 {
		err = strconv.ErrRange
	}
	return x / 100, err
}
