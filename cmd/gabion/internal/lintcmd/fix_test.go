package lintcmd

import (
	"cmp"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gabion-go/gabion/config"
	lintpages "github.com/gabion-go/gabion/docs/lint"
	"github.com/gabion-go/gabion/internal/lint"
	"github.com/gabion-go/gabion/internal/policyfile"
)

// manyRules find more than 3 attempts, which they propose instead, and 2 attempts for bank.
func manyRules(in []input) (out outcome) {
	for _, one := range in {
		f, broken := config.Read(one.name, one.text)
		for _, b := range broken {
			out.Findings = append(out.Findings, lint.Finding{Rule: lint.Rule{ID: "G000"}, Severity: lint.Error, Finding: b})
		}
		for _, name := range f.Names() {
			say := func(id string, values ...string) {
				found := lint.Finding{Rule: lint.Rule{ID: id}, Severity: lint.Warning, Dependency: name, Path: "retry.attempts", Finding: config.Finding(policyfile.Of(f).Finding(name, "retry.attempts", id, ""))}
				for _, v := range values {
					found.Fix = append(found.Fix, policyfile.Change{Dependency: name, Path: "retry.attempts", Value: v})
				}
				out.Findings = append(out.Findings, found)
			}
			attempts := f.Policies[name].Retry.Attempts
			switch {
			case attempts > 10:
				say("G001", "4") // which leads to the next
			case attempts > 5:
				say("G003", "0x") // which is no number
			case attempts == 5:
				say("G004", "5") // which changes nothing
			case attempts > 3:
				say("G001", "3")
			case attempts == 3 && name == "bank":
				say("G002")
			case attempts == 3 && name == "mild":
				say("G005")
				out.Findings[len(out.Findings)-1].Severity = lint.Note
			}
		}
	}
	return out
}

func fixed(text string, shows func(lint.Finding) bool) *fixer {
	f := &fixer{look: manyRules, shows: shows, before: []input{{name: "a.yaml", text: []byte(text)}}}
	f.run()
	return f
}

func TestFixesAreMadeWhereTheyAreSafe(t *testing.T) {
	all := func(lint.Finding) bool { return true }
	for _, c := range []struct {
		fact, before, after, told string
		shows                     func(lint.Finding) bool
	}{
		{"one", "a: {retry: {attempts: 4}} # four", "a: {retry: {attempts: 3}} # four", "a.yaml: written: a: retry.attempts: 3 for G001\n", all},
		{"of two dependencies", "a: {retry: {attempts: 4}}\n  b: {retry: {attempts: 4}}", "a: {retry: {attempts: 3}}\n  b: {retry: {attempts: 3}}", "written: b: retry.attempts: 3 for G001\n", all},
		{"one that was not asked for", "a: {retry: {attempts: 4}}", "", "", func(lint.Finding) bool { return false }},
		{"one that leads to another finding", "bank: {retry: {attempts: 4}}", "", "a.yaml: left: bank: retry.attempts: 3 for G001: it would lead to G002", all},
		{"one that leads to a note", "mild: {retry: {attempts: 4}}", "mild: {retry: {attempts: 3}}", "written: mild: retry.attempts: 3 for G001", all},
		{"one that does not help", "a: {retry: {attempts: 5}}", "", "a.yaml: left: a: retry.attempts: 5 for G004: it would not be gone", all},
		{"one that leaves a finding of its rule", "a: {retry: {attempts: 11}}", "", "left: a: retry.attempts: 4 for G001: it would not be gone", all},
		{"one that can't be written", "a: {retry: {attempts: 6}}", "", "a.yaml: left: a: retry.attempts: 0x for G003: ", all},
		{"one behind an alias", "a: &x {retry: {attempts: 4}}\n  b: *x", "", "left: b: retry.attempts: 3 for G001: ", all},
		{"nothing to do", "a: {retry: {attempts: 2}}", "", "", all},
	} {
		t.Run(c.fact, func(t *testing.T) {
			const head = "version: 1\ndependencies:\n  "
			c.after = cmp.Or(c.after, c.before)
			f := fixed(head+c.before+"\n", c.shows)
			if got := string(f.in[0].text); got != head+c.after+"\n" {
				t.Errorf("got\n%s", got)
			}
			if told := strings.Join(strings.Fields(f.told("written")), " "); !strings.Contains(told, strings.TrimSpace(c.told)) || c.told == "" && told != "" {
				t.Errorf("it says %q, want %q", told, c.told)
			}
		})
	}
}

// A budget that is on again is judged by more rules. That they lack facts is no reason to
// leave it off.
func TestAFixMayLetRulesApplyThatLackFacts(t *testing.T) {
	found := lint.Finding{Rule: lint.Rule{ID: "G001"}}
	unknown := func(missing string) outcome {
		return outcome{Report: lint.Report{Unknown: []lint.Unknown{{Rule: lint.Rule{ID: "G002"}, Missing: missing}}}}
	}
	if why := worse(outcome{}, unknown("facts.rate"), found); why != "" {
		t.Error(why)
	}
	if why := worse(outcome{}, unknown("retry.attempts"), found); why == "" {
		t.Error("a key that can't be read any more is no reason")
	}
	if why := worse(unknown("retry.attempts"), unknown("retry.attempts"), found); why != "" {
		t.Error(why)
	}
}

func TestAVariableStays(t *testing.T) {
	text := "version: 1\ndependencies:\n  a: {retry: {attempts: \"${N:-12}\"}}\n"
	f := fixed(text, func(lint.Finding) bool { return true })
	told := f.told("written")
	if got := string(f.in[0].text); got != text || !strings.Contains(told, "variable: N") || strings.Count(told, "retry.attempts") != 1 {
		t.Errorf("got\n%s%s", got, told)
	}
}

func TestADiffIsAPatch(t *testing.T) {
	f := fixed("version: 1\ndependencies:\n  a: {retry: {attempts: 4}}\n", func(lint.Finding) bool { return true })
	want := "--- a.yaml\n+++ a.yaml\n@@ -1,3 +1,3 @@\n version: 1\n dependencies:\n-  a: {retry: {attempts: 4}}\n+  a: {retry: {attempts: 3}}\n"
	if got := f.diff(); got != want {
		t.Errorf("got\n%s", got)
	}
}

// changed is a fixer of files in a folder, each with a line more.
func changed(t *testing.T, dir string, names ...string) *fixer {
	t.Helper()
	f := &fixer{}
	for _, name := range names {
		path := filepath.Join(dir, name)
		text, info, err := readFile(path)
		if err != nil {
			t.Fatal(err)
		}
		f.before = append(f.before, input{path: path, name: name, text: text, info: info})
		f.in = append(f.in, input{path: path, name: name, text: append(text[:len(text):len(text)], "# more\n"...), info: info})
	}
	return f
}

func content(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestFilesAreReplacedAsAWhole(t *testing.T) {
	dir := folder(t, map[string]string{"a.yaml": "a\n", "b.yaml": "b\n"})
	if err := os.Symlink("b.yaml", filepath.Join(dir, "link.yaml")); err != nil {
		t.Fatal(err)
	}
	if err := changed(t, dir, "a.yaml", "link.yaml").write(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a.yaml", "b.yaml"} {
		info, err := os.Lstat(filepath.Join(dir, name))
		if err != nil || info.Mode() != 0o640 || content(t, filepath.Join(dir, name)) != name[:1]+"\n# more\n" {
			t.Errorf("%s: %v, %v, %s", name, err, info.Mode(), content(t, filepath.Join(dir, name)))
		}
	}
	if info, err := os.Lstat(filepath.Join(dir, "link.yaml")); err != nil || info.Mode()&fs.ModeSymlink == 0 {
		t.Errorf("the link was replaced: %v", err)
	}
	left(t, dir, 3)
}

// left counts the files in a folder.
func left(t *testing.T, dir string, want int) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != want {
		t.Errorf("%v, %v", entries, err)
	}
}

func TestNothingIsWrittenIfOneFileCanNotBe(t *testing.T) {
	for fact, break_ := range map[string]func(path string) error{
		"changed in the meantime": func(path string) error { return os.WriteFile(path, []byte("other"), 0o600) },
		"gone":                    os.Remove,
		"a folder now":            func(path string) error { _ = os.Remove(path); return os.Mkdir(path, 0o700) },
	} {
		t.Run(fact, func(t *testing.T) {
			dir := folder(t, map[string]string{"a.yaml": "a\n", "b.yaml": "b\n"})
			f := changed(t, dir, "a.yaml", "b.yaml")
			if err := break_(filepath.Join(dir, "b.yaml")); err != nil {
				t.Fatal(err)
			}
			if err := f.write(); err == nil {
				t.Error("it was written")
			}
			if got := content(t, filepath.Join(dir, "a.yaml")); got != "a\n" {
				t.Errorf("a.yaml is %q", got)
			}
			if hidden, _ := filepath.Glob(filepath.Join(dir, ".*")); len(hidden) > 0 {
				t.Errorf("there is %q", hidden)
			}
		})
	}
}

// What each page shows as bad is fixed, or left with its reason. What is written is better
// than before in every rule, and fixing it once more changes nothing.
func TestFixesOfAllPages(t *testing.T) {
	pages, err := fs.Glob(lintpages.FS, "G*.md")
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)```yaml\n(.*?)```")
	for _, page := range pages {
		text, err := lintpages.FS.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		bad := block.FindSubmatch(text)
		if bad == nil || strings.Contains(string(bad[1]), "# file:") {
			continue
		}
		dir := folder(t, map[string]string{"gabion.yaml": string(bad[1])})
		before, patch, _ := ask(t, dir, "", "--diff --severity note gabion.yaml")
		if content(t, filepath.Join(dir, "gabion.yaml")) != string(bad[1]) {
			t.Errorf("%s: --diff writes", page)
		}
		after, _, told := ask(t, dir, "", "--fix --severity note gabion.yaml")
		if before > 1 || after > before || strings.HasPrefix(patch, "--- ") != strings.Contains(told, "written: ") {
			t.Errorf("%s: it ends with %d, then with %d: %s", page, before, after, told)
		}
		once := content(t, filepath.Join(dir, "gabion.yaml"))
		if ask(t, dir, "", "--fix --severity note gabion.yaml"); content(t, filepath.Join(dir, "gabion.yaml")) != once {
			t.Errorf("%s: fixing it again changes it again", page)
		}
	}
}
