package tune

import (
	"errors"
	"strings"
	"testing"

	"github.com/gabion-go/gabion/lab/internal/scenario"
)

func TestGoalsAreRead(t *testing.T) {
	for _, c := range []struct {
		fact, text string
		first      Column
		bounds     []Bound
	}{
		{"an objective alone", "goodput first", Column{"goodput", ""}, nil},
		{"numbers, with the phases that are meant", "goodput first, amplification <= 1.2, recovery <= 10s", Column{"goodput", ""}, []Bound{
			{Column: Column{"amplification", scenario.Trouble}, AtMost: true, Value: 1.2}, {Column: Column{"recovery", ""}, AtMost: true, Value: 10},
		}},
		{"the objective need not be the first part", "stuck <= 0%, success during faults first", Column{"success", "during"}, []Bound{{Column: Column{"stuck", ""}, AtMost: true}}},
		{"no blanks, and signs as they are printed", "goodput first,amplification≤1.2,goodput>=95.5%", Column{"goodput", ""}, []Bound{
			{Column: Column{"amplification", scenario.Trouble}, AtMost: true, Value: 1.2}, {Column: Column{"goodput", ""}, Value: 0.955},
		}},
		{"phases after the metric and after the value", "goodput after first, amplification overall <= 2, p99 <= 250ms during the faults", Column{"goodput", "after"}, []Bound{
			{Column: Column{"amplification", ""}, AtMost: true, Value: 2}, {Column: Column{"p99", "during"}, AtMost: true, Value: 0.25},
		}},
		{"what it is today", "goodput first, load <= now, recovery <= now+10%, success >= now-1%", Column{"goodput", ""}, []Bound{
			{Column: Column{"load", scenario.Trouble}, AtMost: true, Now: true}, {Column: Column{"recovery", ""}, AtMost: true, Now: true, Slack: 0.1},
			{Column: Column{"success", ""}, Now: true, Slack: 0.01},
		}},
		{"an objective that sending nothing would meet gets a bound", "amplification first", Column{"amplification", scenario.Trouble}, []Bound{
			{Column: Column{"goodput", ""}, Now: true, Added: true},
		}},
		{"unless there is one", "p99 first, success >= now", Column{"p99", ""}, []Bound{{Column: Column{"success", ""}, Now: true}}},
		{"nothing is the usual goal", " ", Column{"goodput", ""}, []Bound{
			{Column: Column{"amplification", scenario.Trouble}, AtMost: true, Now: true, Usual: true}, {Column: Column{"recovery", ""}, AtMost: true, Now: true, Usual: true},
		}},
		{"a tenth more than usual", "goodput first, load <= usual+10%", Column{"goodput", ""}, []Bound{
			{Column: Column{"load", scenario.Trouble}, AtMost: true, Now: true, Usual: true, Slack: 0.1},
		}},
	} {
		g, err := ParseGoal(c.text)
		if err != nil {
			t.Errorf("%s: %v", c.fact, err)
			continue
		}
		same := g.Objective == c.first && len(g.Bounds) == len(c.bounds)
		for i := range g.Bounds {
			b := g.Bounds[i]
			same = same && b.Text != ""
			b.Text = ""
			same = same && i < len(c.bounds) && b == c.bounds[i]
		}
		if !same {
			t.Errorf("%s: %+v", c.fact, g)
		}
	}
}

func TestAMistakeInAGoalHasItsPlaceAndAProposal(t *testing.T) {
	for _, c := range []struct{ fact, text, problem, caret string }{
		{"an unknown metric", "goodputt first", `there is no metric "goodputt"`, "^ did you mean goodput?"},
		{"one that is like nothing", "goodput first, xyzzy <= 1", `goal:1:16: there is no metric "xyzzy"`, "\n  |                ^ use one of goodput, success"},
		{"no objective", "amplification <= 1.2", "nothing is first", "goodput first"},
		{"two objectives", "goodput first, p99 first", "two metrics are first", "               ^"},
		{"a word for first", "goodput frist", `"frist" follows goodput`, `        ^ did you mean "first"?`},
		{"no operator", "goodput first, recovery 10s", `"10s" follows recovery`, "write first, or <= and a value"},
		{"the wrong way round", "goodput first, recovery >= 10s", "recovery is better if there is less of it", "                        ^ write <="},
		{"more goodput is better", "p99 first, goodput <= 90%", "goodput is better if there is more of it", "write >="},
		{"a value without a unit", "goodput first, recovery <= 10", `"10" is no value of recovery`, "write one such as 10s, or now"},
		{"a share that is a number", "goodput first, success >= 0.9", `"0.9" is no value of success`, "95%"},
		{"more than all", "goodput first, success >= 130%", `"130%" is no value of success`, "95%"},
		{"not a number", "goodput first, amplification <= NaN", `"NaN" is no value`, "1.2"},
		{"a value below nothing", "goodput first, amplification <= -1", `"-1" is no value`, "1.2"},
		{"off is no bound", "goodput first, recovery <= off", `"off" is no value`, "10s"},
		{"no value", "goodput first, recovery <=", "a value is missing", "10s"},
		{"less than today, of what should be less", "goodput first, recovery <= now-10%", "is no bound", "now+10%"},
		{"less than usual", "goodput first, recovery <= usual-10%", "is no bound", "usual+10%"},
		{"a part that is empty", "goodput first,, recovery <= 1s", "a part is empty", "remove the comma"},
		{"something behind it", "goodput first please", `"please" is at the end`, "comma"},
		{"a phase of what has none", "goodput first, recovery during <= 1s", "recovery is of the whole run", "remove during"},
		{"too long", strings.Repeat("goodput first ", 100), "too long", ""},
		{"no text", "goodput \xff first", "no text", ""},
	} {
		_, err := ParseGoal(c.text)
		var wrong *GoalError
		if !errors.As(err, &wrong) || !strings.Contains(err.Error(), c.problem) || !strings.Contains(err.Error(), c.caret) {
			t.Errorf("%s: %v", c.fact, err)
		}
	}
}

func FuzzParseGoal(f *testing.F) {
	for _, s := range []string{UsualGoal, "goodput first, amplification <= 1.2 during faults, recovery<=now+10%", "≤≥<>=!", "p99 during the faults first,", ",", "\xff first"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		g, err := ParseGoal(text)
		if err != nil {
			if err.Error() == "" {
				t.Error("an error without words")
			}
			return
		}
		if g.Objective.metric() == nil {
			t.Error("a goal without an objective")
		}
		var parts []string
		for _, b := range g.Bounds {
			if !b.Added {
				parts = append(parts, b.Text)
			}
			if !(b.Value >= 0) || !(b.Slack >= 0) {
				t.Errorf("%+v", b)
			}
		}
		again, err := ParseGoal(strings.Join(append([]string{g.Objective.Key + " first"}, parts...), ","))
		if err != nil {
			if len(strings.Join(parts, ","))+len(g.Objective.Key)+7 <= maxGoal {
				t.Errorf("%q is read, and %q is not: %v", text, parts, err)
			}
			return
		}
		for i := range again.Bounds {
			if i < len(g.Bounds) && again.Bounds[i].Column != g.Bounds[i].Column {
				t.Errorf("%+v and %+v", again.Bounds[i], g.Bounds[i])
			}
		}
	})
}
