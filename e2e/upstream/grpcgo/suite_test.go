package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// theirs is a suite of three tests, of which Put makes some fail.
func theirs(t *testing.T, fails []string, listed, hangs map[string]string) Suite {
	put, tries := false, map[string]int{}
	return Suite{
		Name: "theirs", Module: "google.golang.org/grpc", From: "contrib/gabiongrpc", Differences: listed, Hangs: hangs,
		Put: func(string, string) error { put = true; return nil },
		Run: func(dir string, only, skip []string) (map[string]bool, error) {
			if _, err := os.Stat(filepath.Join(dir, "go.mod")); err != nil {
				t.Error(err)
			}
			ran := map[string]bool{}
			for _, name := range []string{"a:One", "a:Busy", "b:Two"} {
				if (only == nil || slices.Contains(only, name)) && !slices.Contains(skip, name) {
					tries[name]++
					ran[name] = !put || !slices.Contains(fails, name) && (name != "a:Busy" || tries[name] > 2)
				}
			}
			return ran, nil
		},
	}
}

func TestWhatIsADifference(t *testing.T) {
	if testing.Short() {
		t.Skip("long: it copies a module")
	}
	for _, c := range []struct {
		fact   string
		fails  []string
		listed map[string]string
		hangs  map[string]string
		with   int
		says   string
	}{
		{"none, and one that passes alone is none", nil, nil, nil, 3, ""},
		{"one that is not listed", []string{"b:Two"}, nil, nil, 2, "b:Two passes without gabion, and fails with it"},
		{"one that is", []string{"b:Two"}, map[string]string{"b:Two": "because"}, nil, 2, ""},
		{"one that would hang is not run", nil, nil, map[string]string{"b:Two": "because"}, 2, ""},
		{"one that is listed and is none any more", nil, map[string]string{"b:Two": "because"}, nil, 3, "b:Two is listed as a difference, and is none any more"},
	} {
		t.Run(c.fact, func(t *testing.T) {
			r, err := theirs(t, c.fails, c.listed, c.hangs).Compare("../../..")
			if err != nil {
				t.Fatal(err)
			}
			if r.Without != 3 || r.With != c.with || !strings.HasPrefix(r.Version, "v1.") {
				t.Errorf("%d passed without, %d with, version %s", r.Without, r.With, r.Version)
			}
			if says := strings.Join(r.Problems(), "\n"); !strings.HasSuffix(says, c.says) || (says == "") != (c.says == "") {
				t.Errorf("it says %q", says)
			}
			if table := Table([]Result{r}); len(c.fails) > 0 && !strings.Contains(table, "* `b:Two`: ") {
				t.Error(table)
			}
		})
	}
}

// A suite that has changed, so that nothing would be put in, fails.
func TestALineThatIsNotThereIsAnError(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.go")
	if err := os.WriteFile(file, []byte("one\ntwo\ntwo\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for line, fine := range map[string]bool{"one\n": true, "two\n": false, "three\n": false} {
		if err := insert(file, line, "new\n"); (err == nil) != fine {
			t.Errorf("%q: %v", line, err)
		}
	}
	if got, _ := os.ReadFile(file); string(got) != "new\none\ntwo\ntwo\n" {
		t.Errorf("%q", got)
	}
}

func TestTheNamesOfTestsAreAPattern(t *testing.T) {
	if got := pattern([]string{"a:Test/B/c", "a:Test/B", "b:TestX"}); got != "^Test$/^B$|^TestX$" {
		t.Error(got)
	}
}

func TestATestFailsByItself(t *testing.T) {
	without := map[string]bool{"a:T": true, "a:T/b": true, "a:T/c": true, "a:U": true, "a:V": false}
	with := map[string]bool{"a:T/c": true, "a:U": false}
	if got := missing(without, with); !slices.Equal(got, []string{"a:T/b", "a:U"}) {
		t.Error(got)
	}
}
