package checklistcmd

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/gabion-go/gabion/config"
	"github.com/gabion-go/gabion/internal/lint"
)

// The states of a question. Open ones, stale ones and those that are answered with no keep
// a change from shipping.
const (
	isOpen  = "open"
	isStale = "stale" // it was answered, and what was answered has changed, or it was long ago
)

// lintName is who answers with rules.
const lintName = "gabion lint "

// item is a question, asked of the program or of one dependency. Its keys are part of the
// JSON's version.
type item struct {
	ID         string `json:"id"`
	Dependency string `json:"dependency,omitempty"` // none: it is about the program
	Question   string `json:"question"`
	Check      string `json:"check"` // how to find out
	State      string `json:"state"` // open, stale, yes, no, not-applicable
	By         string `json:"by,omitempty"`
	At         day    `json:"at,omitempty"`
	Note       string `json:"note,omitempty"` // of who answered, or why it is open

	found bool // a rule says no
}

// settled reports whether nothing is left to do.
func (i item) settled() bool { return i.State == "yes" || i.State == "not-applicable" }

func questionOf(id string) (question, bool) {
	for _, q := range questions {
		if q.id == id {
			return q, true
		}
	}
	return question{}, false
}

// idsOf are the questions about the program, or those about dependencies.
func idsOf(program bool) (ids []string) {
	for _, q := range questions {
		if q.program == program {
			ids = append(ids, q.id)
		}
	}
	return ids
}

// judge says which questions are answered.
type judge struct {
	file    *config.File
	report  lint.Report
	answers *answerFile
	today   day
	maxAge  int // in days; 0 means that answers don't age

	of map[string]*lint.Report // what the report says of each dependency
}

// split sorts the report by dependency.
func (j *judge) split() {
	j.of = map[string]*lint.Report{}
	at := func(file, dependency string) *lint.Report {
		if file != j.file.Name {
			return &lint.Report{}
		}
		if j.of[dependency] == nil {
			j.of[dependency] = &lint.Report{}
		}
		return j.of[dependency]
	}
	for _, f := range j.report.Findings {
		r := at(f.File, f.Dependency)
		r.Findings = append(r.Findings, f)
	}
	for _, u := range j.report.Unknown {
		r := at(u.File, u.Dependency)
		r.Unknown = append(r.Unknown, u)
	}
	for _, i := range j.report.Ignored {
		r := at(i.File, i.Dependency)
		r.Ignored = append(r.Ignored, i)
	}
}

// reportOn is what the report says of a dependency, or of the whole file.
func (j *judge) reportOn(q question, dependency string) lint.Report {
	if q.program {
		return j.report
	}
	if j.of == nil {
		j.split()
	}
	if r := j.of[dependency]; r != nil {
		return *r
	}
	return lint.Report{}
}

// knownRules are the ids of all rules.
var knownRules = sync.OnceValue(func() map[string]bool {
	known := map[string]bool{}
	for _, r := range lint.Rules() {
		known[r.ID] = true
	}
	return known
})

// items are all questions of a file: those about the program first.
func (j *judge) items() (all []item) {
	for _, q := range questions {
		if q.program && (q.asked == nil || q.asked(j.file, "")) {
			all = append(all, j.item(q, ""))
		}
	}
	for _, name := range j.file.Names() {
		for _, q := range questions {
			if !q.program && (q.asked == nil || q.asked(j.file, name)) {
				all = append(all, j.item(q, name))
			}
		}
	}
	return all
}

func (j *judge) item(q question, dependency string) item {
	i := item{ID: q.id, Dependency: dependency, Question: q.text, Check: q.check, State: isOpen}
	if i.State, i.By, i.Note = j.rules(q, dependency); i.State != isOpen {
		i.found = i.State == "no"
		return i
	}
	e, ok := j.answers.of(q.id, dependency)
	if !ok {
		return i
	}
	i.State, i.By, i.At, i.Note = string(e.Answer), e.By, e.At, e.Note
	if why := j.stale(q, dependency, e); why != "" {
		i.State, i.Note = isStale, fmt.Sprintf("%s said %s, but %s", e.By, e.Answer, why)
	}
	return i
}

// rules returns what the linter's rules answer; open, with what is missing, if they can't.
func (j *judge) rules(q question, dependency string) (state, by, note string) {
	for _, id := range q.rules {
		if !knownRules()[id] {
			return isOpen, "", ""
		}
	}
	if len(q.rules) == 0 {
		return isOpen, "", ""
	}
	report := j.reportOn(q, dependency)
	ours := func(rule lint.Rule, file string) bool {
		return slices.Contains(q.rules, rule.ID) && file == j.file.Name
	}
	var notes []string
	for _, f := range report.Findings {
		if !ours(f.Rule, f.File) {
			continue
		}
		if f.Severity > lint.Note {
			return "no", lintName + f.Rule.ID, f.Reason
		}
		notes = append(notes, f.Rule.ID+": "+f.Reason)
	}
	for _, u := range report.Unknown {
		if ours(u.Rule, u.File) {
			notes = append(notes, u.Rule.ID+" could answer it, but "+u.Missing+": "+u.Why)
		}
	}
	if len(notes) > 0 {
		return isOpen, "", strings.Join(notes, "; ")
	}
	for _, i := range report.Ignored {
		if ours(i.Rule, i.File) {
			return "not-applicable", lintName + i.Rule.ID, fmt.Sprintf("ignored in line %d: %s", i.Line, i.Why)
		}
	}
	return "yes", lintName + strings.Join(q.rules, ", "), ""
}

// stale says why an answer does not count any more, or nothing.
func (j *judge) stale(q question, dependency string, e entry) string {
	switch age := e.At.before(j.today); {
	case e.Question != hashOf(q.text, q.check):
		return "the question changed"
	case e.Policy != j.policy(q, dependency):
		return "the policy changed"
	case j.maxAge > 0 && age > j.maxAge:
		return fmt.Sprintf("that is %d days ago", age)
	}
	return ""
}

// policy is a hash of what a question's answer depends on in the file: the values of a
// dependency's keys, or the names of the dependencies.
func (j *judge) policy(q question, dependency string) string {
	if q.program {
		return hashOf(j.file.Names()...)
	}
	var parts []string
	for _, s := range j.file.Explain(dependency) {
		section, _, _ := strings.Cut(s.Path, ".")
		if len(q.keys) == 0 || slices.Contains(q.keys, section) {
			parts = append(parts, s.Path, s.Value)
		}
	}
	return hashOf(parts...)
}

// hashOf tells texts from others.
func hashOf(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:6])
}

// orphans are dependencies with answers that the file does not have.
func (j *judge) orphans() (names []string) {
	for _, name := range slices.Sorted(maps.Keys(j.answers.Dependencies)) {
		if _, ok := j.file.Policies[name]; !ok {
			names = append(names, name)
		}
	}
	return names
}
