package config

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/facts"
	"github.com/gabion-go/gabion/internal/policyfile"
	"github.com/gabion-go/gabion/policy"
)

const shop = `version: 1 # the shop
facts: {service: shop, processes: 40}
defaults:
  timeout: {call: 10s}
dependencies:
  payments: # money
    preset: payment
    facts:
      rate: 50/s
      p99: 800ms # measured
    retry: {attempts: 3}
  stock:
    breaker: off
    retry:
      attempts: "${TRIES:-4}" # few
      backoff: {base: 50ms}
    http: {transient: [425]}
`

func TestFactsAreRead(t *testing.T) {
	f, err := Parse("gabion.yaml", []byte(shop))
	if err != nil {
		t.Fatal(err)
	}
	if want := (facts.Program{Service: "shop", Processes: 40}); !reflect.DeepEqual(facts.Of(f).Program, want) {
		t.Errorf("program: %+v", facts.Of(f).Program)
	}
	if want := (facts.Facts{Rate: 50, P99: 800 * time.Millisecond}); facts.Of(f).Facts["payments"] != want || len(facts.Of(f).Facts) != 1 {
		t.Errorf("facts: %+v", facts.Of(f).Facts)
	}
	for text, want := range map[string]string{
		"facts: {processes: -3}":                           "processes",
		"facts: {proceses: 3}":                             "did you mean processes?",
		"dependencies: {a: {facts: {rate: off}}}":          "leave the key out when nothing is known",
		"dependencies: {a: {facts: {p99: 3}}}":             "has no unit",
		"dependencies: {a: {facts: {mesh: {attempt: 2}}}}": "did you mean attempts?",
	} {
		_, err := Parse("gabion.yaml", []byte("version: 1\n"+text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// A tool that says what a policy will do says of a broken file all that it can.
func TestABrokenFileIsReadAsFarAsItGoes(t *testing.T) {
	for fact, c := range map[string]struct {
		text, names, unread string
		found               int
	}{
		"whole":                   {shop, "payments stock", "", 0},
		"an unknown key":          {strings.Replace(shop, "retry: {attempts: 3}", "retry: {atempts: 3}", 1), "payments stock", "payments retry.attempts", 1},
		"cut in a flow mapping":   {shop[:strings.Index(shop, "3}\n")], "payments", "", 1},
		"cut within a key":        {shop[:strings.Index(shop, "reaker: off")], "payments stock", "", 1},
		"no YAML at the end":      {shop + "  x: {\n", "payments stock", "", 1},
		"no YAML at all":          {"{", "", "", 1},
		"empty":                   {"", "", "", 1},
		"a value that can't be":   {strings.Replace(shop, "call: 10s", "call: 10", 1), "payments stock", "stock timeout.call", 1},
		"a mistake in a variable": {strings.Replace(shop, ":-4}", ":-four}", 1), "payments stock", "stock retry.attempts", 1},
	} {
		t.Run(fact, func(t *testing.T) {
			f, found := Read("gabion.yaml", []byte(c.text), Lookup(func(string) (string, bool) { return "", false }))
			if got := strings.Join(f.Names(), " "); got != c.names {
				t.Errorf("dependencies %q, want %q", got, c.names)
			}
			if (len(found) > 0) != (c.found > 0) {
				t.Errorf("findings: %v", found)
			}
			if name, path, ok := strings.Cut(c.unread, " "); ok && !(view{f}).Unread(name, path) {
				t.Errorf("%s of %s counts as read", path, name)
			}
			if (view{f}).Unread("payments", "bulkhead.limit") {
				t.Error("what is right counts as unread")
			}
		})
	}
}

func TestAFindingHasItsPlace(t *testing.T) {
	f, _ := Read("gabion.yaml", []byte(shop))
	for _, c := range []struct {
		name, path string
		line       int
		written    bool
	}{
		{"payments", "retry.attempts", 11, true},
		{"payments", "timeout.call", 4, true},        // of the defaults
		{"payments", "retry.backoff.base", 11, true}, // of the preset: the nearest section
		{"payments", "hedge.max", 6, false},
		{"payments", "facts.p99", 10, true},
		{"payments", "facts.pool", 8, false},
		{"stock", "breaker.open", 13, false},
		{"stock", "retry.attempts", 15, true},
		{"stock", "", 12, false},
		{"", "facts.processes", 2, true},
		{"absent", "retry.attempts", 1, false},
	} {
		got := (view{f}).Finding(c.name, c.path, "", "")
		if got.Line != c.line || (view{f}).Written(c.name, c.path) != c.written {
			t.Errorf("%s %s: line %d, written %v", c.name, c.path, got.Line, (view{f}).Written(c.name, c.path))
		}
	}
}

func TestAnEditChangesNothingElse(t *testing.T) {
	for fact, c := range map[string]struct {
		change   policyfile.Change
		old, new string
	}{
		"a value":                      {change("payments", "retry.attempts", "2"), "attempts: 3}", "attempts: 2}"},
		"a key in braces":              {change("payments", "retry.hold", "off"), "{attempts: 3}", "{hold: off, attempts: 3}"},
		"a section in braces":          {change("payments", "retry.backoff.cap", "2s"), "{attempts: 3}", "{backoff: {cap: 2s}, attempts: 3}"},
		"a key of a block":             {change("stock", "retry.hold", "off"), "{base: 50ms}\n", "{base: 50ms}\n      hold: off\n"},
		"a section":                    {change("stock", "hedge.max", "1"), "[425]}\n", "[425]}\n    hedge: {max: 1}\n"},
		"a section that is off":        {change("stock", "breaker.open", "3s"), "breaker: off", "breaker: {open: 3s}"},
		"a section is switched off":    {change("payments", "hedge", "off"), "{attempts: 3}\n", "{attempts: 3}\n    hedge: off\n"},
		"a list":                       {change("stock", "http.transient", "[423, 425]"), "[425]", "[423, 425]"},
		"a fact":                       {change("payments", "facts.pool", "10"), "# measured\n", "# measured\n      pool: 10\n"},
		"of the defaults":              {change(policyfile.Defaults, "timeout.call", "12s"), "call: 10s", "call: 12s"},
		"of one that the defaults say": {change("stock", "timeout.call", "12s"), "[425]}\n", "[425]}\n    timeout: {call: 12s}\n"},
	} {
		t.Run(fact, func(t *testing.T) {
			got, err := edit("gabion.yaml", []byte(shop), []policyfile.Change{c.change})
			if err != nil {
				t.Fatal(err)
			}
			if want := strings.Replace(shop, c.old, c.new, 1); string(got) != want {
				t.Errorf("got\n%s", got)
			}
		})
	}
}

func TestANewLineEndsAsTheOthers(t *testing.T) {
	const text = "version: 1\r\ndependencies:\r\n  a:\r\n    safe: true"
	got, err := edit("gabion.yaml", []byte(text), []policyfile.Change{change("a", "retry.attempts", "2")})
	if want := text + "\r\n    retry: {attempts: 2}\r\n"; err != nil || string(got) != want {
		t.Errorf("%v: got %q", err, got)
	}
}

func TestAnEditThatCanNotBeIsRefused(t *testing.T) {
	const shared = "version: 1\nfacts: {processes: \"${N:-3}\"}\ndefaults: {retry: {attempts: \"${TRIES:-4}\"}}\ndependencies:\n  a: {}\n"
	const anchors = "version: 1\ndependencies:\n  a: &x {retry: {attempts: 3}}\n  b: *x\n"
	for fact, c := range map[string]struct {
		text   string
		change policyfile.Change
	}{
		"no such dependency":    {shop, change("absent", "retry.attempts", "2")},
		"no such key":           {shop, change("payments", "retry.atempts", "2")},
		"a value that can't be": {shop, change("payments", "retry.attempts", "two")},
		"a contradiction":       {shop, change("stock", "timeout.attempt", "20s")},
		"a variable":            {shop, change("stock", "retry.attempts", "2")},
		"behind an alias":       {anchors, change("b", "retry.attempts", "2")},
		"what others share":     {anchors, change("a", "retry.attempts", "2")},
		"no YAML":               {"{", change("a", "retry.attempts", "2")},
	} {
		if got, err := edit("gabion.yaml", []byte(c.text), []policyfile.Change{c.change}); err == nil {
			t.Errorf("%s: got\n%s", fact, got)
		}
	}
	for _, change := range []policyfile.Change{change("a", "retry.attempts", "2"), change(policyfile.Defaults, "retry.attempts", "2"), change("", "facts.processes", "2")} {
		if _, err := edit("gabion.yaml", []byte(shared), []policyfile.Change{change}); !errors.Is(err, policyfile.ErrVariable) {
			t.Errorf("%v: %v", change, err)
		}
	}
	_, err := edit("gabion.yaml", []byte(anchors), []policyfile.Change{change("b", "retry.attempts", "2")})
	if err == nil || !strings.Contains(err.Error(), "gabion.yaml: b: retry.attempts") {
		t.Error(err)
	}
	var f Finding
	if _, err := edit("gabion.yaml", []byte(shop), []policyfile.Change{change("payments", "retry.attempts", "two")}); !errors.As(err, &f) {
		t.Errorf("%T", err)
	}
}

// Whatever a file holds, an edit does what it says or is refused.
func FuzzEdit(f *testing.F) {
	f.Add(shop, "stock", "3")
	f.Add("version: 1\ndependencies:\n  a:\n    retry:\n      - x\n", "a", "2")
	f.Add("version: 1\ndependencies: {a: {retry: {attempts: 'x\n y'}}}", "a", "2")
	f.Fuzz(func(t *testing.T, text, name, value string) {
		got, err := edit("f", []byte(text), []policyfile.Change{change(name, "retry.attempts", value)})
		if err != nil {
			return
		}
		file, _ := Read("f", got)
		want, err := setKey(policy.Policy{}, "retry.attempts", value)
		if err != nil || file.Policies[name].Retry.Attempts != want.Retry.Attempts && !strings.HasPrefix(value, "[") {
			t.Errorf("%d attempts of %q, %v\n%s", file.Policies[name].Retry.Attempts, value, err, got)
		}
	})
}

// Written is asked very often, and so does not look at what Explain looks at. Both say the
// same.
func TestWrittenSaysWhatExplainSays(t *testing.T) {
	text := `
version: 1
defaults: {hedge: {delay: 10ms}, retry: {contention: off}, timeout: {call: 9s}}
dependencies:
  a: {}
  b: {preset: payment, retry: off, breaker: {open: 3s}}
  c: {preset: best-effort, bulkhead: {queue: 4}, http: {transient: [425]}}
  d: {preset: absent, partitions: off, retry: {backoff: off}}
`
	f, _ := Read("gabion.yaml", []byte(text))
	for _, name := range f.Names() {
		said := map[string]bool{}
		for at, s := range f.origins[name].sources() {
			said[at] = !s.builtin()
		}
		for _, path := range allKeys() {
			want := said[path]
			for at, is := range said {
				want = want || is && strings.HasPrefix(at, path+".")
			}
			if got := (view{f}).Written(name, path); got != want && !slices.ContainsFunc(f.origins[name].moot, func(at string) bool { return at == path || strings.HasPrefix(at, path+".") }) {
				t.Errorf("%s: %s: %v, want %v", name, path, got, want)
			}
		}
	}
}

func change(dependency, path, value string) policyfile.Change {
	return policyfile.Change{Dependency: dependency, Path: path, Value: value}
}
