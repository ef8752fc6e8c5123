package mesh

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/gabion-go/gabion/internal/foreign"
	"github.com/gabion-go/gabion/internal/yamlstrict"
	"github.com/gabion-go/gabion/policy"
)

// valueAt returns the field of a policy by its path in a file.
func valueAt(t testing.TB, p policy.Policy, path string) string {
	t.Helper()
	v := reflect.ValueOf(p)
	for part := range strings.SplitSeq(path, ".") {
		name := ""
		for word := range strings.SplitSeq(part, "_") {
			name += string(unicode.ToUpper(rune(word[0]))) + word[1:]
		}
		if name = strings.NewReplacer("Http", "HTTP", "Grpc", "GRPC").Replace(name); !v.FieldByName(name).IsValid() {
			t.Fatalf("a policy has no %s", path)
		}
		v = v.FieldByName(name)
	}
	if d, ok := v.Interface().(time.Duration); ok {
		return policy.FormatDuration(d)
	}
	return fmt.Sprint(v.Interface())
}

// imported reads a file by a format.
func imported(t testing.TB, f foreign.Format, name string, text []byte) *foreign.Import {
	t.Helper()
	doc, trees, found := yamlstrict.Trees(name, text)
	if found != nil {
		t.Fatal(found)
	}
	got := f.Read(&foreign.File{Name: name, Text: text, Document: doc, Documents: trees})
	sound(t, f, got)
	return got
}

// sound checks what must hold of all that is read.
func sound(t testing.TB, f foreign.Format, got *foreign.Import) {
	t.Helper()
	if got.Format != f.Name {
		t.Errorf("format %q, want %q", got.Format, f.Name)
	}
	names := map[string]bool{}
	for _, r := range got.Routes {
		if names[r.Dependency] || r.Dependency == "" {
			t.Errorf("%s: the name %q is there twice", r.Title, r.Dependency)
		}
		names[r.Dependency] = true
		if err := r.Plays.Validate(); err != nil {
			t.Errorf("%s: what it plays is no policy: %v", r.Title, err)
		}
		if err := r.Policy.Validate(); err != nil {
			t.Errorf("%s: what it becomes is no policy: %v", r.Title, err)
		}
		if r.Line < 1 {
			t.Errorf("%s: line %d", r.Title, r.Line)
		}
		for key, line := range r.From {
			if line < 1 || valueAtZero(t, r.Policy, key) {
				t.Errorf("%s: %s is said to be from line %d, and is not written", r.Title, key, line)
			}
		}
	}
}

func valueAtZero(t testing.TB, p policy.Policy, key string) bool {
	v := valueAt(t, p, key)
	return key != "retry.budget.shape" && (v == "0" || v == "0s" || v == "0%" || v == "[]")
}
