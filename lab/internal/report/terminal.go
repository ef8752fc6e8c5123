package report

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/gabion-go/gabion/lab/internal/scenario"
)

// Options say what a terminal can do.
type Options struct {
	Width int  // in columns; zero means 80, and fewer than 40 means 40
	Color bool // leave it out where there is no terminal, or where NO_COLOR is set
}

// lines is how many a screen has, and roomy the limit of one that nothing is left out
// of.
const (
	lines = 40
	roomy = 5
)

// Terminal writes what fits on one screen of 40 lines. It returns what w returned.
func Terminal(w io.Writer, s *scenario.Study, o Options) error {
	t := screen{sheet: newSheet(s), width: 80, color: o.Color}
	if o.Width > 0 {
		t.width = max(o.Width, 40)
	}
	for t.limit = roomy; t.limit > 0; t.limit-- {
		t.show()
		if bytes.Count(t.w.Bytes(), []byte("\n")) <= lines {
			break
		}
	}
	if t.limit == 0 {
		t.limit, t.bare = 1, true
		t.show()
		if t.short = bytes.Count(t.w.Bytes(), []byte("\n")) > lines; t.short {
			t.show()
		}
	}
	_, err := w.Write(t.w.Bytes())
	return err
}

func (t *screen) show() {
	t.w.Reset()
	t.head()
	t.heads()
	if !t.bare && (t.Map == nil || t.limit == roomy || len(t.all[0].Heads) == 0) {
		if !t.resent() || t.limit > 1 {
			t.table()
		}
	}
	t.sparks()
	t.stays()
	t.verdicts()
	t.outcome()
	t.again()
}

// screen is a terminal that is written to. What doesn't fit is cut, since a line
// that wraps makes a table unreadable.
type screen struct {
	*sheet
	w     bytes.Buffer
	width int
	limit int  // of assertions and of differences
	bare  bool // what is not needed to say who wins is left out
	short bool // even the second sentence on who wins is cut
	color bool
}

// The colours, as ANSI has them.
const (
	bold  = "1"
	faint = "2"
	red   = "31"
	green = "32"
	amber = "33"
)

func (t *screen) paint(code, s string) string {
	if !t.color || code == "" || s == "" {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

// line writes pieces of a line, each a colour and a text, and cuts what is too
// much.
func (t *screen) line(pieces ...string) {
	room := t.width
	var out strings.Builder
	for i := 0; i+1 < len(pieces); i += 2 {
		s := cut(pieces[i+1], room)
		room -= utf8.RuneCountInString(s)
		out.WriteString(t.paint(pieces[i], s))
	}
	t.w.WriteString(strings.TrimRight(out.String(), " ") + "\n")
}

// oneLine puts a user's text on one line, without control characters.
func oneLine(s string) string { return strings.Join(strings.Fields(printable(s)), " ") }

// cut shortens s to a width.
func cut(s string, width int) string {
	if utf8.RuneCountInString(s) <= width {
		return s
	}
	if width <= 0 {
		return ""
	}
	return string([]rune(s)[:width-1]) + "…"
}

func left(s string, width int) string {
	s = cut(s, width)
	return s + strings.Repeat(" ", max(0, width-utf8.RuneCountInString(s)))
}

func right(s string, width int) string {
	s = cut(s, width)
	return strings.Repeat(" ", max(1, width-utf8.RuneCountInString(s))) + s
}

func (t *screen) head() {
	facts := fmt.Sprintf("%s × %s · seed %d", counted(t.Replications, "run"), span(t.Duration), t.Seed)
	name := cut(oneLine(title(t.Study)), max(t.width-utf8.RuneCountInString(facts)-2, t.width/2))
	t.line(bold, name, "", strings.Repeat(" ", max(2, t.width-utf8.RuneCountInString(name)-utf8.RuneCountInString(facts))), faint, facts)
	t.calls()
	t.troubles()
	for _, w := range t.Warnings[:min(len(t.Warnings), 2)] {
		t.wrapped(amber, "Beware: "+oneLine(w), 2)
	}
	if len(t.Sides) > 1 {
		t.line(bold, t.shortName(0, t.width/2-5), "", " against ", bold, t.shortName(1, t.width/2-5))
		t.judgements()
	}
	for i := range t.Sides {
		for _, broken := range t.Sides[i].Broken {
			t.line(red, "The simulation contradicts itself: "+oneLine(broken))
			break
		}
	}
	t.line()
}

// troubles are what goes wrong, and when: what comes several times is said once.
func (t *screen) troubles() {
	list := t.causes()
	room := min(2+t.limit/2, 4) // a screen of little else has room for more
	if len(list) > room {
		room--
	}
	for _, c := range list[:min(len(list), room)] {
		t.line(red, c.when()+"  "+oneLine(c.name))
	}
	if n := len(list) - room; n > 0 {
		t.line(red, "and "+counted(n, "other trouble"))
	}
}

// wrapped writes a text on as many lines as it needs, and at most most.
func (t *screen) wrapped(code, text string, most int) {
	line, n := "", 1
	for word := range strings.FieldsFuncSeq(together(text), func(r rune) bool { return r == ' ' }) {
		word = strings.ReplaceAll(word, hard, " ")
		if line != "" && utf8.RuneCountInString(line+" "+word) > t.width && n < most {
			t.line(code, line)
			line = " "
			n++
		}
		line = strings.TrimPrefix(line+" "+word, " ")
	}
	t.line(code, line)
}

// tableKeys are the metrics that the screen has room for.
var tableKeys = [...]string{"goodput", "amplification", "p99"}

// nameWidth is for what a row is of.
const nameWidth = 16

// sideWidth is for the name of a side, where there are several.
func (t *screen) sideWidth() (width int) {
	if len(t.Sides) < 2 {
		return 3
	}
	for i := range t.Sides {
		width = max(width, utf8.RuneCountInString(t.Sides[i].Name)+1)
	}
	return min(width, max(13, t.width/6))
}

// keys are the metrics that the table is of: where sides are compared, the headlines
// have said the rest.
func (t *screen) keys() []string {
	if len(t.all) > 1 && len(t.all[0].Heads) > 0 {
		return tableKeys[2:][:min(max(t.limit-2, 0), 1)] // p99, if there is room
	}
	return tableKeys[:]
}

// table has a row for each metric and side, and a column for each phase.
func (t *screen) table() {
	if len(t.Sides[0].Phases) == 0 {
		return
	}
	phases := t.Sides[0].Phases
	column := min((t.width-nameWidth-t.sideWidth())/len(phases), 20)
	head := strings.Repeat(" ", nameWidth+t.sideWidth())
	for _, ph := range phases {
		head += right(ph.Name, column)
	}
	t.line(faint, head)
	for _, key := range t.keys() {
		for i := range t.Sides {
			row, name := "", ""
			for _, ph := range phases {
				m := t.pick(i, ph.Name, key)
				if m != nil {
					name = key
				}
				row += right(cut(cell(m, column-1), column-1), column)
			}
			if name != "" {
				t.row(i, name, row)
			}
		}
	}
	for i := range t.Sides {
		row := ""
		for k := range phases {
			var ended []scenario.Ending
			if k < len(t.Sides[i].Phases) {
				ended = t.Sides[i].Phases[k].Ended
			}
			row += right(cut(mainFailure(ended), column-1), column)
		}
		t.row(i, "fails mostly by", row)
	}
	t.line()
}

func (t *screen) row(i int, name, row string) {
	if i > 0 {
		name = ""
	}
	if len(t.Sides) == 1 {
		t.line("", left(name, nameWidth+t.sideWidth()), "", row)
		return
	}
	t.line("", left(name, nameWidth), faint, left(t.shortName(i, t.sideWidth()-1), t.sideWidth()), "", row)
}

// cell has the interval too where it fits.
func cell(m *scenario.Metric, width int) string {
	if m == nil {
		return none
	}
	v := value(m)
	if m.Modes != nil {
		return v
	}
	e := m.Mean
	e.Low = max(e.Low, 0)
	ends := strings.Replace(between(e, m.Unit, bounds), " to ", "–", 1)
	if with := v + " (" + ends + ")"; ends != "" && !math.IsInf(m.Mean.Low, -1) && utf8.RuneCountInString(with) <= width {
		return with
	}
	return v
}

// bounds writes the end of an interval whose unit is said before it.
func bounds(x float64, unit string) string {
	s, _, _ := strings.Cut(measure(x, unit), " %")
	return s
}

func mainFailure(list []scenario.Ending) string {
	if f := failed(list); len(f) > 0 {
		return percent(f[0].Share) + " " + oneLine(f[0].Reason)
	}
	return none
}

// verdicts are the assertions, those that fail first.
func (t *screen) verdicts() {
	list := t.Sides[0].Asserts
	order := make([]int, len(list))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(t.rank(a), t.rank(b)) })
	for _, k := range order[:min(len(order), t.limit)] {
		pieces := []string{"", left(oneLine(list[k].Text), max(min(t.width-14*len(t.Sides), 48), 12))}
		for i := range t.Sides {
			if k < len(t.Sides[i].Asserts) {
				v := t.Sides[i].Asserts[k]
				sign, code := mark(v.Holds)
				text := measure(v.Measured.Value, v.Unit)
				if n := len(t.Sides[i].Runs); len(t.Sides) == 1 && v.Holds == scenario.No && v.Breaks.Value == 1 && n < few {
					text += fmt.Sprintf(" in %d of %s", n, counted(n, "run"))
				}
				pieces = append(pieces, code, " "+sign+" ", "", left(text, max(11, utf8.RuneCountInString(text))))
			}
		}
		t.line(pieces...)
	}
	if n := len(order) - t.limit; n > 0 {
		t.line(faint, fmt.Sprintf("and %d more: %s", n, tallyText(list)))
	}
	if slices.ContainsFunc(list, func(v scenario.Verdict) bool { return v.Holds == scenario.Unsure }) {
		t.line(faint, "? unresolved: what was measured may be on either side; more runs would tell")
	}
	if len(list) > 0 {
		t.line()
	}
}

// few are so few runs that it is said of how many a failure is.
const few = 6

// rank puts what fails anywhere first, and what holds everywhere last.
func (t *screen) rank(k int) int {
	rank := 2
	for i := range t.Sides {
		if k < len(t.Sides[i].Asserts) {
			switch t.Sides[i].Asserts[k].Holds {
			case scenario.No:
				rank = 0
			case scenario.Unsure:
				rank = min(rank, 1)
			}
		}
	}
	return rank
}

func mark(h scenario.Holds) (sign, code string) {
	switch h {
	case scenario.Yes:
		return "✓", green
	case scenario.No:
		return "✗", red
	}
	return "?", amber
}

// again is the command that shows this once more. It is never cut, so that it can be copied.
func (t *screen) again() {
	t.w.WriteString(t.paint(faint, "again: ") + oneLine(t.Command) + "\n")
	t.line(faint, "events "+cut(oneLine(t.Hash), 32))
}
