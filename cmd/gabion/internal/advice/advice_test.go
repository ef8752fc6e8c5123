package advice

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gabion-go/gabion/cmd/gabion/internal/cli"
	"github.com/gabion-go/gabion/cmd/gabion/internal/lintcmd"
	"github.com/gabion-go/gabion/config"
	"github.com/gabion-go/gabion/internal/lint"
	"github.com/gabion-go/gabion/internal/policyfile"
)

// found is what the rule finds in a file.
func found(t *testing.T, rule, text string) []lint.Finding {
	t.Helper()
	f, err := config.Parse("gabion.yaml", []byte(text))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	var of []lint.Finding
	for _, g := range lint.Run([]*config.File{f}, lint.Options{Rules: []string{rule}}).Findings {
		if g.Rule.ID == rule {
			of = append(of, g)
		}
	}
	return of
}

// followed is the file with what is proposed for it, or empty if the rule finds nothing.
func (r row) followed(t *testing.T, w world, text string) string {
	t.Helper()
	before := found(t, r.rule, text)
	if len(before) == 0 {
		return ""
	}
	after := text
	if r.then == nil {
		for _, g := range before {
			edited, err := policyfile.Edit("gabion.yaml", []byte(after), g.Fix)
			if err != nil || len(g.Fix) == 0 {
				t.Fatalf("%s: %v has no fix that can be made: %v", w.name, g, err)
			}
			after = string(edited)
		}
	} else {
		after = w.file(func(p place) string {
			for _, g := range before {
				if g.Dependency == p.name {
					if len(g.Fix) > 0 || r.words != "" && !strings.Contains(g.Proposal, r.words) {
						t.Fatalf("%s: %q is not what is proposed: %v, %v", w.name, r.words, g, g.Fix)
					}
					return r.then(p, g.Proposal)
				}
			}
			return r.keys(p)
		})
	}
	if after == "" {
		return ""
	}
	for _, g := range found(t, r.rule, after) {
		if slices.ContainsFunc(before, func(b lint.Finding) bool {
			return b.Path == g.Path && b.Dependency == g.Dependency && b.Severity <= g.Severity
		}) {
			t.Errorf("%s: after the proposal: %v\n%s", w.name, g, after)
		}
	}
	return after
}

// result is what a row came to, over the scenarios that fit.
type result struct {
	worlds        int
	before, after played // sums
	worst         string // the scenario that loses most
	most          float64
	losers        []string // those that lose more than bound
}

// bound is how many calls of a hundred a proposal may cost.
const bound = 0.5

// replay plays the row's file with and without what is proposed for it.
func (r row) replay(t *testing.T, worlds []world, runs int) (out result) {
	t.Helper()
	for _, w := range worlds {
		if r.keyed {
			w = w.keyed()
		}
		text := w.file(r.keys)
		if text == "" {
			continue
		}
		then := r.followed(t, w, text)
		if then == "" {
			continue
		}
		a, b := w.play(t, text, runs), w.play(t, then, runs)
		out.worlds++
		out.before, out.after = out.before.add(a), out.after.add(b)
		lost := a.answered - b.answered
		if out.worst == "" || lost > out.most {
			out.worst, out.most = w.name, lost
		}
		if lost > bound {
			out.losers = append(out.losers, fmt.Sprintf("%s %.2f", w.name, lost))
		}
		if testing.Verbose() {
			t.Logf("%s: %.2f then %.2f (%+.2f), load %.2f then %.2f, twice %.0f then %.0f", w.name, a.answered, b.answered, -lost, a.load, b.load, a.twice, b.twice)
		}
	}
	return out
}

// judge says what is wrong with a proposal.
func (r row) judge(t *testing.T, x result, long bool) {
	n := float64(x.worlds)
	t.Logf("in %d scenarios %.2f then %.2f of 100 calls are answered, load %.2f then %.2f; most is lost in %s: %.2f; more than half a point in %s",
		x.worlds, x.before.answered/n, x.after.answered/n, x.before.load/n, x.after.load/n, x.worst, x.most, strings.Join(x.losers, ", "))
	most := bound
	if !long && r.about == "load" {
		most = 1.4 // an outage of a small world has no crowd that less load would save
	}
	if x.after.answered < x.before.answered-most*n {
		t.Errorf("what is proposed costs %.2f of 100 calls", (x.before.answered-x.after.answered)/n)
	}
	if !long && x.most > max(bound, r.small) {
		t.Errorf("what is proposed costs %.2f of 100 calls in %s", x.most, x.worst)
	}
	if r.about == "load" && x.after.load > x.before.load+0.02*n {
		t.Errorf("the load is %.2f after the proposal, and %.2f before", x.after.load/n, x.before.load/n)
	}
	if r.about == "twice" && x.after.twice > x.before.twice {
		t.Errorf("%.0f pieces of work are done twice after the proposal, and %.0f before", x.after.twice, x.before.twice)
	}
}

// What each rule proposes does not cost answers: over all scenarios that its facts allow half a
// point of a hundred at most. Rules about load buy less load by it. With GABION_SOAK=1 it is the
// library, and else small worlds. What single ones lose by more than that is in the rows.
func TestProposalsCostNoAnswers(t *testing.T) {
	long := os.Getenv("GABION_SOAK") == "1"
	worlds, runs := small(t), 2
	if long {
		worlds, runs = library(t), soakRuns
	}
	results := make([]result, len(rows))
	t.Run("rows", func(t *testing.T) {
		for i, r := range rows {
			t.Run(r.rule+" "+r.says, func(t *testing.T) {
				t.Parallel()
				results[i] = r.replay(t, worlds, runs)
				if results[i].worlds == 0 && (long || !r.library) {
					t.Fatal("it is found in no scenario")
				}
				if results[i].worlds > 0 {
					r.judge(t, results[i], long)
				}
				if got := strings.Join(names(results[i].losers), " "); long && got != r.loses {
					t.Errorf("more than half a point is lost in %q, and the row says %q", got, r.loses)
				}
			})
		}
	})
	theTable(t, results, long)
}

// names are the first words.
func names(of []string) (all []string) {
	for _, one := range of {
		first, _, _ := strings.Cut(one, " ")
		all = append(all, first)
	}
	return all
}

// A fix that is played is what gabion lint --fix writes, unless it leaves the fix for what another
// rule would then say.
func TestWhatIsPlayedIsWhatTheCommandWrites(t *testing.T) {
	wrote := 0
	for _, r := range rows {
		for _, w := range small(t)[:1] {
			text := w.file(r.keys)
			then := ""
			if text != "" && r.then == nil {
				then = r.followed(t, w, text)
			}
			if then == "" {
				continue
			}
			path := filepath.Join(t.TempDir(), "gabion.yaml")
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			var out, told bytes.Buffer
			cli.Run(t.Context(), lintcmd.Command(), []string{"--fix", "--severity", "note", "--rules", r.rule, path}, &out, &told)
			made, err := os.ReadFile(path)
			switch {
			case err != nil:
				t.Fatal(err)
			case string(made) == then:
				wrote++
			case string(made) != text || !strings.Contains(told.String(), "it would"):
				t.Errorf("%s in %s: the command writes\n%s\nand what is played is\n%s\n%s", r.rule, w.name, made, then, &told)
			default:
				t.Logf("%s in %s: %s", r.rule, w.name, &told)
			}
		}
	}
	if wrote < 15 {
		t.Errorf("the command wrote %d files", wrote)
	}
}
