package config

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gabion-go/gabion/internal/testgolden"
	"github.com/gabion-go/gabion/policy"
)

// Each value that the zero policy resolves to says why, and no other does.
func TestEachDefaultSaysWhy(t *testing.T) {
	left := map[string]bool{}
	for path := range why {
		left[path] = true
	}
	leaves(reflect.ValueOf(policy.Policy{}.Resolved()), "", false, func(path string, _ reflect.Value) {
		if text := why[path]; len(text) < 20 || !strings.HasSuffix(text, ".") {
			t.Errorf("%s: %q", path, text)
		}
		delete(left, path)
	})
	learned := policy.Policy{Bulkhead: policy.Bulkhead{Limit: policy.Learned}}
	leaves(reflect.ValueOf(learned.Resolved()), "", false, func(path string, _ reflect.Value) { delete(left, path) })
	for path := range left {
		t.Errorf("%s is no setting of the zero policy", path)
	}
}

func TestWhatIsWrittenIsNotExplainedAsADefault(t *testing.T) {
	f, err := Parse("gabion.yaml", []byte("version: 1\ndependencies:\n  a: {preset: payment, retry: {attempts: 2}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range f.Explain("a") {
		if (s.Source == "default") != (s.Why != "") {
			t.Errorf("%s comes from %s: %q", s.Path, s.Source, s.Why)
		}
	}
}

// docs/defaults.md has the same sentences.
func TestTheDocumentSaysWhy(t *testing.T) {
	page, err := os.ReadFile("../docs/defaults.md")
	if err != nil {
		t.Fatal(err)
	}
	const mark = "<!-- why: written by go test ./config -update -->\n"
	before, _, found := strings.Cut(string(page), mark)
	if !found {
		t.Fatal("docs/defaults.md has no place for the list")
	}
	var want strings.Builder
	f, err := Parse("", []byte("version: 1\ndependencies:\n  a: {}\n"))
	if err != nil {
		t.Fatal(err)
	}
	want.WriteString("| setting | default | why |\n|---|---|---|\n")
	for _, s := range f.Explain("a") {
		want.WriteString("| `" + s.Path + "` | " + s.Value + " | " + s.Why + " |\n")
	}
	testgolden.File(t, "../docs/defaults.md", before+mark+want.String())
}

// tables are those of settings on the pages about patterns: each names the settings, or
// the sections, that it has.
var tables = regexp.MustCompile("(?s)<!-- defaults: ([a-z_. ]+); written by go test ./config -update -->\n(.*?)<!-- end -->")

// docs/patterns has the same sentences, each where it belongs.
func TestThePatternsSayWhy(t *testing.T) {
	pages, err := filepath.Glob("../docs/patterns/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	f, err := Parse("", []byte("version: 1\ndependencies:\n  a: {}\n"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range pages {
		page, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		text := tables.ReplaceAllStringFunc(string(page), func(old string) string {
			parts := tables.FindStringSubmatch(old)
			head, _, _ := strings.Cut(old, "\n")
			return head + "\n" + tableOf(t, name, f.Explain("a"), strings.Fields(parts[1])) + "<!-- end -->"
		})
		testgolden.File(t, name, text)
	}
}

// tableOf writes the settings that are named, or that are in a section that is.
func tableOf(t *testing.T, page string, all []policy.Setting, names []string) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("| setting | default | why |\n|---|---|---|\n")
	found := map[string]bool{}
	for _, s := range all {
		for _, name := range names {
			if s.Path == name || strings.HasPrefix(s.Path, name+".") {
				b.WriteString("| `" + s.Path + "` | " + s.Value + " | " + s.Why + " |\n")
				found[name] = true
				break
			}
		}
	}
	if missing := slices.DeleteFunc(slices.Clone(names), func(n string) bool { return found[n] }); len(missing) > 0 {
		t.Errorf("%s: no setting is called %v", page, missing)
	}
	return b.String()
}
