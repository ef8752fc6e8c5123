package tune

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/gabion-go/gabion/internal/finding"
	"github.com/gabion-go/gabion/lab/internal/scenario"
)

// Terminal writes the result as text for people. The error is w's.
func (r *Result) Terminal(w io.Writer) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s of %s, for: %s\nin %s\n\n", show(r.Dependency), show(r.Config), show(r.Goal), show(strings.Join(r.Scenarios, ", ")))
	r.head(&b)
	r.proposal(&b)
	if r.Validation != nil && len(r.Validation.Rows) > 0 {
		r.validated(&b)
	}
	r.frontText(&b)
	r.guardText(&b)
	r.facts(&b)
	_, err := w.Write(b.Bytes())
	return err
}

// show keeps what a terminal would obey out of names from files.
func show(s string) string { return finding.Printable(s) }

// verdicts are what a result comes to, in a line.
var verdicts = map[string]string{
	Win:        "A better file was found, and the validation shows it.",
	Harmful:    "NOT BETTER: the best that was found is better here, and worse elsewhere. The file stays as it is.",
	Unresolved: "NOT RESOLVED: the validation does not show that the best that was found is better.",
	Nothing:    "NOT RESOLVED: nothing better was found.",
	Unfinished: "NOT VALIDATED: it ended before the validation could tell. What follows is the best that is known.",
}

func (r *Result) head(b *bytes.Buffer) {
	fmt.Fprintln(b, verdicts[r.Verdict])
	for _, why := range r.Why {
		fmt.Fprintf(b, "  %s\n", show(why))
	}
	b.WriteString("\n")
}

func (r *Result) proposal(b *bytes.Buffer) {
	if len(r.Changes) == 0 {
		return
	}
	fmt.Fprintln(b, map[bool]string{true: "Proposed:", false: "The best of the search, which is no proposal:"}[r.Verdict == Win])
	rows := [][]string{}
	for _, c := range r.Changes {
		rows = append(rows, []string{"  " + c.Path, c.From, "→ " + c.To, "(" + c.Source + ")"})
	}
	align(b, rows, 0)
	if r.Diff != "" {
		b.WriteString("\n" + r.Diff)
	}
	b.WriteString("\n")
}

func (r *Result) validated(b *bytes.Buffer) {
	v := r.Validation
	fmt.Fprintf(b, "Validation: %d seeds that the search has not seen, each as it is and with shorter, longer, milder and worse\ntrouble. Differences are of pairs of runs, with their 95 %% intervals.\n\n", v.Seeds)
	rows := [][]string{{"", "today", "best", "difference", ""}}
	for i := range v.Rows {
		j := &v.Rows[i]
		if j.Role == Cost && j.Verdict == "unresolved" && !slices.Contains([]string{"goodput", "amplification", "recovery"}, j.Label) {
			continue
		}
		label := j.Label
		switch {
		case j.Role == Bounded:
			label = j.Bound
		case j.Role == Objective && i > 0:
			label = "  " + strings.TrimPrefix(j.in(), " ")
		case j.Role == Objective:
			label += ", first"
		}
		if j.Role == Bounded && j.Scenario != "" {
			label += j.in()
		}
		says := j.Verdict
		if j.Role == Bounded {
			says = map[string]string{"yes": "holds", "no": "does not hold", "unresolved": "not resolved"}[j.Holds]
		} else if j.Role == Cost && j.Verdict == "worse" {
			says = "a cost"
		}
		rows = append(rows, []string{show(label), value(j.Now.Value, j.Unit), value(j.Best.Value, j.Unit), j.interval(), says})
	}
	align(b, rows, 1)
	b.WriteString("\n")
}

func (r *Result) frontText(b *bytes.Buffer) {
	if len(r.Front) < 2 {
		return
	}
	b.WriteString("The front, by the runs of the search, which are no proof: no candidate beats one of these in all columns.\n\n")
	head := []string{}
	for _, c := range r.Columns {
		head = append(head, c.Label)
	}
	rows := [][]string{append(head, "runs", "")}
	for _, f := range r.Front {
		row := []string{}
		for i, x := range f.Values {
			row = append(row, value(float64(x), r.Columns[i].Unit))
		}
		rows = append(rows, append(row, strconv.Itoa(f.Runs), f.text()))
	}
	alignRight(b, rows)
	b.WriteString("\n")
}

// text says what a row of the front changes.
func (f *FrontRow) text() string {
	if len(f.Changes) == 0 {
		return "today"
	}
	words := make([]string, len(f.Changes))
	for i, c := range f.Changes {
		words[i] = c.Path + "=" + c.To
	}
	if f.Proposed {
		return "best: " + strings.Join(words, " ")
	}
	return strings.Join(words, " ")
}

func (r *Result) guardText(b *bytes.Buffer) {
	g := r.Guard
	if g == nil {
		return
	}
	fmt.Fprintf(b, "In %d of the %d scenarios that judge the defaults, %d runs each, with what each says of keys and safety:\n", g.Scenarios, g.Planned, g.Runs)
	for _, j := range g.Worse {
		fmt.Fprintf(b, "  WORSE in %s: %s %s; the defaults: %s\n", j.Scenario, j.Label, j.difference(), value(j.Usual.Value, j.Unit))
	}
	for _, j := range g.Costs {
		fmt.Fprintf(b, "  a cost in %s: %s %s; the defaults: %s\n", j.Scenario, j.Label, j.difference(), value(j.Usual.Value, j.Unit))
	}
	for _, m := range g.Missing {
		fmt.Fprintf(b, "  not known: %s\n", show(m))
	}
	if len(g.Worse) == 0 {
		b.WriteString("  in none of them it is plainly worse than the file and than the defaults\n")
	}
	b.WriteString("\n")
}

// stops say why a search ended.
var stops = map[string]string{
	Settled: "nothing around the best is better", OutOfRuns: "the bound of runs was reached", OutOfTime: "its time was over", Interrupted: "it was interrupted",
}

func (r *Result) facts(b *bytes.Buffer) {
	fmt.Fprintf(b, "searched   %d candidates in %d runs, from %s on; %s\n", r.Search.Candidates, r.Search.Runs, r.Start, stops[r.Search.Stopped])
	var varied []string
	for _, d := range r.Dimensions {
		varied = append(varied, fmt.Sprintf("%s %s..%s", d.Path, d.Values[0], d.Values[len(d.Values)-1]))
	}
	fmt.Fprintf(b, "varied     %s\n", strings.Join(varied, ", "))
	if len(r.Added) > 0 {
		fmt.Fprintf(b, "added      %s, for without it the objective is met by sending nothing\n", strings.Join(r.Added, ", "))
	}
	if len(r.Idle) > 0 {
		fmt.Fprintf(b, "idle       %s: changes nothing in any run\n", strings.Join(r.Idle, ", "))
	}
	for _, n := range r.Notes {
		fmt.Fprintf(b, "note       %s\n", show(n))
	}
	if r.Verdict == Win {
		if r.Validation.Claim > 1 {
			fmt.Fprintf(b, "claim      number %d: what was validated before was not better\n", r.Validation.Claim)
		}
		if r.Guard == nil {
			b.WriteString("guards     none: whether it is worse in other scenarios is not known\n")
		}
		b.WriteString("how sure   where nothing is better, 1 validation of 40 says that something is. What the scenario does not model is not\n           in these numbers: gabion lab run shows what it does\n")
	}
	fmt.Fprintf(b, "again      %s\n", show(r.Command))
}

// in says where a row is.
func (j *Judged) in() string {
	switch {
	case j.Scenario != "" && j.Variant != "":
		return " in " + j.Scenario + ", " + j.Variant
	case j.Scenario != "":
		return " in " + j.Scenario
	case j.Variant == validated[0].name:
		return " " + j.Variant
	case j.Variant != "":
		return " with " + j.Variant
	}
	return ""
}

// difference spells a difference and its interval.
func (j *Judged) difference() string {
	return fmt.Sprintf("%s → %s, %s", value(j.Now.Value, j.Unit), value(j.Best.Value, j.Unit), j.interval())
}

func (j *Judged) interval() string {
	d := j.Delta
	if d.Low == d.High && d.Value == 0 {
		return "±0"
	}
	return fmt.Sprintf("%s (%s to %s)", signed(d.Value, j.Unit), signed(d.Low, j.Unit), signed(d.High, j.Unit))
}

// value spells a number in its unit.
func value(x float64, unit string) string {
	switch {
	case math.IsNaN(x):
		return "unknown"
	case math.IsInf(x, 0):
		return "unbounded"
	case unit == scenario.Share:
		return decimal(100*x, 2) + " %"
	case unit == scenario.Seconds && math.Abs(x) < 1:
		return decimal(1000*x, 1) + " ms"
	case unit == scenario.Seconds:
		return decimal(x, 2) + " s"
	}
	return decimal(x, 3)
}

// decimal spells a number with at most digits digits after the point, without zeros at the end.
func decimal(x float64, digits int) string {
	s := strconv.FormatFloat(x, 'f', digits, 64)
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	if s == "-0" {
		return "0"
	}
	return s
}

func signed(x float64, unit string) string {
	s := value(x, unit)
	if unit == scenario.Share {
		s = strings.TrimSuffix(s, " %")
	}
	if x > 0 {
		return "+" + s
	}
	return strings.Replace(s, "-", "−", 1)
}

// align writes rows as columns; from the given one on they are to the right, but for the
// last two.
func align(b *bytes.Buffer, rows [][]string, right int) {
	widths := widthsOf(rows)
	for _, row := range rows {
		line := ""
		for i, cell := range row {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if right > 0 && i >= right && i < len(row)-1 {
				line += pad + cell + "   "
			} else {
				line += cell + pad + "  "
			}
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
}

// alignRight writes rows as columns that are to the right, but for the last.
func alignRight(b *bytes.Buffer, rows [][]string) { align(b, rows, 1) }

func widthsOf(rows [][]string) []int {
	var widths []int
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	return widths
}
