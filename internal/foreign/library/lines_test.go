package library

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/gabion-go/gabion/internal/foreign"
	"github.com/gabion-go/gabion/internal/spelled"
	"github.com/gabion-go/gabion/internal/yamlstrict"
)

// imported reads a text as a format.
func imported(f foreign.Format, name string, text []byte) *foreign.Import {
	doc, trees, found := yamlstrict.Trees(name, text)
	if len(found) > 0 && !f.Plain {
		return &foreign.Import{Wrong: found}
	}
	if f.Plain {
		trees = nil
	}
	return f.Read(&foreign.File{Name: name, Text: text, Document: doc, Documents: trees})
}

// lines are the files with a case for each line of a table.
var lines = map[string]struct {
	path, mark string
	tables     []*foreign.Table
}{
	"resilience4j":      {"testdata/lines-resilience4j.yml", " # ", []*foreign.Table{springTable}},
	"spring-properties": {"testdata/lines-spring-properties.properties", " # ", nil}, // its table is resilience4j's
	"dotnet":            {"testdata/lines-dotnet.json", " // ", []*foreign.Table{netTable}},
	"dapr":              {"testdata/lines-dapr.yaml", " # ", []*foreign.Table{daprTable}},
	"aws":               {"testdata/lines-aws.ini", " # ", []*foreign.Table{awsTable}},
	"nginx":             {"testdata/lines-nginx.conf", " # ", []*foreign.Table{nginxTable, nginxServers}},
}

// TestEachLineOfATableHasACase reads files whose comments say what each key must become.
func TestEachLineOfATableHasACase(t *testing.T) {
	for _, f := range Formats() {
		of := lines[f.Name]
		text, err := os.ReadFile(of.path)
		if err != nil {
			t.Fatal(err)
		}
		got := imported(f, of.path, text)
		if got.Wrong != nil {
			t.Fatal(got.Wrong)
		}
		file := strings.Split(string(text), "\n")
		said := map[int]bool{}
		keys := map[string]bool{}
		for _, r := range got.Remarks {
			keys[strings.ToLower(r.Key)] = true
			if _, want, ok := strings.Cut(file[r.Line-1], of.mark); ok {
				if problem := judge(got, r, want); problem == "" {
					said[r.Line] = true
				} else if !said[r.Line] && !otherSays(got, r, want) {
					t.Errorf("%s:%d: %s: %s", of.path, r.Line, r.Key, problem)
				}
			}
		}
		for i, line := range file {
			if _, want, ok := strings.Cut(line, of.mark); ok && !strings.HasPrefix(line, "#") && !said[i+1] {
				t.Errorf("%s:%d: nothing was said that is %s", of.path, i+1, want)
			}
		}
		for _, table := range of.tables {
			for i := range table.Rules {
				checkRule(t, f.Name, &table.Rules[i], keys)
			}
		}
	}
}

// otherSays reports whether another remark on the same line says what is wanted.
func otherSays(got *foreign.Import, r foreign.Remark, want string) bool {
	for _, other := range got.Remarks {
		if other.Line == r.Line && other != r && judge(got, other, want) == "" {
			return true
		}
	}
	return false
}

var fates = map[string]foreign.Fate{"kept": foreign.Kept, "nearly": foreign.Nearly, "lost": foreign.Lost, "stays": foreign.Elsewhere, "unknown": foreign.Unknown}

// judge says what is not as a comment wants it.
func judge(got *foreign.Import, r foreign.Remark, want string) string {
	if fate, ok := fates[want]; ok {
		if r.Fate != fate || fate != foreign.Kept && r.Text == "" {
			return "became " + fateName(r.Fate) + ", " + r.Text + ", and not " + want
		}
		return ""
	}
	key, value, _ := strings.Cut(want, " ")
	is := "nothing"
	for i := range got.Routes {
		route := &got.Routes[i]
		if route.From[key] != r.Line && route.From[key[:strings.LastIndexByte(key, '.')]] != r.Line {
			continue
		}
		for _, s := range spelled.Written(route.Policy) {
			if s.Path == key {
				if is = s.Value; is == value || value == "" {
					return ""
				}
			}
		}
	}
	return key + " is " + is + ", and not " + value
}

func fateName(f foreign.Fate) string {
	for name, fate := range fates {
		if fate == f {
			return name
		}
	}
	return "?"
}

// checkRule looks at one line of a table.
func checkRule(t *testing.T, format string, r *foreign.Rule, keys map[string]bool) {
	t.Helper()
	key := strings.ReplaceAll(r.Key, ".configs.*", ".instances.*")
	form := strings.ReplaceAll(regexp.QuoteMeta(strings.ToLower(key)), `\*`, `[^.]+`)
	form = strings.ReplaceAll(form, "_", "[-_]?")
	at := regexp.MustCompile(`(^|[.])` + form + `($|[.])`)
	found := false
	for k := range keys {
		found = found || at.MatchString(k) || at.MatchString(strings.ReplaceAll(k, "-", "")) || at.MatchString(strings.ReplaceAll(k, "_", ""))
	}
	switch {
	case !found:
		t.Errorf("%s: %s has no case in %s", format, r.Key, lines[format].path)
	case r.Fate != foreign.Kept && r.Text == "":
		t.Errorf("%s: %s: no text says what happens", format, r.Key)
	case r.Fate <= foreign.Lost && !strings.HasPrefix(r.Source, "https://"):
		t.Errorf("%s: %s has no source", format, r.Key)
	}
}
