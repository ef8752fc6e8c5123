package checklistcmd

import (
	"fmt"
	"time"

	"github.com/gabion-go/gabion/config"
	"github.com/gabion-go/gabion/internal/lint"
	"github.com/gabion-go/gabion/internal/policyfile"
)

// Findings returns what is open, stale, or answered with no, as findings of gabion lint
// --questions, and the mistakes in the file of answers beside path. What the linter's own rules
// have found is left out: the report has it.
func Findings(path string, f *config.File, report lint.Report, now time.Time) (all []lint.Finding, broken config.Findings, err error) {
	today := dayOf(now)
	a, mistakes, err := readAnswers(answersBeside(path), today)
	if err != nil {
		return nil, nil, err
	}
	for _, m := range mistakes {
		broken = append(broken, config.Finding(m))
	}
	j := &judge{file: f, report: report, answers: a, today: today, maxAge: usualMaxAge}
	for _, i := range j.items() {
		if !i.settled() && !i.found {
			all = append(all, i.finding(path, f))
		}
	}
	return all, broken, nil
}

func (i item) finding(path string, f *config.File) lint.Finding {
	rule := lint.Rule{ID: i.ID, Name: "question", Severity: lint.Warning, Title: i.Question}
	reason := i.Question
	if who := i.who(); who != "" {
		reason += " " + i.State + ": " + who
	}
	about := ""
	if i.Dependency != "" {
		about = " --dependency " + i.Dependency
	}
	proposal := fmt.Sprintf("to find out: %s; then gabion checklist answer %s --question %s%s --answer ANSWER", i.Check, path, i.ID, about)
	return lint.Finding{Rule: rule, Severity: rule.Severity, Dependency: i.Dependency, Finding: config.Finding(policyfile.Of(f).Finding(i.Dependency, "", reason, proposal))}
}
