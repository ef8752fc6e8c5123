// Package lint says before merge what a policy will do.
//
// A file can be right, and still be an outage that waits for its day: twenty attempts
// without a budget, a timeout that leaves no room for the last attempt, a breaker that the
// traffic can never open. Each such pitfall is a [Rule] with a stable id. A [Finding] shows
// the formula with the file's own numbers, where it stands, and what to write instead.
//
//	file, _ := config.Read("gabion.yaml", text)
//	report := lint.Run([]*config.File{file}, lint.Options{})
//	for _, f := range report.Findings {
//		fmt.Println(f.Error())
//	}
//
// Some rules need to know what no policy says: how many calls come, how many processes run,
// how large the pool is. A file can say so under facts ([facts.Facts]). A rule that lacks
// a fact, or a value that could not be read, is never silent: it is in the report's
// [Report.Unknown].
//
// The package reads files and nothing else: it never calls anybody.
package lint

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gabion-go/gabion/config"
	"github.com/gabion-go/gabion/internal/facts"
	"github.com/gabion-go/gabion/internal/policyfile"
)

// Severity is how bad a finding is.
type Severity uint8

// The severities, from mild to bad.
const (
	Note    Severity = iota // worth knowing: what follows from the file, and may be meant
	Warning                 // in trouble the policy will do harm, or not do what it seems to
	Error                   // it does harm, or the file can't be used
)

// String returns note, warning or error.
func (s Severity) String() string {
	return [...]string{"note", "warning", "error"}[min(s, Error)]
}

// MarshalText writes note, warning or error.
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads note, warning or error.
func (s *Severity) UnmarshalText(text []byte) error {
	for v := Note; v <= Error; v++ {
		if v.String() == string(text) {
			*s = v
			return nil
		}
	}
	return fmt.Errorf("%.40q is no severity: use one of note, warning, error", text)
}

// Rule is one pitfall that is looked for.
type Rule struct {
	ID       string // such as G001; it never changes, and is not used again
	Name     string // such as unsafe-retry
	Severity Severity
	Title    string // what the rule finds, in one line

	// Needs are facts that it can't do without, such as facts.rate. A file that does not
	// say them leaves the rule unknown.
	Needs []string

	reads  []string                   // keys of the policy that it looks at
	when   func(*subject) bool        // whether it matters, as far as the policy says; nil means always
	check  func(*subject)             // of one dependency; nil for a rule that is not about one
	across func(*run, []*config.File) // of all files together; nil for a rule that is about one
	graph  func(*look)                // of who calls whom; nil for a rule that is not about that
}

const docs = "https://github.com/gabion-go/gabion/blob/main/docs/"

// Page is where the rule is explained: why, what is bad, what is good, who got burnt. Questions that
// no rule can answer, which are C01 and on, have one page together.
func (r Rule) Page() string {
	if strings.HasPrefix(r.ID, "C") {
		return docs + "linting.md#what-no-rule-can-answer"
	}
	return docs + "lint/" + r.ID + ".md"
}

// Finding is a rule that found something.
type Finding struct {
	Rule     Rule
	Severity Severity // the rule's, unless the case is milder or worse

	config.Finding // the place, the formula with the file's numbers, and the proposal

	Dependency string // whom it is about; empty if it is about no single one
	Path       string // the key that it is about, such as retry.attempts; may be empty

	// Fix is what to change in the file, where that is safe: it makes the policy more
	// careful, and needs no knowledge that the file does not have. It may be empty.
	Fix []policyfile.Change
}

// Error returns the finding with its rule, its line and a caret.
func (f Finding) Error() string {
	g := f.Finding
	g.Reason = fmt.Sprintf("%s %s: %s", f.Severity, f.Rule.ID, g.Reason)
	return g.Error()
}

// Unknown is a rule that could not be evaluated.
type Unknown struct {
	Rule       Rule
	File       string
	Dependency string
	Missing    string // the fact or key that is not known, such as facts.rate
	Why        string // not said, or could not be read
}

// Report is what was found.
type Report struct {
	Findings []Finding // by file and place
	Ignored  []Ignored // those that comments ignore, by file and place
	Unknown  []Unknown // by rule, file and dependency
}

// Options change what is looked for. The zero Options look for everything.
type Options struct {
	// Rules are the ids of the rules to look at; empty means all.
	Rules []string

	// Broken are the mistakes of files, as config.Read returned them: they are errors of
	// rule G000.
	Broken []config.Findings

	// Measured are facts that were measured, by dependency. They count where the file does
	// not say them.
	Measured map[string]facts.Facts

	// More are findings of others, such as of what was measured. Comments ignore them as they
	// do those of the rules, and Rules chooses among them.
	More []Finding

	// Graphs are who calls whom by the policies of a file that is not of one program, such
	// as a scenario's. A graph is looked at by itself.
	Graphs map[*config.File]Graph
}

// Rules returns all rules by id.
func Rules() []Rule {
	rules := slices.Clone(allRules)
	slices.SortFunc(rules, func(a, b Rule) int { return cmp.Compare(a.ID, b.ID) })
	return rules
}

// allRules is the list of rules. Each file of the package that holds rules adds its own.
var allRules = slices.Concat(fileRules, policyRules, ignoreRules, idempotencyRules, graphRules)

// fileRules are about a file as such.
var fileRules = []Rule{
	{ID: "G000", Name: "broken", Severity: Error, Title: "the file has a mistake and can't be used"},
}

// Run looks at files, which config.Read has read. It does not change them.
func Run(files []*config.File, o Options) Report {
	var r run
	for _, found := range o.Broken {
		for _, f := range found {
			r.report.Findings = append(r.report.Findings, Finding{Rule: fileRules[0], Severity: Error, Finding: f})
		}
	}
	r.measured = o.Measured
	r.rules = chosen(o)
	for _, f := range files {
		for _, name := range f.Names() {
			r.dependency(f, name)
		}
	}
	for _, rule := range r.rules {
		if rule.across != nil {
			r.rule = rule
			rule.across(&r, files)
		}
	}
	for _, f := range o.More {
		if slices.ContainsFunc(r.rules, func(rule Rule) bool { return rule.ID == f.Rule.ID }) {
			r.report.Findings = append(r.report.Findings, f)
		}
	}
	r.graphs(files, o.Graphs)
	r.ignores(files)
	r.report.sort()
	return r.report
}

// chosen returns the rules that are looked at.
func chosen(o Options) []Rule {
	return slices.DeleteFunc(Rules(), func(rule Rule) bool {
		return len(o.Rules) > 0 && !slices.Contains(o.Rules, rule.ID)
	})
}

// run is one run over files.
type run struct {
	rules    []Rule
	rule     Rule // that is looked at across files
	measured map[string]facts.Facts
	report   Report
}

func (r *run) dependency(f *config.File, name string) {
	s := newSubject(r, f, name)
	for _, rule := range r.rules {
		if rule.check == nil {
			continue
		}
		s.rule = rule
		if !s.knows(rule.reads...) || rule.when != nil && !rule.when(s) || !s.knows(rule.Needs...) {
			continue
		}
		rule.check(s)
	}
}

func byPlace(a, b Finding) int {
	return cmp.Or(strings.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col),
		strings.Compare(a.Rule.ID, b.Rule.ID), strings.Compare(a.Dependency, b.Dependency))
}

func (r *Report) sort() {
	slices.SortStableFunc(r.Findings, byPlace)
	slices.SortStableFunc(r.Ignored, func(a, b Ignored) int { return byPlace(a.Finding, b.Finding) })
	slices.SortStableFunc(r.Unknown, func(a, b Unknown) int {
		return cmp.Or(strings.Compare(a.Rule.ID, b.Rule.ID), strings.Compare(a.File, b.File), strings.Compare(a.Dependency, b.Dependency))
	})
	r.Unknown = slices.CompactFunc(r.Unknown, func(a, b Unknown) bool {
		return a.Rule.ID == b.Rule.ID && a.File == b.File && a.Dependency == b.Dependency && a.Missing == b.Missing
	})
}
