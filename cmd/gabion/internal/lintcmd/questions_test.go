package lintcmd

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gabion-go/gabion/cmd/gabion/internal/checklistcmd"
	"github.com/gabion-go/gabion/cmd/gabion/internal/cli"
)

// answers writes an answer as a user does.
func answers(t *testing.T, args string) {
	t.Helper()
	var out bytes.Buffer
	if code := cli.Run(t.Context(), checklistcmd.Command(), append([]string{"answer"}, strings.Fields(args)...), &out, &out); code != cli.ExitOK {
		t.Fatal(out.String())
	}
}

const asked = "warning C15: Was this policy under load"

func TestOpenQuestionsAreFindings(t *testing.T) {
	dir := folder(t, map[string]string{"small.yaml": "version: 1\ndependencies:\n  stock: {retry: off, breaker: off}\n"})
	ask := func(args string) (int, string) {
		t.Helper()
		code, out, problems := ask(t, dir, "", args)
		return code, flat(out + problems)
	}
	if _, out := ask("small.yaml"); strings.Contains(out, "C15") {
		t.Errorf("it asks unasked: %s", out)
	}
	code, out := ask("--questions small.yaml")
	if code != cli.ExitFindings || !strings.Contains(out, "small.yaml:3:3: "+asked) || !strings.Contains(out, "gabion checklist answer small.yaml --question C15 --dependency stock") {
		t.Errorf("open: %d, %s", code, out)
	}
	if strings.Contains(out, "C11") || strings.Count(out, "breaker: off: a dependency") != 1 {
		t.Errorf("what rules answer is asked, or said twice: %s", out)
	}
	if code, out := ask("--questions --severity error small.yaml"); code != cli.ExitOK || strings.Contains(out, asked) {
		t.Errorf("with errors only: %d, %s", code, out)
	}
	if code, out := ask("--questions --rules G001 small.yaml"); code != cli.ExitFindings || !strings.Contains(out, asked) || strings.Contains(out, "C11") {
		t.Errorf("with the findings of one rule, of the others the answers count all the same: %d, %s", code, out)
	}

	t.Chdir(dir)
	answers(t, "small.yaml --dependency stock --question C15 --answer no --by Ada --note later")
	if _, out := ask("--questions small.yaml"); !strings.Contains(out, asked) || !strings.Contains(out, "no: Ada, ") || !strings.Contains(out, ": later") {
		t.Errorf("answered with no: %s", out)
	}
	answers(t, "small.yaml --dependency stock --question C15 --answer yes --by Ada")
	if _, out := ask("--questions small.yaml"); strings.Contains(out, asked) {
		t.Errorf("answered: %s", out)
	}
	if err := os.WriteFile(filepath.Join(dir, "small.yaml"), []byte("version: 1\ndependencies:\n  stock: {retry: off, breaker: off, timeout: {call: 2s}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, out := ask("--questions small.yaml"); !strings.Contains(out, asked) || !strings.Contains(out, "stale: Ada said yes, but the policy changed") {
		t.Errorf("the policy changed: %s", out)
	}
	if err := os.WriteFile(filepath.Join(dir, "small.answers.yaml"), []byte("version: 1\nprogramme: {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, out := ask("--questions small.yaml"); code != cli.ExitFindings || !strings.Contains(out, "small.answers.yaml:2:1: error G000") {
		t.Errorf("a mistake in the answers: %d, %s", code, out)
	}
}

func TestWhatARuleFoundIsNotAskedAsWell(t *testing.T) {
	dir := folder(t, map[string]string{"greedy.yaml": "version: 1\ndependencies:\n  stock: {retry: {attempts: 3, budget: off}}\n"})
	_, out, _ := ask(t, dir, "", "--questions greedy.yaml")
	if !strings.Contains(out, "warning G020") || strings.Contains(out, "C06") || !strings.Contains(out, "C01") {
		t.Error(out)
	}
}

func TestOpenQuestionsInOtherFormats(t *testing.T) {
	dir := folder(t, map[string]string{"small.yaml": "version: 1\ndependencies:\n  stock: {}\n"})
	_, out, _ := ask(t, dir, "", "--questions --format json small.yaml")
	var d document
	if err := json.Unmarshal([]byte(out), &d); err != nil {
		t.Fatal(err)
	}
	last := 0
	for _, f := range d.Findings {
		if f.Line < last {
			t.Errorf("%s in line %d comes after line %d", f.Rule, f.Line, last)
		}
		last = f.Line
		if f.Rule == "C15" && (f.Name != "question" || f.Dependency != "stock" || !strings.HasSuffix(f.Page, "docs/linting.md#what-no-rule-can-answer")) {
			t.Errorf("%+v", f)
		}
	}
	for format, want := range map[string]string{"json": `"rule": "C15"`, "sarif": `"ruleId": "C15"`, "github": "C15"} {
		if _, out, _ := ask(t, dir, "", "--questions --format "+format+" small.yaml"); !strings.Contains(out, want) {
			t.Errorf("%s: %s", format, out)
		}
	}
}

func TestQuestionsNeedAFile(t *testing.T) {
	for _, args := range []string{"--questions -", "--questions"} {
		if code, _, problems := ask(t, t.TempDir(), tight, args); code != cli.ExitUsage || !strings.Contains(problems, "the answers are beside them") {
			t.Errorf("%s: %d, %s", args, code, problems)
		}
	}
}
