package formats

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/gabion-go/gabion/internal/foreign"
	"github.com/gabion-go/gabion/internal/spelled"
)

// cases are the files with a case for each line of a table, and what begins a comment in them.
var cases = map[string][2]string{
	"istio":             {"../mesh/testdata/lines-istio.yaml", " # "},
	"gateway-api":       {"../mesh/testdata/lines-gateway-api.yaml", " # "},
	"envoy":             {"../mesh/testdata/lines-envoy.yaml", " # "},
	"linkerd":           {"../mesh/testdata/lines-linkerd.yaml", " # "},
	"resilience4j":      {"../library/testdata/lines-resilience4j.yml", " # "},
	"spring-properties": {"../library/testdata/lines-spring-properties.properties", " # "},
	"dotnet":            {"../library/testdata/lines-dotnet.json", " // "},
	"dapr":              {"../library/testdata/lines-dapr.yaml", " # "},
	"aws":               {"../library/testdata/lines-aws.ini", " # "},
	"nginx":             {"../library/testdata/lines-nginx.conf", " # "},
}

// TestEachLineOfATableHasACase reads files whose comments say what each key must become.
func TestEachLineOfATableHasACase(t *testing.T) {
	for _, f := range All() {
		t.Run(f.Name, func(t *testing.T) {
			of, ok := cases[f.Name]
			if !ok && f.Tables == nil {
				return // gRPC's has no table
			}
			text, err := os.ReadFile(of[0])
			if err != nil {
				t.Fatal(err)
			}
			got := Read(f, Source{of[0], text})
			if got.Wrong != nil {
				t.Fatal(got.Wrong)
			}
			judgeLines(t, got, strings.Split(string(text), "\n"), of[1])
			keys := map[string]bool{}
			for _, r := range got.Remarks {
				keys[place.ReplaceAllString(strings.ToLower(r.Key), "")] = true
			}
			checkRules(t, f, keys)
		})
	}
}

// place is that of an item of a list.
var place = regexp.MustCompile(`\[\d*\]`)

// judgeLines compares what became of keys with the comments behind them.
func judgeLines(t *testing.T, got *Reading, file []string, mark string) {
	t.Helper()
	said, problems := map[int]bool{}, map[int]string{}
	for _, r := range got.Remarks {
		if _, want, ok := strings.Cut(file[r.Line-1], mark); ok {
			if problem := judged(got, r, want); problem == "" {
				said[r.Line] = true
			} else {
				problems[r.Line] = r.Key + ": " + problem
			}
		}
	}
	for i, line := range file {
		if _, want, ok := strings.Cut(line, mark); ok && !strings.HasPrefix(line, "#") && !said[i+1] {
			t.Errorf("line %d: nothing was said that is %s: %s", i+1, want, problems[i+1])
		}
	}
}

// judged says what is not as a comment wants it.
func judged(got *Reading, r foreign.Remark, want string) string {
	for fate, name := range fateNames {
		if name == want && (r.Fate != fate || fate != foreign.Kept && r.Text == "") {
			return "became " + fateNames[r.Fate] + ", " + r.Text
		} else if name == want {
			return ""
		}
	}
	key, value, _ := strings.Cut(want, " ")
	section, _, _ := strings.Cut(key, ".")
	if last := strings.LastIndexByte(key, '.'); last > 0 {
		section = key[:last]
	}
	is := "nothing"
	for i := range got.Routes {
		route := &got.Routes[i]
		if route.From[key] != r.Line && route.From[section] != r.Line {
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
	return key + " is " + is
}

// checkRules looks for a case of each line of a format's tables. Of lines that stand in several places one has it.
func checkRules(t *testing.T, f foreign.Format, keys map[string]bool) {
	t.Helper()
	has := map[string]bool{}
	of := func(r *foreign.Rule) string {
		return r.Key[strings.LastIndexByte(r.Key, '.')+1:] + " " + r.To + " " + r.Text
	}
	for _, table := range f.Tables {
		for i := range table.Rules {
			r := &table.Rules[i]
			form := place.ReplaceAllString(strings.ReplaceAll(strings.ToLower(r.Key), ".configs.*", ".instances.*"), "")
			form = strings.ReplaceAll(strings.ReplaceAll(regexp.QuoteMeta(form), `\*`, `[^.]+`), "_", "[-_]?")
			at := regexp.MustCompile(`(^|[.])` + form + `($|[.])`)
			for k := range keys {
				has[of(r)] = has[of(r)] || at.MatchString(k) || at.MatchString(strings.ReplaceAll(k, "-", "")) || at.MatchString(strings.ReplaceAll(k, "_", ""))
			}
		}
	}
	for _, table := range f.Tables {
		for i := range table.Rules {
			switch r := &table.Rules[i]; {
			case !has[of(r)]:
				t.Errorf("%s has no case in %s", r.Key, cases[f.Name][0])
			case r.Fate != foreign.Kept && r.Text == "" && !strings.HasSuffix(r.To, ".transient"): // of lists the reader says more
				t.Errorf("%s: no text says what happens", r.Key)
			case r.Fate <= foreign.Lost && !strings.HasPrefix(r.Source, "https://"):
				t.Errorf("%s has no source", r.Key)
			}
		}
	}
}
