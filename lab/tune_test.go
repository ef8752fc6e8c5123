package lab_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/gabion-go/gabion/config"
	"github.com/gabion-go/gabion/lab"
)

// timid is a file whose budget is far too small for the scenario.
const timid = "version: 1\ndependencies:\n  db:\n    safe: true\n    timeout: {call: 3s, attempt: 1s}\n    retry: {budget: {ratio: 1%, reserve: 1, start: 1}}\n"

func tuneOptions(t *testing.T, file string) lab.TuneOptions {
	t.Helper()
	s, err := lab.Load("testdata/tune.yaml")
	if err != nil {
		t.Fatal(err)
	}
	f, err := config.Parse("gabion.yaml", []byte(file))
	if err != nil {
		t.Fatal(err)
	}
	return lab.TuneOptions{
		Scenarios: []*lab.Scenario{s}, Config: f, Goal: "goodput first, amplification <= 1.6",
		Vary: []string{"retry.budget.ratio=1%,10%,30%,60%,100%", "retry.attempts=2,3"}, Runs: 120, NoGuard: true,
	}
}

func written(t *testing.T, r *lab.Tuning) (text, asJSON string) {
	t.Helper()
	var a, b bytes.Buffer
	if err := errors.Join(r.Terminal(&a), r.WriteJSON(&b)); err != nil {
		t.Fatal(err)
	}
	return a.String(), b.String()
}

func TestTuningFindsABetterBudgetAndProvesIt(t *testing.T) {
	o := tuneOptions(t, timid)
	o.Propose = func(changes []lab.TuneChange) (string, error) {
		paths := ""
		for _, c := range changes {
			paths += " " + c.Path
		}
		return "the difference of" + paths + "\n", nil
	}
	r, err := lab.Tune(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	text, asJSON := written(t, r)
	raised := slices.ContainsFunc(r.Changes(), func(c lab.TuneChange) bool {
		return c.Path == "retry.budget.ratio" && c.From == "1%" && c.Source == "gabion.yaml:6"
	})
	if !r.Won() || r.Interrupted() || !raised {
		t.Errorf("%v\n%s", r.Changes(), text)
	}
	for _, want := range []string{"A better file was found", "the difference of ", " retry.budget.ratio", "amplification <= 1.6", "holds", "The front", "today", "with longer trouble", "1 validation of 40"} {
		if !strings.Contains(text, want) {
			t.Errorf("the text has no %q:\n%s", want, text)
		}
	}
	var parsed struct {
		Version    int
		Verdict    string
		Validation struct {
			Seeds int
			Rows  []struct{ Role, Verdict, Holds string }
		}
		Front []struct{ Values []float64 }
	}
	if err := json.Unmarshal([]byte(asJSON), &parsed); err != nil || parsed.Version != 1 || parsed.Verdict != "win" || parsed.Validation.Seeds < 12 || len(parsed.Front) < 2 {
		t.Errorf("%v\n%s", err, asJSON)
	}
	o.Workers = 3
	again, err := lab.Tune(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if other, otherJSON := written(t, again); other != text || otherJSON != asJSON {
		t.Errorf("with three workers it is another result:\n%s\n%s", text, other)
	}
}

func TestAKeyThatChangesNothingWinsNothing(t *testing.T) {
	o := tuneOptions(t, "version: 1\ndependencies:\n  db: {timeout: {call: 3s}}\n") // nothing may be repeated
	o.Vary, o.Runs = []string{"breaker.open=1s,4s,9s", "retry.backoff.cap=5s,10s"}, 100
	o.Propose = func([]lab.TuneChange) (string, error) { t.Error("a proposal is made of nothing"); return "", nil }
	r, err := lab.Tune(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if text, _ := written(t, r); r.Won() || len(r.Changes()) > 0 || !strings.Contains(text, "NOT RESOLVED") || !strings.Contains(text, "changes nothing in any run") {
		t.Error(text)
	}
}

func TestTuningIsInterruptedWithWhatIsKnown(t *testing.T) {
	before := runtime.NumGoroutine()
	for _, c := range []struct {
		fact string
		when func(p lab.TuneProgress) bool
		says string
	}{
		{"while it searches", func(p lab.TuneProgress) bool { return p.Done == 70 }, "NOT VALIDATED"},
		{"while it validates", func(p lab.TuneProgress) bool { return p.Phase == "validating" && p.Done == 25 }, "the validation was interrupted after"},
	} {
		ctx, stop := context.WithCancel(t.Context())
		o := tuneOptions(t, timid)
		o.Workers, o.Progress = 2, func(p lab.TuneProgress) {
			if c.when(p) {
				stop()
			}
		}
		r, err := lab.Tune(ctx, o)
		if err != nil {
			t.Fatal(err)
		}
		if text, _ := written(t, r); r.Won() || !r.Interrupted() || !strings.Contains(text, c.says) || strings.Contains(text, "Proposed") {
			t.Errorf("%s:\n%s", c.fact, text)
		}
		stop()
		if _, err := lab.Tune(ctx, o); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: a context that is over: %v", c.fact, err)
		}
	}
	if after := runtime.NumGoroutine(); after > before {
		t.Errorf("%d goroutines, %d before", after, before)
	}
}

func TestTimeThatIsOverEndsWithoutAClaim(t *testing.T) {
	o := tuneOptions(t, timid)
	o.Used = func() float64 { return 2 }
	if r, err := lab.Tune(t.Context(), o); err == nil || !strings.Contains(err.Error(), "no time for a single run") {
		t.Errorf("%v %v", r, err)
	}
	runs := 0
	o.Progress = func(lab.TuneProgress) { runs++ }
	o.Workers, o.Used = 1, func() float64 { return float64(runs) / 250 }
	r, err := lab.Tune(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if text, _ := written(t, r); r.Interrupted() || r.Won() && !strings.Contains(text, "seeds that the search has not seen") {
		t.Error(text)
	}
}

func TestWhatTuningRefuses(t *testing.T) {
	two := timid + "  ledger: {safe: true}\n"
	for _, c := range []struct {
		fact, file string
		change     func(o *lab.TuneOptions)
		says       string
	}{
		{"no file", timid, func(o *lab.TuneOptions) { o.Config = nil }, "no file is given"},
		{"no scenario", timid, func(o *lab.TuneOptions) { o.Scenarios = nil }, "no scenario is given"},
		{"one scenario twice", timid, func(o *lab.TuneOptions) { o.Scenarios = append(o.Scenarios, o.Scenarios[0]) }, "is there twice"},
		{"fewer runs than none", timid, func(o *lab.TuneOptions) { o.Runs = -1 }, "not negative"},
		{"a goal with a slip", timid, func(o *lab.TuneOptions) { o.Goal = "godput first" }, "did you mean goodput?"},
		{"a key with a slip", timid, func(o *lab.TuneOptions) { o.Vary = []string{"retry.attemps"} }, "did you mean retry.attempts?"},
		{"no dependency is named", two, func(*lab.TuneOptions) {}, "say which of them is tuned, such as db"},
		{"a dependency with a slip", two, func(o *lab.TuneOptions) { o.Dependency = "legder" }, "did you mean ledger?"},
		{"two other names", two, func(o *lab.TuneOptions) { o.As = map[string]string{"db": "db", "x": "ledger"} }, "say which of them is tuned"},
		{"a name that the scenario does not have", two, func(o *lab.TuneOptions) { o.As = map[string]string{"bd": "db"} }, "did you mean db?"},
		{"all and one", two, func(o *lab.TuneOptions) { o.As, o.Dependency = map[string]string{"*": "db", "db": "db"}, "db" }, "name no other"},
		{"a file without dependencies", "version: 1\ndependencies: {}\n", func(*lab.TuneOptions) {}, "has no dependencies"},
		{"a metric that is never known", timid, func(o *lab.TuneOptions) { o.Goal, o.Runs = "p999 before first", 20 }, "is known of no run"},
	} {
		o := tuneOptions(t, c.file)
		c.change(&o)
		if _, err := lab.Tune(t.Context(), o); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", c.fact, err)
		}
	}
}

func TestADependencyOfAnotherNameIsTunedInItsPlace(t *testing.T) {
	file := strings.Replace(timid, "  db:", "  payments:", 1)
	for _, c := range []struct {
		fact string
		as   map[string]string
	}{
		{"of itself", nil}, {"by its other name", map[string]string{"db": "payments"}}, {"in place of all", map[string]string{"*": "payments"}},
	} {
		o := tuneOptions(t, file)
		o.As, o.Vary, o.Runs = c.as, o.Vary[:1], 60
		r, err := lab.Tune(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		if text, _ := written(t, r); !r.Won() || !strings.HasPrefix(text, "payments of gabion.yaml") {
			t.Errorf("%s: %s", c.fact, text)
		}
	}
}
