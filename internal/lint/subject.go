package lint

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/gabion-go/gabion/config"
	"github.com/gabion-go/gabion/internal/facts"
	"github.com/gabion-go/gabion/internal/policyfile"
	"github.com/gabion-go/gabion/policy"
)

// subject is one dependency of a file, under one rule.
type subject struct {
	run  *run
	rule Rule
	file *config.File
	name string

	p       policy.Policy // resolved: what the program does
	facts   facts.Facts
	program facts.Program
}

func newSubject(r *run, f *config.File, name string) *subject {
	s := &subject{run: r, file: f, name: name, p: f.Policies[name].Resolved(), facts: add(facts.Of(f).Facts[name], r.measured[name]), program: facts.Of(f).Program}
	s.facts.Processes = cmp.Or(s.facts.Processes, s.program.Processes)
	return s
}

// Why something is not known.
const (
	unreadText = "it could not be read"
	unsaidText = "the file does not say it"
)

// knows reports whether facts and keys are known, and notes those that are not: the rule is
// then unknown, and not silent. A path is a key of a policy or begins with "facts.".
func (s *subject) knows(paths ...string) bool {
	known := true
	for _, path := range paths {
		why := ""
		switch {
		case policyfile.Of(s.file).Unread(s.name, path):
			why = unreadText
		case !s.said(path):
			why = unsaidText
		}
		if why != "" {
			s.run.report.Unknown = append(s.run.report.Unknown, Unknown{s.rule, s.file.Name, s.name, path, why})
			known = false
		}
	}
	return known
}

// said reports whether a fact is said; a key of a policy always has a value. A number that
// is zero says nothing.
func (s *subject) said(path string) bool {
	if !strings.HasPrefix(path, "facts.") {
		return true
	}
	if number, ok := numbers[path]; ok {
		return number(&s.facts) > 0
	}
	return policyfile.Of(s.file).Written(s.name, path) || s.run.measured[s.name].Has(path)
}

// numbers are the facts that are numbers.
var numbers = map[string]func(*facts.Facts) float64{
	"facts.rate":          func(f *facts.Facts) float64 { return float64(f.Rate) },
	"facts.processes":     func(f *facts.Facts) float64 { return float64(f.Processes) },
	"facts.capacity":      func(f *facts.Facts) float64 { return float64(f.Capacity) },
	"facts.p50":           func(f *facts.Facts) float64 { return float64(f.P50) },
	"facts.p99":           func(f *facts.Facts) float64 { return float64(f.P99) },
	"facts.p999":          func(f *facts.Facts) float64 { return float64(f.P999) },
	"facts.blip":          func(f *facts.Facts) float64 { return float64(f.Blip) },
	"facts.pool":          func(f *facts.Facts) float64 { return float64(f.Pool) },
	"facts.idle_per_host": func(f *facts.Facts) float64 { return float64(f.IdlePerHost) },
	"facts.inner":         func(f *facts.Facts) float64 { return float64(f.Inner) },
	"facts.mesh.attempts": func(f *facts.Facts) float64 { return float64(f.Mesh.Attempts) },
	"facts.mesh.timeout":  func(f *facts.Facts) float64 { return float64(f.Mesh.Timeout) },
	"facts.key_retention": func(f *facts.Facts) float64 { return float64(f.KeyRetention) },
}

// has is knows for a fact that a rule can do without.
func (s *subject) has(path string) bool {
	return s.said(path) && !policyfile.Of(s.file).Unread(s.name, path)
}

// written reports whether the file, and not a default, says a key.
func (s *subject) written(path string) bool { return policyfile.Of(s.file).Written(s.name, path) }

// mark adds to a number where it comes from, if that is not the file.
func (s *subject) mark(path, text string) string {
	if s.written(path) {
		return text
	}
	return text + " (default)"
}

// time writes the duration of a key, and whether it is the default.
func (s *subject) time(path string, d time.Duration) string {
	return s.mark(path, policy.FormatDuration(d))
}

// count writes the number of a key with what is counted, and whether it is the default.
func (s *subject) count(path string, n int, what string) string {
	return s.mark(path, plural(n, what))
}

// find reports a finding of the rule at a key: what follows, with the file's numbers. The
// keys that the numbers come from have to be known; see knows.
func (s *subject) find(path, reason, proposal string, fix ...policyfile.Change) {
	s.findAs(s.rule.Severity, path, reason, proposal, fix...)
}

// findAs is find with another severity than the rule's.
func (s *subject) findAs(how Severity, path, reason, proposal string, fix ...policyfile.Change) {
	f := Finding{Rule: s.rule, Severity: how, Dependency: s.name, Path: path, Fix: fix}
	f.Finding = config.Finding(policyfile.Of(s.file).Finding(s.name, path, fmt.Sprintf("%s: %s", s.name, reason), proposal))
	s.run.report.Findings = append(s.run.report.Findings, f)
}

// set is a change of one of the dependency's keys, for a fix.
func (s *subject) set(path, value string) policyfile.Change {
	return policyfile.Change{Dependency: s.name, Path: path, Value: value}
}
