package checklistcmd

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gabion-go/gabion/cmd/gabion/internal/cli"
	"github.com/gabion-go/gabion/config"
	"github.com/gabion-go/gabion/internal/lint"
	"github.com/gabion-go/gabion/internal/policyfile"
)

const (
	policyText = "version: 1\ndependencies:\n  stock: {retry: {attempts: 3}}\n  pay: {breaker: off, retry: off}\n"
	today      = day("2026-03-10")
)

// ask runs the command in a folder.
func ask(t *testing.T, dir string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	t.Chdir(dir)
	var out, problems bytes.Buffer
	r := &request{today: today, user: "ada"}
	code = cli.Run(t.Context(), r.command(), args, &out, &problems)
	return code, out.String(), problems.String()
}

func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// state returns the item of a question in JSON.
func state(t *testing.T, dir, id, dependency string, more ...string) item {
	t.Helper()
	_, out, stderr := ask(t, dir, append([]string{"gabion.yaml", "--format", "json"}, more...)...)
	var l list
	if err := json.Unmarshal([]byte(out), &l); err != nil {
		t.Fatal(err, stderr)
	}
	at := slices.IndexFunc(l.Items, func(i item) bool { return i.ID == id && i.Dependency == dependency })
	if at < 0 {
		return item{}
	}
	return l.Items[at]
}

func answerC01(t *testing.T, dir string, answer string) {
	t.Helper()
	args := strings.Fields("answer gabion.yaml --question C01 --dependency stock --answer " + answer)
	if code, out, stderr := ask(t, dir, append(args, "--note", "it's 100 % $tested\n\x1b")...); code != 0 || out != "gabion.answers.yaml: C01 for stock: "+answer+"\n" {
		t.Fatalf("%d %s%s", code, out, stderr)
	}
}

func TestAnAnswerIsKept(t *testing.T) {
	dir := folder(t, map[string]string{"gabion.yaml": policyText})
	if i := state(t, dir, "C01", "stock"); i.State != isOpen || i.Question == "" || i.Check == "" {
		t.Errorf("%+v", i)
	}
	answerC01(t, dir, "yes")
	if i := state(t, dir, "C01", "stock"); i.State != "yes" || i.By != "ada" || i.At != today || i.Note != "it's 100 % $tested" {
		t.Errorf("%+v", i)
	}
	if i := state(t, dir, "C01", "pay"); i.ID != "" {
		t.Errorf("it is asked where nothing is retried: %+v", i)
	}
	answerC01(t, dir, "no")
	if i := state(t, dir, "C01", "stock"); i.State != "no" || i.settled() {
		t.Errorf("%+v", i)
	}
	answerC01(t, dir, "not-applicable")
	if i := state(t, dir, "C01", "stock"); !i.settled() {
		t.Errorf("%+v", i)
	}
	if code, _, stderr := ask(t, dir, strings.Fields("answer gabion.yaml --question C31 --answer yes --by Grace")...); code != 0 {
		t.Error(stderr)
	}
	if i := state(t, dir, "C31", ""); i.By != "Grace" {
		t.Errorf("%+v", i)
	}
	if i := state(t, dir, "C01", "stock"); !i.settled() {
		t.Errorf("another answer changed %+v", i)
	}
}

func TestAnAnswerDoesNotOutliveWhatItIsAbout(t *testing.T) {
	for _, c := range []struct {
		fact, old, new string
		in             string
		args, want     string
	}{
		{"nothing changed", "", "", "gabion.yaml", "", "yes"},
		{"another key changed", "attempts: 3}", "attempts: 3}, bulkhead: {limit: 7}", "gabion.yaml", "", "yes"},
		{"its key changed", "attempts: 3", "attempts: 2", "gabion.yaml", "", "ada said yes, but the policy changed"},
		{"its key changed for all", "version: 1", "version: 1\ndefaults: {breaker: {open: 3s}}", "gabion.yaml", "", "ada said yes, but the policy changed"},
		{"the question changed", "question: '", "question: '0", "gabion.answers.yaml", "", "the question changed"},
		{"a year", string(today), "2025-03-10", "gabion.answers.yaml", "", "yes"},
		{"a year and a day", string(today), "2025-03-09", "gabion.answers.yaml", "", "that is 366 days ago"},
		{"a year and a day, if that does not matter", string(today), "2025-03-09", "gabion.answers.yaml", "--max-age 0", "yes"},
		{"eight days", string(today), "2026-03-02", "gabion.answers.yaml", "--max-age 7", "that is 8 days ago"},
	} {
		t.Run(c.fact, func(t *testing.T) {
			dir := folder(t, map[string]string{"gabion.yaml": policyText})
			answerC01(t, dir, "yes")
			path := filepath.Join(dir, c.in)
			text, err := os.ReadFile(path)
			if err != nil || !strings.Contains(string(text), c.old) {
				t.Fatal(err, string(text))
			}
			if err := os.WriteFile(path, []byte(strings.Replace(string(text), c.old, c.new, 1)), 0o600); err != nil {
				t.Fatal(err)
			}
			i := state(t, dir, "C01", "stock", strings.Fields(c.args)...)
			if got := i.State + " " + i.Note; !strings.Contains(got, c.want) || i.settled() != (c.want == "yes") {
				t.Errorf("%+v", i)
			}
		})
	}
}

// Rules answer what they can, and leave the rest to people.
func TestRulesAnswerWhatTheyCan(t *testing.T) {
	file, _ := config.Read("gabion.yaml", []byte(policyText))
	rule := lint.Rules()[0]
	q := question{id: "C99", rules: []string{rule.ID}}
	at := config.Finding{File: "gabion.yaml", Reason: "so it is"}
	found := func(how lint.Severity, dependency string) []lint.Finding {
		return []lint.Finding{{Rule: rule, Severity: how, Finding: at, Dependency: dependency}}
	}
	for _, c := range []struct {
		fact   string
		report lint.Report
		q      question
		want   string
	}{
		{"nothing is found", lint.Report{}, q, "yes gabion lint " + rule.ID + " "},
		{"a warning", lint.Report{Findings: found(lint.Warning, "stock")}, q, "no gabion lint " + rule.ID + " so it is"},
		{"of another dependency", lint.Report{Findings: found(lint.Warning, "pay")}, q, "yes gabion lint " + rule.ID + " "},
		{"a note leaves it to people", lint.Report{Findings: found(lint.Note, "stock")}, q, "open  " + rule.ID + ": so it is"},
		{"what is unknown too", lint.Report{Unknown: []lint.Unknown{{Rule: rule, File: "gabion.yaml", Dependency: "stock", Missing: "facts.rate", Why: "not said"}}}, q, "open  " + rule.ID + " could answer it, but facts.rate: not said"},
		{"an ignore", lint.Report{Ignored: []lint.Ignored{{Finding: found(lint.Warning, "stock")[0], Line: 7, Why: "meant"}}}, q, "not-applicable gabion lint " + rule.ID + " ignored in line 7: meant"},
		{"no rule", lint.Report{}, question{id: "C99"}, "open  "},
		{"a rule that this program does not have", lint.Report{}, question{rules: []string{rule.ID, "G999"}}, "open  "},
	} {
		j := judge{file: file, report: c.report}
		state, by, note := j.rules(c.q, "stock")
		if got := state + " " + by + " " + note; got != c.want {
			t.Errorf("%s: got %q, want %q", c.fact, got, c.want)
		}
	}
}

func TestHowTheCommandEnds(t *testing.T) {
	dir := folder(t, map[string]string{
		"gabion.yaml": policyText, "broken.yaml": "version: 1\ndependencies: {a: {x: 1}}\n", "none.yaml": "version: 1\ndependencies: {}\n",
		"cut.yaml": policyText, "cut.answers.yaml": "version: 1\nprogram: {C31: {answer: yes, by: a, at",
		"far.yaml": policyText, "far.answers.yaml": "version: 1\ndependencies: {gone: {C12: {answer: yes, by: a, at: 2026-01-01}}}\n",
	})
	answer := func(more string) string { return "answer gabion.yaml --dependency stock " + more }
	for _, c := range []struct {
		fact, args     string
		code           int
		stdout, stderr string
	}{
		{"questions are open", "gabion.yaml", 1, "\nstock\n  C01 open  When the breaker is open, do retries stop as well?\n", ""},
		{"of one dependency", "gabion.yaml --dependency pay", 1, "pay\n", ""},
		{"Markdown", "gabion.yaml --format markdown", 1, "- [ ] **C01** When the breaker is open, do retries stop as well?: open<br>to find out: ", ""},
		{"a file with a mistake", "broken.yaml", 1, "questions are open", "unknown key \"x\""},
		{"answers that are cut off", "cut.yaml", 1, "questions are open", "not YAML"},
		{"answers for an unknown dependency", "far.yaml", 1, "note: far.answers.yaml has answers for gone, which far.yaml does not have\n", ""},
		{"no file", "", 2, "", "no file is named"},
		{"two files", "gabion.yaml none.yaml", 2, "", "one file at a time"},
		{"a file that is not there", "nowhere.yaml", 3, "", "no such file"},
		{"a folder", ".", 3, "", "is a directory"},
		{"no such dependency", "gabion.yaml --dependency stok", 2, "", "did you mean stock?"},
		{"no such format", "gabion.yaml --format md", 2, "", "use one of text, json, markdown"},
		{"a negative age", "gabion.yaml --max-age -1", 2, "", "negative"},
		{"flags of the other", "gabion.yaml --note x", 2, "", "are for gabion checklist answer"},
		{"flags of this", "answer gabion.yaml --open", 2, "", "are for gabion checklist FILE"},
		{"no question", answer("--answer yes"), 2, "", "--question ID is missing"},
		{"no such question", answer("--question C1 --answer yes"), 2, "", "there is no question \"C1\""},
		{"no answer", answer("--question C01"), 2, "", "write yes, no or not-applicable"},
		{"an invalid answer", answer("--question C01 --answer perhaps"), 2, "", "\"perhaps\" is no answer"},
		{"a question about the program", answer("--question C31 --answer yes"), 2, "", "leave --dependency out"},
		{"a question about a dependency", "answer gabion.yaml --question C01 --answer yes", 2, "", "--dependency NAME is missing"},
		{"a question that is not asked", "answer gabion.yaml --dependency pay --question C01 --answer yes", 2, "", "C01 is not asked of pay"},
		{"no name", answer("--question C01 --answer yes --by \x01"), 2, "", "--by NAME is missing"},
		{"into answers that are cut off", "answer cut.yaml --question C31 --answer yes", 1, "", "not YAML"},
		{"help", "-h", 0, "usage: gabion checklist", ""},
	} {
		t.Run(c.fact, func(t *testing.T) {
			code, stdout, stderr := ask(t, dir, strings.FieldsFunc(c.args, func(r rune) bool { return r == ' ' })...)
			if code != c.code || !strings.Contains(stdout, c.stdout) || !strings.Contains(stderr, c.stderr) || c.stderr == "" && stderr != "" || c.stdout == "" && stdout != "" {
				t.Errorf("it ends with %d:\n%s\n%s", code, stdout, stderr)
			}
		})
	}
}

// When everything is answered the command ends with 0, and --open shows nothing.
func TestEverythingCanBeAnswered(t *testing.T) {
	dir := folder(t, map[string]string{"gabion.yaml": "version: 1\ndependencies: {pay: {breaker: off, retry: off}}\n"})
	for range 2 {
		_, out, _ := ask(t, dir, "gabion.yaml", "--format", "json", "--open")
		var l list
		if err := json.Unmarshal([]byte(out), &l); err != nil {
			t.Fatal(err)
		}
		for _, i := range l.Items {
			args := []string{"answer", "gabion.yaml", "--question", i.ID, "--answer", "yes", "--note", "because"}
			if i.Dependency != "" {
				args = append(args, "--dependency", i.Dependency)
			}
			if code, _, stderr := ask(t, dir, args...); code != 0 && i.State != "no" {
				t.Fatal(stderr)
			}
		}
	}
	code, out, _ := ask(t, dir, "gabion.yaml", "--open")
	if code != 0 || !regexp.MustCompile(`^all of \d+ questions are answered\n$`).MatchString(out) {
		t.Errorf("it ends with %d: %s", code, out)
	}
}

func TestQuestionsAreWhole(t *testing.T) {
	ids := map[string]bool{}
	for _, q := range questions {
		if ids[q.id] || !regexp.MustCompile(`^C\d\d$`).MatchString(q.id) || !strings.HasSuffix(q.text, "?") || q.check == "" {
			t.Errorf("%+v", q)
		}
		ids[q.id] = true
		for _, key := range q.keys {
			if !slices.ContainsFunc(policyfile.Keys(), func(k string) bool { return k == key || strings.HasPrefix(k, key+".") }) {
				t.Errorf("%s: there is no key %s", q.id, key)
			}
		}
	}
}

func TestMistakesInAnswersAreFound(t *testing.T) {
	for text, want := range map[string]string{
		"version: 2":               "a:1:10: version 2 is not known",
		"program: {}":              "version is missing",
		"version: 1\nprogramm: {}": "did you mean program?",
		"version: 1\nprogram: {C3l: {answer: yes, by: a, at: 2026-03-01}}":           "there is no question \"C3l\" here",
		"version: 1\nprogram: {C01: {answer: yes, by: a, at: 2026-03-01}}":           "there is no question \"C01\" here",
		"version: 1\nprogram: {C31: {answer: ja, by: a, at: 2026-03-01}}":            "\"ja\" is no answer",
		"version: 1\nprogram: {C31: {answer: yes, by: a, at: 1.3.2026}}":             "is no day",
		"version: 1\nprogram: {C31: {answer: yes, by: a, at: 2026-02-30}}":           "is no day",
		"version: 1\nprogram: {C31: {answer: yes, by: a, at: 2026-03-12}}":           "is in the future",
		"version: 1\nprogram: {C31: {answer: yes, by: a}}":                           "program.C31: at is missing",
		"version: 1\nprogram: {C31: {by: a, at: 2026-03-01}}":                        "program.C31: answer is missing",
		"version: 1\nprogram: {C31: {answer: yes, at: 2026-03-01, on: x}}":           "unknown key \"on\"",
		"version: 1\nprogram: {C31: {answer: yes}, C31: {answer: no}}":               "is there twice",
		"version: 1\ndependencies: {a: {C31: {answer: yes, by: a, at: 2026-03-01}}}": "there is no question \"C31\" here",
	} {
		a, found := parseAnswers("a", []byte(text), today)
		if len(found) == 0 || !strings.Contains(found.Error(), want) {
			t.Errorf("%s: %v", text, found)
		}
		if len(a.Program) > 0 || len(a.Dependencies["a"]) > 0 {
			t.Errorf("%s: it counts: %+v", text, a)
		}
	}
}

// What is written is read as it was meant, whatever people say.
func FuzzAnswers(f *testing.F) {
	f.Add("ada", "it's $x", "version: 1\n")
	f.Fuzz(func(t *testing.T, by, note, text string) {
		parseAnswers("f", []byte(text), today)
		if oneLine(by) == "" || len(by)+len(note) > 10_000 {
			return
		}
		var a answerFile
		e := entry{Answer: "yes", By: oneLine(by), At: today, Note: oneLine(note), Question: "1", Policy: "2"}
		a.set("C01", "stock", e)
		a.set("C31", "", e)
		b, found := parseAnswers("f", []byte(a.text()), today)
		if got, _ := b.of("C01", "stock"); len(found) > 0 || got != e || b.Program["C31"] != e {
			t.Errorf("%v\n%s", found, a.text())
		}
	})
}
