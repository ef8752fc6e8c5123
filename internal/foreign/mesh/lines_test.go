package mesh

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/gabion-go/gabion/internal/foreign"
	"github.com/gabion-go/gabion/internal/yamlstrict"
	"github.com/gabion-go/gabion/policy"
)

// tables are the mappings of each format.
var tables = map[string][]foreign.Rule{
	"istio":       slices.Concat(istioVirtualService.Rules, istioDestinationRule.Rules[:len(object)+4], traffic),
	"gateway-api": slices.Concat(httpRoute.Rules, grpcRoute.Rules, backendTraffic.Rules),
	"envoy":       slices.Concat(routeRules, clusterRules, listenerRules, bootstrapRules),
	"linkerd":     slices.Concat(annotationRules[:len(annotationRules)-1], linkerdService.Rules, linkerdProfileRules),
}

// TestEachLineOfATableHasACase reads files whose comments say what each key must become.
func TestEachLineOfATableHasACase(t *testing.T) {
	for _, f := range Formats() {
		t.Run(f.Name, func(t *testing.T) {
			path := filepath.Join("testdata", "lines-"+f.Name+".yaml")
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			got := imported(t, f, path, text)
			if got.Wrong != nil {
				t.Fatal(got.Wrong)
			}
			lines := strings.Split(string(text), "\n")
			judged := map[string]bool{}
			for _, r := range got.Remarks {
				ruled := slices.ContainsFunc(tables[f.Name], func(rule foreign.Rule) bool { return matches(shared(rule.Key), plainKey(r.Key)) })
				if _, want, ok := strings.Cut(lines[r.Line-1], " # "); ok && (ruled || r.Fate == foreign.Unknown) {
					judge(t, got, r, want)
					becomes(t, tables[f.Name], r, want)
					judged[plainKey(r.Key)] = true
				}
			}
			if tables[f.Name] == nil {
				t.Fatal("its tables are not named above")
			}
			for i := range tables[f.Name] {
				checkRule(t, f, &tables[f.Name][i], judged)
			}
		})
	}
}

// checkRule looks at one line of a table.
func checkRule(t *testing.T, f foreign.Format, r *foreign.Rule, judged map[string]bool) {
	t.Helper()
	found := false
	for key := range judged {
		found = found || matches(shared(r.Key), key)
	}
	if !found {
		t.Errorf("%s: %s has no case in testdata/lines-%s.yaml", f.Name, r.Key, f.Name)
	}
	switch {
	case r.Fate != foreign.Kept && r.Text == "" && !dynamic[r.Key]:
		t.Errorf("%s: %s: no text says what happens", f.Name, r.Key)
	case r.Fate <= foreign.Lost && !strings.HasPrefix(r.Source, "https://"):
		t.Errorf("%s: %s has no source", f.Name, r.Key)
	}
}

// dynamic are keys of which the reader always says more than a table can.
var dynamic = map[string]bool{
	"retry.linkerd.io/http": true, "retry.linkerd.io/grpc": true,
	"spec.http[].retries.retryOn": true, "virtual_hosts[].retry_policy.retry_on": true, "virtual_hosts[].routes[].route.retry_policy.retry_on": true,
}

// shared is a key without the place of what may stand in two places.
func shared(key string) string {
	for _, part := range []string{"retry_policy", "hedge_policy"} {
		if i := strings.Index(key, part); i > 0 {
			return key[i:]
		}
	}
	return key
}

// judge compares what became of a key with the comment behind it.
func judge(t *testing.T, got *foreign.Import, r foreign.Remark, want string) {
	t.Helper()
	fates := map[string]foreign.Fate{"kept": foreign.Kept, "nearly": foreign.Nearly, "lost": foreign.Lost, "stays": foreign.Elsewhere, "unknown": foreign.Unknown}
	if fate, ok := fates[want]; ok {
		if r.Fate != fate || fate != foreign.Kept && r.Text == "" {
			t.Errorf("line %d: %s: fate %d, %q, want %s", r.Line, r.Key, r.Fate, r.Text, want)
		}
		return
	}
	key, value, _ := strings.Cut(want, " ")
	if r.Fate > foreign.Nearly {
		t.Errorf("line %d: %s: fate %d, %q, want %s", r.Line, r.Key, r.Fate, r.Text, want)
	}
	var others []string
	for i := range got.Routes {
		route := &got.Routes[i]
		if route.From[key] != r.Line {
			continue
		}
		is := valueAt(t, route.Policy, key)
		if is == value {
			return
		}
		others = append(others, is)
	}
	t.Errorf("line %d: %s: no route has %s, but %q", r.Line, r.Key, want, others)
}

// becomes checks that the table names the key of gabion's file that the comment does.
func becomes(t *testing.T, rules []foreign.Rule, r foreign.Remark, want string) {
	t.Helper()
	key, _, named := strings.Cut(want, " ")
	i := slices.IndexFunc(rules, func(rule foreign.Rule) bool { return matches(shared(rule.Key), plainKey(r.Key)) })
	for ; named && i >= 0 && i < len(rules); i++ {
		if matches(shared(rules[i].Key), plainKey(r.Key)) && rules[i].To == key {
			return
		}
	}
	if named && r.Key[len(r.Key)-1] != 's' { // lists, whose items the table has
		t.Errorf("line %d: the table does not say that %s becomes %s", r.Line, r.Key, key)
	}
}

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

// plainKey is a path without the numbers of lists.
func plainKey(key string) string {
	parts := strings.Split(key, "[")
	for i := 1; i < len(parts); i++ {
		if _, rest, ok := strings.Cut(parts[i], "]"); ok {
			parts[i] = "]" + rest
		}
	}
	return strings.Join(parts, "[")
}

// matches reports whether a key is one that a rule names, in one of the places where the rule stands.
func matches(rule, key string) bool {
	if strings.Contains(rule, "/") {
		return strings.HasSuffix(key, rule)
	}
	rules, keys := strings.Split(rule, "."), strings.Split(key, ".")
	if len(rules) > len(keys) {
		return false
	}
	keys = keys[len(keys)-len(rules):]
	for i := range rules {
		if rules[i] != keys[i] && strings.TrimSuffix(rules[i], "[]") != "*" {
			return false
		}
	}
	return true
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
