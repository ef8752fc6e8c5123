package lint

import (
	"fmt"

	"github.com/gabion-go/gabion/config"
	"github.com/gabion-go/gabion/policy"
)

// subject is one dependency of a file, under one rule.
type subject struct {
	run  *run
	rule Rule
	file *config.File
	name string

	p       policy.Policy // resolved: what the program does
	facts   config.Facts
	program config.Program
}

func newSubject(r *run, f *config.File, name string) *subject {
	s := &subject{run: r, file: f, name: name, p: f.Policies[name].Resolved(), facts: add(f.Facts[name], r.measured[name]), program: f.Program}
	if s.facts.Processes == 0 {
		s.facts.Processes = s.program.Processes
	}
	return s
}

// knows reports whether facts and keys are known, and notes those that are not: the rule is
// then unknown, and not silent. A path is a key of a policy or begins with "facts.".
func (s *subject) knows(paths ...string) bool {
	known := true
	for _, path := range paths {
		why := ""
		switch {
		case s.file.Unread(s.name, path):
			why = "it could not be read"
		case !s.said(path):
			why = "the file does not say it"
		}
		if why != "" {
			s.run.report.Unknown = append(s.run.report.Unknown, Unknown{s.rule, s.file.Name, s.name, path, why})
			known = false
		}
	}
	return known
}

// said reports whether a fact is said; a key of a policy always has a value.
func (s *subject) said(path string) bool {
	if len(path) < 6 || path[:6] != "facts." {
		return true
	}
	if path == "facts.processes" && s.facts.Processes > 0 {
		return true
	}
	return s.file.Written(s.name, path) || s.run.measured[s.name].Has(path)
}

// find reports a finding of the rule at a key: what follows, with the file's numbers. The
// keys that the numbers come from have to be known; see knows.
func (s *subject) find(path, reason, proposal string, fix ...config.Change) {
	s.findAs(s.rule.Severity, path, reason, proposal, fix...)
}

// findAs is find with another severity than the rule's.
func (s *subject) findAs(how Severity, path, reason, proposal string, fix ...config.Change) {
	f := Finding{Rule: s.rule, Severity: how, Dependency: s.name, Path: path, Fix: fix}
	f.Finding = s.file.Finding(s.name, path, fmt.Sprintf("%s: %s", s.name, reason), proposal)
	s.run.report.Findings = append(s.run.report.Findings, f)
}

// set is a change of one of the dependency's keys, for a fix.
func (s *subject) set(path, value string) config.Change {
	return config.Change{Dependency: s.name, Path: path, Value: value}
}
