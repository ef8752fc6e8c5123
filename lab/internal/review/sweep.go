package review

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/gabion-go/gabion/lab/internal/report"
	"github.com/gabion-go/gabion/lab/internal/scenario"
	"github.com/gabion-go/gabion/lab/internal/stat"
)

// SweepText writes a sweep as a table for a terminal, and for whom which value is best.
// The error is w's.
func SweepText(w io.Writer, s *scenario.Sweep) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s: %s\n%s of %s, %s each, seed %d\n\n", visible(s.Name), visible(s.Title), s.Key, visible(strings.Join(s.Policies, ", ")), counted(s.Replications, "run", "runs"), s.Seed)
	var rows [][]string
	for i := -1; i < len(s.Rows); i++ {
		rows = append(rows, row(s, i, false))
	}
	align(&b, rows)
	b.WriteString("\n" + strings.Join(legendOf(s, false), "\n") + "\n\n")
	for _, sentence := range verdictsOf(s) {
		b.WriteString(sentence + "\n")
	}
	fmt.Fprintf(&b, "\nagain: %s\n", visible(s.Command))
	_, err := w.Write(b.Bytes())
	return err
}

// SweepMarkdown writes the same for the comment of a pull request. The error is w's.
func SweepMarkdown(w io.Writer, s *scenario.Sweep) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "### %s of %s in %s: %s\n\n", code(s.Key), plain(strings.Join(s.Policies, ", ")), plain(s.Name), plain(s.Title))
	for _, sentence := range verdictsOf(s) {
		fmt.Fprintf(&b, "- %s\n", plain(sentence))
	}
	b.WriteString("\n")
	for i := -1; i < len(s.Rows); i++ {
		cells := row(s, i, true)
		for k := range cells {
			cells[k] = plain(strings.TrimSpace(cells[k]))
		}
		fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | "))
		if i < 0 {
			fmt.Fprintf(&b, "| ---%s |\n", strings.Repeat(" | --:", len(cells)-1))
		}
	}
	b.WriteString("\n")
	for _, line := range legendOf(s, true) {
		fmt.Fprintf(&b, "- %s\n", plain(line))
	}
	fmt.Fprintf(&b, "\n%s, seed %d. To see it:\n\n%s\n", counted(s.Replications, "run", "runs"), s.Seed, block(s.Command))
	_, err := w.Write(b.Bytes())
	return err
}

// The signs beside figures, and what they mean.
const (
	signBest  = " *"
	signAlike = " ~"
)

var legend = []string{
	"* is the best of its column. The runs do not distinguish ~ from it. In a column\n  without signs they distinguish no values. Less load than needed is no gain.",
	"Points are against the policies as they are: one is a call of a hundred that is\n  answered in time.",
}

// legendOf is the legend of a table, with the fails where it has that column.
func legendOf(s *scenario.Sweep, all bool) []string {
	if !all && !someFail(s) {
		return legend
	}
	return append(legend[:len(legend):len(legend)], "Fails are assertions that do not hold.")
}

func someFail(s *scenario.Sweep) bool {
	return slices.ContainsFunc(s.Rows, func(r scenario.SweepRow) bool { return len(r.Fails) > 0 })
}

// shortNames are the heads of columns.
var shortNames = map[string]string{
	"goodput all": "in time", "goodput during": "trouble", "load all": "load", "load during": "load", "peak all": "peak", "recovery all": "recovery", "stuck all": "stuck",
}

// row writes a row as text, the head being that before the first. The worst run, and
// how many assertions fail, are there if all is asked for, or some do.
func row(s *scenario.Sweep, i int, all bool) []string {
	cells := []string{s.Key}
	if i >= 0 {
		cells[0] = label(&s.Rows[i])
	}
	for k := range s.Columns {
		switch c := &s.Columns[k]; {
		case c.At == "worst" && !all:
		case i >= 0:
			cells = append(cells, report.Value(s.Rows[i].Cells[k].Value.Value, c.Unit)+sign(s, i, k))
		case c.At == "worst":
			cells = append(cells, "the worst run")
		default:
			cells = append(cells, cmp.Or(shortNames[c.Key+" "+c.Phase], c.Name)+blank)
		}
	}
	if i < 0 {
		cells = append(cells, "points", "fails")
	} else {
		cells = append(cells, points(&s.Rows[i]), strconv.Itoa(len(s.Rows[i].Fails)))
	}
	if !all && !someFail(s) {
		cells = cells[:len(cells)-1]
	}
	return cells
}

// blank is in place of a sign, so that figures stand one below the other.
const blank = "  "

func sign(s *scenario.Sweep, i, k int) string {
	told := slices.ContainsFunc(s.Best, func(b scenario.SweepBest) bool { return b.Column == k && b.Row >= 0 })
	switch {
	case told && s.Rows[i].Cells[k].Verdict == scenario.Best:
		return signBest
	case told && s.Rows[i].Cells[k].Verdict == stat.Unresolved.String():
		return signAlike
	}
	return blank
}

func label(r *scenario.SweepRow) string {
	switch {
	case r.Kind == scenario.AsItIs && r.Value != "":
		return visible("now: " + r.Value)
	case r.Kind != scenario.Swept:
		return r.Kind
	}
	return visible(r.Value)
}

func points(r *scenario.SweepRow) string {
	text := fmt.Sprintf("%+.1f", r.Points)
	switch {
	case r.Kind == scenario.AsItIs:
		return "–"
	case strings.Trim(text, "+-0.") == "":
		return "0.0"
	}
	return text
}

// forWhom are the columns with a best value, and the party for whom it is best.
var forWhom = []struct{ key, phase, who, by string }{
	{"goodput", "all", "callers", "%s answered in time"},
	{"goodput", "during", "callers in the trouble", "%s answered in time"},
	{"load", "", "the dependency", "%s requests for each that is needed"},
	{"recovery", "all", "recovery", "%s until all is well"},
	{"stuck", "all", "certainty", "%s of the runs stay down"},
}

// verdictsOf says for whom which value is best, and from which others the runs tell it.
func verdictsOf(s *scenario.Sweep) (sentences []string) {
	for _, f := range forWhom {
		for _, b := range s.Best {
			c := &s.Columns[b.Column]
			if c.Key != f.key || f.phase != "" && c.Phase != f.phase {
				continue
			}
			if b.Row < 0 {
				sentences = append(sentences, fmt.Sprintf("For %s no value is better than another, as far as %s tell.", f.who, counted(s.Replications, "run", "runs")))
				continue
			}
			value := report.Value(s.Rows[b.Row].Cells[b.Column].Value.Value, c.Unit)
			text := fmt.Sprintf("For %s %s is best: "+f.by+"; ", f.who, s.Rows[b.Row].Value, value)
			if worse := values(s, b, false); len(b.Alike) == 0 {
				text += "every other value is worse."
			} else {
				text += fmt.Sprintf("%s %s not distinguished from it by %s, and worse %s %s.", series(values(s, b, true)), isAre(len(b.Alike)), counted(s.Replications, "run", "runs"), isAre(len(worse)), series(worse))
			}
			sentences = append(sentences, text)
		}
	}
	return sentences
}

// values are those that the runs do not tell from the best, or the others.
func values(s *scenario.Sweep, b scenario.SweepBest, alike bool) (names []string) {
	for i := range s.Rows {
		if s.Rows[i].Kind == scenario.Swept && i != b.Row && slices.Contains(b.Alike, i) == alike {
			names = append(names, s.Rows[i].Value)
		}
	}
	return names
}

func isAre(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}

// series joins names as a sentence does.
func series(of []string) string {
	if len(of) < 2 {
		return strings.Join(of, "")
	}
	return strings.Join(of[:len(of)-1], ", ") + " and " + of[len(of)-1]
}

// align writes rows with their first column to the left and the others to the right.
func align(b *bytes.Buffer, rows [][]string) {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for k := range row {
			widths[k] = max(widths[k], utf8.RuneCountInString(row[k]))
		}
	}
	for _, row := range rows {
		line := ""
		for k, cell := range row {
			pad := strings.Repeat(" ", widths[k]-utf8.RuneCountInString(cell))
			if k == 0 {
				line += cell + pad
			} else {
				line += " " + pad + cell
			}
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
}

// visible writes text in one line of what a terminal shows and does not obey.
func visible(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return '·'
		}
		return r
	}, strings.Join(strings.Fields(text), " "))
}
