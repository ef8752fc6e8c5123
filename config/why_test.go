package config

import (
	"os"
	"reflect"
	"strings"
	"testing"

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
	before, list, found := strings.Cut(string(page), "<!-- why: written by go test ./config -update -->\n")
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
	if *update {
		if err := os.WriteFile("../docs/defaults.md", []byte(before+"<!-- why: written by go test ./config -update -->\n"+want.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if list != want.String() {
		t.Error("docs/defaults.md does not say what the code does: go test ./config -update")
	}
}
