package lintcmd

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/term"

	"github.com/gabion-go/gabion/cmd/gabion/internal/cli"
	"github.com/gabion-go/gabion/cmd/gabion/internal/fold"
	"github.com/gabion-go/gabion/cmd/gabion/internal/measured"
	"github.com/gabion-go/gabion/internal/lint"
	"github.com/gabion-go/gabion/internal/policyfile"
)

var formats = []string{"text", "json", "sarif", "github"}

func (r *request) write(out outcome) error {
	switch r.format {
	case "json":
		return cli.WriteJSON(r.stdout, documentOf(out))
	case "sarif":
		return cli.WriteJSON(r.stdout, sarif(out))
	case "github":
		return r.print(r.github(out))
	}
	return r.print(r.text(out))
}

// takesColor reports whether a stream is a terminal that shows colours.
func takesColor(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd())) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// text shows findings in a terminal.
func (r *request) text(out outcome) string {
	var b strings.Builder
	b.WriteString(out.compared())
	for _, f := range out.Findings {
		text := fold.Lines(f.Error() + "\n")
		if r.color {
			head := f.Severity.String() + " " + f.Rule.ID
			text = strings.Replace(text, head, colors[f.Severity]+head+"\x1b[0m", 1)
		}
		b.WriteString(text + "  = " + f.Rule.Page() + "\n\n")
	}
	b.WriteString(r.unknown(out.Unknown))
	b.WriteString(out.counts() + "\n")
	return b.String()
}

// compared says what was measured.
func (o *outcome) compared() string {
	if o.source == nil {
		return ""
	}
	var b strings.Builder
	for _, d := range o.measured {
		b.WriteString(fold.Lines(d.Name + ": " + d.Text + "\n"))
		if d.Kept != "" {
			b.WriteString(fold.Lines("  nothing is shortened: " + d.Kept + "\n"))
		}
	}
	for _, name := range o.missing {
		b.WriteString(name + ": not examined: no file has it\n")
	}
	return b.String() + "\n"
}

// colors are blue, yellow and red.
var colors = [...]string{lint.Note: "\x1b[34m", lint.Warning: "\x1b[33m", lint.Error: "\x1b[31m"}

// unknown says which rules could not be evaluated: how many and what they lack in one line, or
// each case.
func (r *request) unknown(all []lint.Unknown) string {
	if len(all) == 0 {
		return ""
	}
	if !r.verbose {
		return fold.Lines(lacking(all)+"\n") + "\n"
	}
	var b strings.Builder
	for _, u := range all {
		of := strings.TrimSuffix(u.File+": "+u.Dependency, ": ")
		b.WriteString(fold.Lines(fmt.Sprintf("not evaluated: %s for %s: %s: %s\n", u.Rule.ID, of, u.Missing, u.Why)))
	}
	return b.String() + "\n"
}

// shown is how many of the missing facts are named: those that most cases lack.
const shown = 3

// lacking sums up what could not be evaluated.
func lacking(all []lint.Unknown) string {
	rules, cases := map[string]bool{}, map[string]int{}
	var missing []string
	for _, u := range all {
		rules[u.Rule.ID] = true
		if cases[u.Missing]++; cases[u.Missing] == 1 {
			missing = append(missing, u.Missing)
		}
	}
	slices.SortStableFunc(missing, func(a, b string) int { return cmp.Compare(cases[b], cases[a]) })
	more := ""
	if n := len(missing) - shown; n > 0 {
		missing, more = missing[:shown], fmt.Sprintf(" and %d more", n)
	}
	return fmt.Sprintf("not evaluated: %s, for lack of %s%s; --verbose names each case", cli.Count(len(rules), "rule"), strings.Join(missing, ", "), more)
}

// counts is the last line: what was found, and in what.
func (o *outcome) counts() string {
	n := o.count()
	var parts []string
	for s := lint.Error; ; s-- {
		if n[s] > 0 {
			parts = append(parts, cli.Count(n[s], s.String()))
		}
		if s == lint.Note {
			break
		}
	}
	if len(o.Ignored) > 0 {
		parts = append(parts, fmt.Sprintf("%d ignored", len(o.Ignored)))
	}
	return fmt.Sprintf("%s in %s with %s", cmp.Or(strings.Join(parts, ", "), "no findings"), cli.Count(len(o.files), "file"), cli.Count(o.dependencies, "dependency"))
}

func (o *outcome) count() (n [lint.Error + 1]int) {
	for _, f := range o.Findings {
		n[f.Severity]++
	}
	return n
}

// document is the JSON of findings. Its keys are part of its version.
type document struct {
	Version      int           `json:"version"`
	Files        []string      `json:"files"`
	Dependencies int           `json:"dependencies"`
	Counts       counted       `json:"counts"`
	Findings     []findingLine `json:"findings"`
	NotEvaluated []unknownLine `json:"not_evaluated"`

	Measured []measured.Dependency `json:"measured,omitempty"`
	Missing  []string              `json:"not_examined,omitempty"` // measured, and in no file
}

type counted struct {
	Error   int `json:"error"`
	Warning int `json:"warning"`
	Note    int `json:"note"`
	Ignored int `json:"ignored"`
}

type findingLine struct {
	Rule       string        `json:"rule"`
	Name       string        `json:"name"`
	Severity   lint.Severity `json:"severity"`
	File       string        `json:"file"`
	Line       int           `json:"line"`
	Column     int           `json:"column"`
	Dependency string        `json:"dependency,omitempty"`
	Path       string        `json:"path,omitempty"`
	Reason     string        `json:"reason"`
	Proposal   string        `json:"proposal,omitempty"`
	Page       string        `json:"page"`
	Fix        []changeLine  `json:"fix,omitempty"`
	Ignored    *ignoredLine  `json:"ignored,omitempty"` // by a comment; the finding does not count
}

type ignoredLine struct {
	Line int    `json:"line"`
	Why  string `json:"why"`
}

type changeLine struct {
	Dependency string `json:"dependency"`
	Path       string `json:"path"`
	Value      string `json:"value"`
}

type unknownLine struct {
	Rule       string `json:"rule"`
	File       string `json:"file"`
	Dependency string `json:"dependency,omitempty"`
	Missing    string `json:"missing"`
	Why        string `json:"why"`
}

func documentOf(out outcome) document {
	n := out.count()
	d := document{
		Version: 1, Files: out.files, Dependencies: out.dependencies, Counts: counted{n[lint.Error], n[lint.Warning], n[lint.Note], len(out.Ignored)},
		Findings: []findingLine{}, NotEvaluated: []unknownLine{}, Measured: out.measured, Missing: out.missing,
	}
	if d.Files == nil {
		d.Files = []string{}
	}
	for _, f := range out.Findings {
		d.Findings = append(d.Findings, newFindingLine(f, nil))
	}
	for _, i := range out.Ignored {
		d.Findings = append(d.Findings, newFindingLine(i.Finding, &ignoredLine{i.Line, i.Why}))
	}
	for _, u := range out.Unknown {
		d.NotEvaluated = append(d.NotEvaluated, unknownLine{u.Rule.ID, u.File, u.Dependency, u.Missing, u.Why})
	}
	return d
}

func newFindingLine(f lint.Finding, ignored *ignoredLine) findingLine {
	return findingLine{
		Rule: f.Rule.ID, Name: f.Rule.Name, Severity: f.Severity, File: f.File, Line: f.Line, Column: f.Col, Dependency: f.Dependency,
		Path: f.Path, Reason: f.Reason, Proposal: f.Proposal, Page: f.Rule.Page(), Fix: changes(f.Fix), Ignored: ignored,
	}
}

func changes(fix []policyfile.Change) (lines []changeLine) {
	for _, c := range fix {
		lines = append(lines, changeLine(c))
	}
	return lines
}
