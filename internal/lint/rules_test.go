package lint

import (
	"cmp"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gabion-go/gabion/config"
	"github.com/gabion-go/gabion/internal/policyfile"
	"github.com/gabion-go/gabion/policy"
)

// specimen is a dependency of a file, and what a rule makes of it: silent, the severity of
// its findings, or unknown and what is missing.
type specimen struct {
	fact string
	dep  string // its keys, in braces
	want string
	says string // part of the message, if it matters
}

// lintOne reads a dependency called a, and runs one rule or all.
func lintOne(t testing.TB, dep string, rules ...string) Report {
	t.Helper()
	f, broken := config.Read("gabion.yaml", []byte("version: 1\ndependencies:\n  a: "+dep+"\n"))
	for _, b := range broken {
		t.Errorf("%s: %v", dep, b)
	}
	return Run([]*config.File{f}, Options{Rules: rules})
}

// tried collects what the tables have shown of each rule.
var tried = map[string]map[string]bool{}

func tryRule(t *testing.T, id string, specimens []specimen) {
	t.Helper()
	tried[id] = map[string]bool{}
	for _, c := range specimens {
		t.Run(id+" "+c.fact, func(t *testing.T) {
			r := lintOne(t, c.dep, id)
			var got, said []string
			for _, f := range r.Findings {
				got, said = append(got, f.Severity.String()), append(said, f.Reason)
				if f.Dependency != "a" && f.Rule.across == nil || f.Path == "" || f.Proposal == "" || f.Line == 0 {
					t.Errorf("incomplete: %+v", f)
				}
			}
			for _, u := range r.Unknown {
				got = append(got, "unknown "+u.Missing)
			}
			is := cmp.Or(strings.Join(got, ", "), "silent")
			tried[id][strings.Fields(is)[0]] = true
			if is != c.want || c.says != "" && !strings.Contains(strings.Join(said, "\n"), c.says) {
				t.Errorf("%s\n got %s: %q\nwant %s: %q", c.dep, is, said, c.want, c.says)
			}
		})
	}
}

// TestZ after the tables: each rule has been seen to find something and to be silent, and
// to be unknown where it needs a fact.
func TestZEachRuleIsTried(t *testing.T) {
	for _, r := range Rules() {
		if r.check == nil {
			continue
		}
		seen := tried[r.ID]
		if !seen["silent"] || !seen["note"] && !seen["warning"] && !seen["warning,"] && !seen["error"] && !seen["note,"] {
			t.Errorf("%s was seen %v", r.ID, seen)
		}
		if len(r.Needs) > 0 && !seen["unknown"] {
			t.Errorf("%s was never seen unknown", r.ID)
		}
	}
}

// clean reports what is worse than a note.
func clean(t *testing.T, name, text string) {
	t.Helper()
	f, broken := config.Read(name, []byte(text))
	notes := 0
	for _, g := range Run([]*config.File{f}, Options{Broken: []config.Findings{broken}}).Findings {
		if g.Severity > Note {
			t.Errorf("%v", g)
		}
		if notes++; testing.Verbose() {
			t.Logf("%v", g)
		}
	}
	if most := 1 + 2*len(f.Policies); notes > most {
		t.Errorf("%s: %d notes on %d policies", name, notes, len(f.Policies))
	}
}

// What is shipped is clean: presets, examples, scenarios.
func TestWhatIsShippedHasNoWarning(t *testing.T) {
	clean(t, "zero", "version: 1\ndependencies: {a: {}}\n")
	for _, name := range policy.PresetNames() {
		clean(t, name, "version: 1\ndependencies: {a: {preset: "+name+"}}\n")
	}
	for _, path := range []string{"../../config/gabion.example.yaml", "../../examples/first/gabion.yaml"} {
		clean(t, path, read(t, path))
	}
	pages, _ := filepath.Glob("../../docs/*.md")
	patterns, _ := filepath.Glob("../../docs/patterns/*.md")
	for _, path := range append(slices.Concat(pages, patterns), "../../README.md") {
		for _, found := range block.FindAllStringSubmatch(read(t, path), -1) {
			if strings.HasPrefix(found[1], "version: 1\n") && strings.Contains(found[1], "\ndependencies:") {
				clean(t, path, found[1])
			}
		}
	}
	scenarios, _ := filepath.Glob("../../lab/internal/scenario/library/*.yaml")
	if len(scenarios) < 16 {
		t.Errorf("%d scenarios", len(scenarios))
	}
	for _, path := range scenarios {
		policies := regexp.MustCompile(`(?m)^policies:\n((?:  .*\n)+)`).FindStringSubmatch(read(t, path))
		if policies == nil {
			t.Errorf("%s has no policies", path)
			continue
		}
		clean(t, path, "version: 1\ndependencies:\n"+policies[1])
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// badFiles are the bad examples of all pages.
func badFiles(t testing.TB) map[string]string {
	bad := map[string]string{}
	for _, rule := range Rules() {
		page, err := os.ReadFile(filepath.Join("..", "..", "docs", "lint", rule.ID+".md"))
		if err != nil {
			t.Fatal(err)
		}
		bad[rule.ID] = block.FindStringSubmatch(string(page))[1]
	}
	return bad
}

// A fix takes its finding away, and brings none that is worse than a note.
func TestFixesMendAndBreakNothing(t *testing.T) {
	n := 0
	try := func(text string) {
		f, broken := config.Read("gabion.yaml", []byte(text))
		if len(broken) > 0 {
			return
		}
		before := Run([]*config.File{f}, Options{})
		for _, g := range before.Findings {
			if len(g.Fix) == 0 {
				continue
			}
			n++
			fixed, err := policyfile.Edit("gabion.yaml", []byte(text), g.Fix)
			if err != nil {
				t.Errorf("%v\n%v", g, err)
				continue
			}
			f, _ := config.Read("gabion.yaml", fixed)
			for _, h := range Run([]*config.File{f}, Options{}).Findings {
				same := func(x Finding) bool {
					return x.Rule.ID == h.Rule.ID && x.Path == h.Path && x.Dependency == h.Dependency
				}
				if same(g) && h.Severity >= g.Severity || h.Severity > Note && !slices.ContainsFunc(before.Findings, same) {
					t.Errorf("%s\nafter the fix %v of %s: %v", fixed, g.Fix, g.Rule.ID, h)
				}
			}
		}
	}
	for _, text := range badFiles(t) {
		try(text)
	}
	for _, dep := range fixable {
		try("version: 1\ndependencies:\n  a: " + dep + "\n")
	}
	if n < 10 {
		t.Errorf("%d fixes", n)
	}
}

// fixable are more ways of writing what has a fix.
var fixable = []string{
	"{breaker: off}", "{breaker: off, retry: off}", "{retry: {budget: off}}", "{retry: {backoff: off}}", "{retry: {backoff: {kind: constant, base: off}}}",
	"{retry: {backoff: {kind: linear, base: 2s, cap: 4s}, attempts: 4}}", "{retry: {attempts: 20, budget: off}}", "{retry: {attempts: 12, backoff: {base: 2s}}}",
	"{pace: off}", "{timeout: {idle: off}}", "{http: {transient: [404]}}", "{safe: true, facts: {writes: true}}",
	"{preset: payment, facts: {pool: 5}}", "{bulkhead: off, facts: {pool: 5}}", "{bulkhead: {limit: learned}, facts: {pool: 50}}",
	"{hedge: {max: 1, percentile: 50%}, safe: true}", "{hedge: {max: 2, delay: 10ms}, safe: true, facts: {writes: true}}", "{hedge: {max: 1}, safe: true, retry: {budget: off}}",
	"{retry: {contention: {backoff: {kind: exponential}}}}", "{breaker: {open: 5ms}}", "{bulkhead: {queue_timeout: 20s}}", "{bulkhead: {limit: 2, queue: 900}, facts: {p50: 1s}}",
	"{rate_limit: {rate: 100/s}, facts: {capacity: 300/s, processes: 7}}", "{timeout: {call: 1s}, retry: {attempts: 5, backoff: {base: 800ms, cap: 900ms}}}",
}
