package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Code moves, and so do tests: the page must follow.
func TestThePageListsCodeAndTestsThatAreThere(t *testing.T) {
	t.Chdir("../..")
	list, err := readList("docs/mutation.md")
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]string{}
	for _, l := range list {
		if tests[l.pkg] == "" {
			files, err := filepath.Glob(filepath.Join(l.pkg, "*_test.go"))
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range files {
				text, err := os.ReadFile(name)
				if err != nil {
					t.Fatal(err)
				}
				tests[l.pkg] += string(text)
			}
		}
		if !regexp.MustCompile(`(?m)^func (` + l.run + `)\(`).MatchString(tests[l.pkg]) {
			t.Errorf("there is no %s in %s: %s", l.run, l.pkg, l.line)
		}
	}
}

// A page's changes are tried with the tests that it names, and the page is wrong where they
// notice nothing.
func TestAListIsHeldToItsWord(t *testing.T) {
	if testing.Short() {
		t.Skip("long: the go command tests a changed package many times")
	}
	dir := t.TempDir()
	t.Chdir(dir)
	t.Setenv("GOWORK", "off")
	t.Setenv("GOFLAGS", "")
	for fact, c := range map[string]struct{ lines, want string }{
		"a test that notices":        {"p.go: s += n -> s -= n @ . Test", ""},
		"all tests of the package":   {"p.go: s += n -> s -= n @ .", ""},
		"a line that is left out":    {"p.go: s += n -> @ . Test", ""},
		"a change that makes none":   {"p.go: a > b -> a >= b @ . Test", "1 of 1 changes are noticed by no test"},
		"a change that is no Go":     {"p.go: s += n -> s += @ . Test", "it does not compile: p.go: s += n"},
		"code that is gone":          {"p.go: s += m -> s -= m @ . Test", `page.md:3: p.go has "s += m" 0 times`},
		"code that is there twice":   {"p.go: n -> m @ . Test", "write more or less of the line"},
		"code of one function":       {"p.go Sum: n-- -> n -= 1; s += 0*n; s++ @ . Test", ""},
		"a function that is gone":    {"p.go Product: s += n -> @ . Test", "p.go has no function Product"},
		"a test that is not there":   {"p.go: s += n -> s -= n @ . TestX", "no such test"},
		"a file that is not there":   {"q.go: s += n -> s -= n @ . Test", "q.go"},
		"a line without a test":      {"p.go: s += n -> s -= n", "want FILE: CODE -> CODE @ PACKAGE TEST"},
		"a page without any changes": {"", "lists no changes"},
	} {
		t.Run(fact, func(t *testing.T) {
			write(t, dir, map[string]string{
				"go.mod": "module p\n\ngo 1.26\n", "p.go": tested, "p_test.go": itsTest,
				"page.md": "words\n" + fence + "\n" + c.lines + "\n```\nother: words -> here @ .\n",
			})
			var out strings.Builder
			err := Main(t.Context(), []string{"-list", "page.md", "-limit", "3s"}, &out)
			if c.want == "" && err == nil && strings.Contains(out.String(), "1 changes, 0 survived") {
				return
			}
			if c.want == "" || err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q\n%s", err, c.want, out.String())
			}
		})
	}
}
