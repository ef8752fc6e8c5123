package review

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/gabion-go/gabion/lab/internal/report"
	"github.com/gabion-go/gabion/lab/internal/scenario"
	"github.com/gabion-go/gabion/lab/internal/stat"
)

// Markdown writes a study as a part of a pull request's comment: who wins, which
// assertions hold, the headlines, and what differs in the policies. Nothing that stands in
// a scenario or a policy becomes markup. The error is w's.
func Markdown(w io.Writer, s *scenario.Study) error {
	p := &page{Study: s}
	p.head()
	p.asserts()
	p.headlines()
	p.settings()
	p.again()
	_, err := w.Write(p.Bytes())
	return err
}

// page is Markdown that is being written.
type page struct {
	bytes.Buffer
	*scenario.Study
}

func (p *page) linef(format string, args ...any) { fmt.Fprintf(p, format+"\n", args...) }

// row writes a row of a table; what is in it is Markdown.
func (p *page) row(cells ...string) { p.linef("| %s |", strings.Join(cells, " | ")) }

// marks are the first character of a line, before its words: it is never all that says so.
var marks = map[scenario.Holds]string{scenario.Yes: "✅", scenario.No: "❌", scenario.Unsure: "❔"}

// outcome is what the assertions come to together.
func (p *page) outcome() scenario.Holds {
	all := scenario.Yes
	for _, v := range p.Sides[0].Asserts {
		switch v.Holds {
		case scenario.No:
			return scenario.No
		case scenario.Unsure:
			all = scenario.Unsure
		}
	}
	if len(p.Sides[0].Broken) > 0 {
		return scenario.No
	}
	return all
}

func (p *page) head() {
	p.linef("### %s %s: %s\n", marks[p.outcome()], plain(p.Name), plain(p.Title))
	for _, j := range p.Judgements {
		p.linef("- %s", plain(j.Sentence))
	}
	if len(p.Judgements) > 0 {
		p.linef("")
	}
	for _, broken := range p.Sides[0].Broken {
		p.linef("**The simulation broke an invariant, believe none of this:** %s\n", plain(broken))
	}
}

func (p *page) asserts() {
	if len(p.Sides[0].Asserts) == 0 {
		p.linef("The scenario asserts nothing.\n")
		return
	}
	head, rule := []string{"assertion", "of"}, []string{"---", "---"}
	for i := range p.Sides {
		head, rule = append(head, plain(p.Sides[i].Name)), append(rule, "---")
	}
	p.row(head...)
	p.row(rule...)
	for i := range p.Sides[0].Asserts {
		v := &p.Sides[0].Asserts[i]
		_, about, _ := strings.Cut(class(p.Study, v.Of), ".")
		cells := []string{code(v.Text), plain(about)}
		for k := range p.Sides {
			if i >= len(p.Sides[k].Asserts) {
				cells = append(cells, "")
				continue
			}
			v := &p.Sides[k].Asserts[i]
			cells = append(cells, verdicts[v.Holds]+" "+plain(measured(v)))
		}
		p.row(cells...)
	}
	p.linef("")
}

var verdicts = map[scenario.Holds]string{scenario.Yes: "✅ holds:", scenario.No: "❌ **fails:**", scenario.Unsure: "❔ unresolved:"}

func (p *page) headlines() {
	if len(p.Sides) < 2 || len(p.Sides[0].Heads) == 0 {
		return
	}
	head, rule := []string{""}, []string{"---"}
	for i := range p.Sides {
		head, rule = append(head, plain(p.Sides[i].Name)), append(rule, "--:")
	}
	p.row(head...)
	p.row(rule...)
	for k := range p.Sides[0].Heads {
		h := &p.Sides[0].Heads[k]
		cells := []string{plain(strings.TrimSpace(report.HeadName(h)))}
		for i := range p.Sides {
			if k >= len(p.Sides[i].Heads) {
				cells = append(cells, "")
				continue
			}
			h := &p.Sides[i].Heads[k]
			text := report.Value(h.Value.Value, h.Unit)
			if v := p.against(i, h); v != "" && v != stat.Unresolved.String() {
				text += " " + v
			}
			cells = append(cells, plain(text))
		}
		p.row(cells...)
	}
	p.linef("\nBetter and worse are against %s, and resolved in pairs of runs with the same arrivals, service times and faults.\n", plain(p.Sides[0].Name))
}

// against is the verdict on a headline of a side against the first one.
func (p *page) against(side int, h *scenario.Headline) string {
	if h.At != "mean" && h.At != "p50" {
		return ""
	}
	turned := map[string]string{"better": "worse", "worse": "better"}
	for _, j := range p.Judgements {
		for _, w := range j.Heads {
			switch {
			case w.Key != h.Key || w.Phase != h.Phase:
			case j.A == 0 && j.B == side:
				return w.Verdict
			case j.B == 0 && j.A == side:
				return turned[w.Verdict]
			}
		}
	}
	return ""
}

// mostSettings is how many settings that differ are shown: a comment is no file.
const mostSettings = 40

func (p *page) settings() {
	if len(p.Settings) == 0 {
		return
	}
	p.linef("<details><summary>%s</summary>\n", counted(len(p.Settings), "setting differs", "settings differ"))
	p.row("dependency", "setting", plain(p.Sides[0].Name), plain(p.Sides[1].Name))
	p.row("---", "---", "---", "---")
	for _, d := range p.Settings[:min(len(p.Settings), mostSettings)] {
		p.row(plain(d.Policy), code(d.Path), code(d.A), code(d.B))
	}
	if more := len(p.Settings) - mostSettings; more > 0 {
		p.linef("\nand %d more", more)
	}
	p.linef("\n</details>\n")
}

func (p *page) again() {
	p.linef("%s, seed %d. To see it:\n", counted(p.Replications, "run", "runs"), p.Seed)
	p.linef("%s\n", block(p.Command))
}

func counted(n int, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, more)
}

// plain writes text as text: what Markdown or HTML would take for markup, what would
// name a user or end a table's cell, is written as its number.
func plain(text string) string {
	var b strings.Builder
	for _, r := range strings.Join(strings.Fields(text), " ") {
		switch {
		case strings.ContainsRune("&<>`|\\*_[]#~@", r):
			fmt.Fprintf(&b, "&#%d;", r)
		case r < ' ' || r == 0x7f:
			b.WriteRune('·')
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// code writes text in a cell of a table, in the type of code.
func code(text string) string {
	if text = plain(text); text == "" {
		return ""
	}
	return "<code>" + text + "</code>"
}

// block writes text as a block of code, between fences that it does not have.
func block(text string) string {
	fence := "```"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	return fence + "\n" + strings.Join(strings.Fields(text), " ") + "\n" + fence
}
