package config

import (
	_ "embed"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/internal/testgolden"
	"github.com/gabion-go/gabion/policy"
)

func env(pairs ...string) Option {
	return Lookup(func(name string) (string, bool) {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1], true
			}
		}
		return "", false
	})
}

func parse(t *testing.T, text string, opts ...Option) *File {
	t.Helper()
	f, err := Parse("gabion.yaml", []byte(text), append([]Option{env()}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

//go:embed gabion.example.yaml
var example string

// The example says which values are defaults; it must not lie.
func TestExampleIsTheDefaults(t *testing.T) {
	f := parse(t, example)
	want := policy.Policy{}.Resolved()
	got := f.Policies["catalogue"].Resolved()
	got.HTTP.Transient, got.HTTP.Permanent = nil, nil // written as []
	got.GRPC.Transient, got.GRPC.Permanent, got.Endpoints.List, got.RateLimit.Quotas = nil, nil, nil, nil
	got.Prices = nil
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	for _, s := range f.Explain("catalogue") {
		if s.Source == "default" && unwritten[s.Path] == "" {
			t.Errorf("the example does not show %s", s.Path)
		}
		key := s.Path[strings.LastIndexByte(s.Path, '.')+1:]
		if !strings.Contains(example, key+":") {
			t.Errorf("the example does not name %s", s.Path)
		}
	}
	if !strings.HasPrefix(example, "# yaml-language-server: $schema=./gabion.schema.json\n") {
		t.Error("editors don't find the schema")
	}
}

func TestLayers(t *testing.T) {
	f := parse(t, `
version: 1
defaults:
  timeout: {call: 9s, attempt: 3s}
  bulkhead: off
  breaker: {window: 20s}
  retry: {attempts: 5, immediate: true}
  hedge: {max: 2, delay: 1s}
dependencies:
  plain: {}
  payments:
    preset: payment
    retry: {immediate: false}
    breaker: {failures: off, consecutive: 4}
  keyless:
    bulkhead: {fair: true}
    hedge: off
    retry: off
`)
	for _, c := range []struct {
		name      string
		got, want any
	}{
		{"defaults reach a dependency without keys", f.Policies["plain"].Timeout.Call, 9 * time.Second},
		{"defaults switch sections off", f.Policies["plain"].Bulkhead.Off, true},
		{"a preset beats the defaults", f.Policies["payments"].Timeout.Call, 15 * time.Second},
		{"a preset switches its sections on", f.Policies["payments"].Bulkhead, policy.Bulkhead{Limit: 10}},
		{"what the preset leaves out comes from the defaults", f.Policies["payments"].Hedge.Max, 2},
		{"an own key beats both, also with false", f.Policies["payments"].Retry.Immediate, false},
		{"keys of one section come from several layers", f.Policies["payments"].Breaker,
			policy.Breaker{Window: 20 * time.Second, Failures: policy.Off, Consecutive: 4}},
		{"a section with keys is on", f.Policies["keyless"].Bulkhead, policy.Bulkhead{Fair: true}},
		{"hedge: off", f.Policies["keyless"].Resolved().Hedge.Max, 0},
		{"retry: off", f.Policies["keyless"].Retry.Attempts, 1},
	} {
		if !reflect.DeepEqual(c.got, c.want) {
			t.Errorf("%s: got %+v, want %+v", c.name, c.got, c.want)
		}
	}
}

func TestExplainNamesSources(t *testing.T) {
	f := parse(t, `version: 1
defaults:
  trust: internal
  bulkhead: off
dependencies:
  payments:
    preset: payment
    timeout: {call: "${T}"}
    retry: {backoff: {kind: equal}}
    hedge: off
  other:
    pace: off
    rate_limit: {rate: "${R:-5/s}"}
`, env("T", "12s"))
	check := func(name, path, value, source string) {
		t.Helper()
		for _, s := range f.Explain(name) {
			if s.Path == path {
				if s.Value != value || s.Source != source {
					t.Errorf("%s.%s = %q from %q, want %q from %q", name, path, s.Value, s.Source, value, source)
				}
				return
			}
		}
		t.Errorf("%s.%s is not explained", name, path)
	}
	check("payments", "trust", "internal", "gabion.yaml:3 (defaults)")
	check("payments", "timeout.call", "${T}", "gabion.yaml:8, variable T")
	check("payments", "timeout.attempt", "5s", "preset payment")
	check("payments", "timeout.margin", "50ms", "default")
	check("payments", "retry.backoff.kind", "equal", "gabion.yaml:9")
	check("payments", "retry.backoff.cap", "20s", "preset payment")
	check("payments", "hedge", "off", "gabion.yaml:10")
	check("payments", "bulkhead.limit", "10", "preset payment")
	check("payments", "bulkhead.queue", "20", "default")
	check("payments", "breaker.slow_call", "4s", "default")
	check("other", "bulkhead", "off", "gabion.yaml:4 (defaults)")
	check("other", "pace", "off", "gabion.yaml:12")
	check("other", "rate_limit.rate", "${R:-5/s}", "gabion.yaml:13, variable R")
	check("other", "rate_limit.max_wait", "until the deadline", "default")
	if f.Explain("absent") != nil {
		t.Error("explains what is not there")
	}
}

// What is printed means the same when it is read again.
func TestYAMLIsReadAgain(t *testing.T) {
	text := `version: 1
dependencies:
  "007": {trust: internal, key: made, http: {transient: [425, 520]}}
  "off": {breaker: off, bulkhead: off, pace: off, retry: {budget: off}}
`
	for _, name := range policy.PresetNames() {
		text += "  x-" + name + ": {preset: " + name + ", hedge: {max: 1, delay: 300ms}, rate_limit: {rate: 7/m, max_wait: off}}\n"
	}
	f := parse(t, text)
	again := parse(t, (view{f}).YAML(false))
	if !reflect.DeepEqual(f.Names(), again.Names()) {
		t.Fatalf("names %v became %v", f.Names(), again.Names())
	}
	for name, p := range f.Policies {
		got, want := again.Policies[name].Resolved(), p.Resolved()
		got.HTTP, want.HTTP = policy.HTTP{}, policy.HTTP{}
		got.GRPC, want.GRPC = policy.GRPC{}, policy.GRPC{}
		got.Prices, want.Prices = nil, nil
		// what a section that is off holds is not printed
		if want.Breaker.Off {
			got.Breaker, want.Breaker = policy.Breaker{}, policy.Breaker{}
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\ngot  %+v\nwant %+v\n%s", name, got, want, (view{f}).YAML(false, name))
		}
	}
}

func TestVariablesAreNotPrinted(t *testing.T) {
	text := "version: 1\ndependencies:\n  a:\n    timeout: {call: '${SECRET}'}\n"
	f := parse(t, text, env("SECRET", "17s"))
	if out := (view{f}).YAML(false); strings.Contains(out, "17s") || !strings.Contains(out, "call: '${SECRET}'") {
		t.Errorf("printed %s", out)
	}
	if out := (view{f}).YAML(true); !strings.Contains(out, "call: 17s") {
		t.Errorf("not revealed: %s", out)
	}
	for _, secret := range []string{"hunter2", "17", "1s\nversion: 2", "400000h", "1ms"} {
		_, err := Parse("f", []byte(text+"  b: {timeout: {call: '${SECRET}', attempt: 2s}}\n"), env("SECRET", secret))
		if err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("%q: %v", secret, err)
		}
	}
}

func TestImpossiblePoliciesAreFoundWhereTheyAreWritten(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"at the field", "version: 1\ndependencies:\n  a:\n    retry: {attempts: 65}\n",
			"f:4:23: a: retry.attempts: 65 is too large"},
		{"at the other field of a pair when this one is a default", "version: 1\ndependencies:\n  a:\n    trust: internal\n    timeout:\n      hop_margin: 4s\n",
			"f:6:19: a: timeout.attempt: 4s (the default) with trust: internal is not longer than timeout.hop_margin, 4s: nothing could be sent"},
		{"in the defaults, once", "version: 1\ndefaults: {timeout: {call: 2s, attempt: 3s}}\ndependencies: {a: {}, b: {}}\n",
			"f:2:41: defaults: timeout.attempt: 3s is longer than timeout.call, 2s"},
		{"where a layer's key meets another's", "version: 1\ndefaults: {timeout: {call: 2s}}\ndependencies:\n  a: {preset: payment, timeout: {attempt: 3s}}\n  b: {timeout: {attempt: 3s}}\n",
			"f:5:26: b: timeout.attempt: 3s is longer than timeout.call, 2s"},
		{"at the defaults' key when a preset contradicts it", "version: 1\ndefaults: {breaker: {slow_call: 4s}, timeout: {attempt: 5s, call: 15s}}\ndependencies:\n  a: {preset: database}\n",
			"f:2:33: a: breaker.slow_call: 4s is not shorter than timeout.attempt, 2s: no call could ever be slow"},
	} {
		_, err := Parse("f", []byte(c.text), env())
		var found Findings
		if !errors.As(err, &found) || len(found) != 1 || !strings.Contains(err.Error(), c.want+"\n") {
			t.Errorf("%s: got\n%v\nwant %s", c.name, err, c.want)
		}
	}
}

// A mistake hides only the contradictions that hang on it.
func TestMistakesHideNoOthers(t *testing.T) {
	const long = "timeout.attempt: 2s is longer than timeout.call, 1s"
	for _, c := range []struct {
		fact, defaults, keys string
		want                 []string // the reasons, in order, each a part
	}{
		{"a misspelled key elsewhere", "{}", "{tust: internal, timeout: {call: 1s, attempt: 2s}}",
			[]string{`unknown key "tust"`, long}},
		{"a misspelled key in the section", "{}", "{timeout: {call: 1s, attempt: 2s, margn: 1s}}",
			[]string{long, `unknown key "margn"`}},
		{"a value elsewhere that is wrong", "{}", "{timeout: {call: 1s, attempt: 2s}, retry: {attempts: x}}",
			[]string{long, "retry.attempts"}},
		{"the field itself is wrong", "{}", "{timeout: {call: 3s, attempt: 2}, breaker: {window: 5s}}",
			[]string{`"2" has no unit`}},
		{"the other field is wrong", "{timeout: {call: 1s}}", "{timeout: {call: 9, attempt: 2s}}",
			[]string{`"9" has no unit`}},
		{"the other field is misspelled", "{}", "{timeout: {atempt: 1s}, breaker: {window: 5s}}",
			[]string{`unknown key "atempt"`}},
		{"the other field is misspelled, and there", "{}", "{timeout: {attempt: 3s, atempt: 1s}, breaker: {window: 5s}}",
			[]string{`unknown key "atempt"`, "breaker.window: 5s is shorter than twice timeout.attempt, 3s"}},
		{"the other section is misspelled", "{}", "{timeot: {attempt: 1s}, breaker: {window: 5s}}",
			[]string{`unknown key "timeot"`}},
		{"the other section is wrong", "{}", "{timeout: 1s, breaker: {window: 5s}}",
			[]string{"timeout wants keys"}},
		{"the other field is there twice", "{}", "{timeout: {attempt: 3s, attempt: 1s}, breaker: {window: 5s}}",
			[]string{"is there twice"}},
		{"the other field is wrong in the defaults", "{timeout: {attempt: 1}}", "{breaker: {window: 5s}}",
			[]string{`"1" has no unit`}},
		{"it is wrong in the defaults and said again", "{timeout: {attempt: 1}}", "{timeout: {attempt: 3s}, breaker: {window: 5s}}",
			[]string{`"1" has no unit`, "breaker.window: 5s"}},
		{"it is wrong in the defaults and said by the preset", "{timeout: {attempt: 1}}", "{preset: payment, breaker: {window: 5s}}",
			[]string{`"1" has no unit`, "breaker.window: 5s"}},
		{"the preset that may have said it is misspelled", "{}", "{preset: databse, breaker: {window: 5s}}",
			[]string{`"databse" is not known`}},
		{"the preset is no word", "{}", "{preset: [database], breaker: {window: 5s}}",
			[]string{"preset wants one value"}},
		{"a misspelled preset hides nothing that is written", "{}", "{preset: databse, timeout: {call: 1s, attempt: 2s}}",
			[]string{`"databse" is not known`, long}},
		{"a typo in the defaults hides nothing there", "{tust: internal, timeout: {call: 1s, attempt: 2s}}", "{}",
			[]string{`unknown key "tust"`, "defaults: " + long}},
	} {
		_, err := Parse("f", []byte("version: 1\ndefaults: "+c.defaults+"\ndependencies:\n  a: "+c.keys+"\n"), env())
		var found Findings
		errors.As(err, &found)
		ok := len(found) == len(c.want)
		for i := 0; ok && i < len(found); i++ {
			ok = strings.Contains(found[i].Reason, c.want[i])
		}
		if !ok {
			t.Errorf("%s: want %q, got\n%v", c.fact, c.want, err)
		}
	}
}

// A dependency with less time for a call than its preset has shorter waits. Those between the
// deliveries of a broker are not within a call.
func TestThePresetsWaitsFollowAShorterCall(t *testing.T) {
	for _, c := range []struct {
		fact, section string
		base, most    time.Duration
	}{
		{"a tenth of the call, a tenth of the waits", "{preset: database, timeout: {call: 3s, attempt: 200ms}}", 50 * time.Millisecond, time.Second},
		{"the file's own waits", "{preset: database, timeout: {call: 3s, attempt: 200ms}, retry: {backoff: {cap: 2s}}}", 500 * time.Millisecond, 2 * time.Second},
		{"deliveries wait as long with a short call", "{preset: message-queue, timeout: {call: 30s}}", time.Second, time.Minute},
	} {
		t.Run(c.fact, func(t *testing.T) {
			f, err := Parse("a.yaml", []byte("version: 1\ndependencies:\n  a: "+c.section+"\n"))
			if err != nil {
				t.Fatal(err)
			}
			if b := f.Policies["a"].Retry.Backoff; b.Base != c.base || b.Cap != c.most {
				t.Errorf("from %v to %v, want %v to %v", b.Base, b.Cap, c.base, c.most)
			}
		})
	}
}

// The preset's attempt timeout is no longer than the call, as the default is. What the file
// says of attempts stays wrong.
func TestThePresetsAttemptFitsAShorterCall(t *testing.T) {
	for _, c := range []struct {
		fact, text string
		want       time.Duration // zero = refused
	}{
		{"a call that is shorter than the preset's attempts", "dependencies: {a: {preset: payment, timeout: {call: 2s}}}", 2 * time.Second},
		{"a longer one", "dependencies: {a: {preset: payment, timeout: {call: 8s}}}", 5 * time.Second},
		{"the file's own attempts", "dependencies: {a: {preset: payment, timeout: {call: 2s, attempt: 3s}}}", 0},
		{"the call of the defaults is not that of a preset", "defaults: {timeout: {call: 2s}}\ndependencies: {a: {preset: payment}}", 5 * time.Second},
	} {
		t.Run(c.fact, func(t *testing.T) {
			f, err := Parse("a.yaml", []byte("version: 1\n"+c.text+"\n"))
			if refused := err != nil; refused != (c.want == 0) {
				t.Fatal(err)
			}
			if err == nil && f.Policies["a"].Timeout.Attempt != c.want {
				t.Errorf("%v, want %v", f.Policies["a"].Timeout.Attempt, c.want)
			}
		})
	}
}

// An attempt that nothing can follow has the call's time by the preset, and the time that the file writes.
func TestAnAttemptTimeoutThatIsWrittenBesideAPresetIsKept(t *testing.T) {
	for _, c := range []struct {
		fact, text string
		want       time.Duration // timeout.last
	}{
		{"the preset alone", "{preset: payment}", policy.Off},
		{"with a shorter call", "{preset: payment, timeout: {call: 4s}}", policy.Off},
		{"an attempt timeout is written", "{preset: payment, timeout: {attempt: 3s}}", 3 * time.Second},
		{"and a shorter call", "{preset: payment, timeout: {call: 4s, attempt: 3s}}", 3 * time.Second},
		{"and timeout.last", "{preset: payment, timeout: {attempt: 3s, last: off}}", policy.Off},
		{"a preset with a limit of its own", "{preset: llm, timeout: {attempt: 30s}}", 5 * time.Minute},
	} {
		t.Run(c.fact, func(t *testing.T) {
			f, err := Parse("a.yaml", []byte("version: 1\ndependencies: {a: "+c.text+"}\n"))
			if err != nil {
				t.Fatal(err)
			}
			if got := f.Policies["a"].Resolved().Timeout.Last; got != c.want {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
}

// A preset that is named by an empty variable would be dropped without a word, and
// with it key: required.
func TestAnEmptyPresetIsAMistake(t *testing.T) {
	for _, c := range []struct {
		fact, preset string
		vars         []string
		want         []string // reason and proposal; none: it is fine
	}{
		{"a variable that is empty", `"${PRESET}"`, []string{"PRESET", ""}, []string{`preset: "${PRESET}" is empty`, "set PRESET, or leave the key out for no preset"}},
		{"a default that is empty", `"${PRESET:-}"`, nil, []string{`preset: "${PRESET:-}" is empty`, "set PRESET, or leave the key out for no preset"}},
		{"blanks", `"${PRESET}"`, []string{"PRESET", " "}, []string{`preset: "${PRESET}" is not known`, "use one of"}},
		{"a variable that is not set", `"${PRESET}"`, nil, []string{"needs the variable PRESET, which is not set", "set it"}},
		{"no word at all", `""`, nil, []string{`preset: "" is empty`, "leave the key out for no preset"}},
		{"a variable that names one", `"${PRESET}"`, []string{"PRESET", "payment"}, nil},
	} {
		f, err := Parse("f", []byte("version: 1\ndependencies: {a: {preset: "+c.preset+", breaker: {window: 5s}}}\n"), env(c.vars...))
		var found Findings
		errors.As(err, &found)
		switch {
		case c.want == nil && (err == nil || !strings.Contains(err.Error(), "breaker.window")): // the preset's attempt is 5s
			t.Errorf("%s: %+v, %v", c.fact, f, err)
		case c.want != nil && (len(found) != 1 || !strings.Contains(found[0].Reason, c.want[0]) || !strings.Contains(found[0].Proposal, c.want[1])):
			t.Errorf("%s: got\n%v\nwant %q", c.fact, err, c.want)
		}
	}
	for _, key := range []string{"trust", "key", "retry: {backoff: {kind", "timeout: {call", "retry: {attempts", "safe"} {
		text := "version: 1\ndependencies: {a: {" + key + `: "${EMPTY}"` + strings.Repeat("}", strings.Count(key, "{")) + "}}\n"
		if f, err := Parse("f", []byte(text), env("EMPTY", "")); err == nil {
			t.Errorf("%s takes an empty variable: %+v", key, f.Policies["a"])
		}
	}
}

// What a user means by false, and by another form of a key's name.
func TestWordsForOff(t *testing.T) {
	for text, want := range map[string]string{
		"retry: false":                   "write retry: off",
		"breaker: no":                    "write breaker: off",
		"retry: {budget: none}":          "write budget: off",
		"hedge: disabled":                "write hedge: off",
		"retry: {attempts: false}":       "leave the key out for the default, or write 1 for never retry",
		"breaker: {failures: never}":     "leave the key out, or write off",
		"timeout: {call: none}":          "leave the key out, or write off",
		"bulkhead: {limit: false}":       "leave the key out for the default, or write bulkhead: off",
		"retires: {attempts: 2}":         "did you mean retry?",
		"retries: off":                   "did you mean retry?",
		"retry: {budget: {ratio: 500%}}": "did you mean 5%? write at most 100%",
	} {
		_, err := Parse("f", []byte("version: 1\ndependencies: {a: {"+text+"}}\n"), env("R", "500"))
		var found Findings
		if errors.As(err, &found); len(found) != 1 || found[0].Proposal != want {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// Off is proposed only where it is possible.
func TestProposalsToWriteOffArePossible(t *testing.T) {
	proposed := 0
	try := func(path, value string) Findings {
		keys := strings.Split(path, ".")
		text := "version: 1\ndependencies: {a: {" + strings.Join(keys, ": {") + ": " + value + strings.Repeat("}", len(keys)) + "}\n"
		_, err := Parse("f", []byte(text), env())
		var found Findings
		errors.As(err, &found)
		return found
	}
	leaves(reflect.ValueOf(policy.Policy{}), "", true, func(path string, _ reflect.Value) {
		for _, value := range []string{"0", "0s", "0%", "0/s", "-1", "-1s", "[0]"} {
			for _, f := range try(path, value) {
				if !strings.Contains(f.Proposal, "write off") {
					continue
				}
				proposed++
				if again := try(path, "off"); again != nil {
					t.Errorf("%s: %s: the proposal is %s, and then: %v", path, value, f.Proposal, again)
				}
			}
		}
	})
	if proposed == 0 {
		t.Error("off is proposed nowhere")
	}
	for text, want := range map[string]string{
		"retry: {attempts: -3}":       "leave the key out for the default, or write 1 for never retry",
		"bulkhead: {limit: 0}":        "leave the key out for the default, or write bulkhead: off",
		"breaker: {probe_calls: 0}":   "leave the key out for the default",
		"breaker: {failure_rate: 0%}": "leave the key out, or write off",
	} {
		_, err := Parse("f", []byte("version: 1\ndependencies: {a: {"+text+"}}\n"), env())
		var found Findings
		if errors.As(err, &found); len(found) != 1 || found[0].Proposal != want {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	_, err := Parse("f", []byte("version: 0\n"), env())
	if err == nil || !strings.Contains(err.Error(), "^ write version: 1") {
		t.Errorf("version 0: %v", err)
	}
}

func TestLoad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "gabion.yaml")
	if _, err := Load(path); !errors.Is(err, os.ErrNotExist) || strings.HasPrefix(err.Error(), "config:") {
		t.Errorf("a file that is not there: %v", err)
	}
	if err := os.WriteFile(path, []byte("version: 1\ndependencies: {a: {retry: {backoff: {kind: equal}}}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := Load(path)
	if err != nil || f.Policies["a"].Retry.Backoff.Kind != backoff.EqualJitter {
		t.Errorf("got %+v, %v", f, err)
	}
	os.WriteFile(path, []byte("version: 1\n#"+strings.Repeat("x", 2<<20)), 0o600)
	var found Findings
	if _, err := Load(path); !errors.As(err, &found) || len(found) != 1 {
		t.Errorf("a huge file: %v", err)
	}
}

// All the mistakes at once, as a user reads them.
func TestMistakesGolden(t *testing.T) {
	text, err := os.ReadFile("testdata/mistakes.yaml")
	if err != nil {
		t.Fatal(err)
	}
	_, err = Parse("mistakes.yaml", text, env("SLOTS", "many"))
	testgolden.File(t, "testdata/mistakes.golden", err.Error()+"\n")
	var found Findings
	if !errors.As(err, &found) || len(found) < 10 {
		t.Errorf("%d findings", len(found))
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(example))
	mistakes, _ := os.ReadFile("testdata/mistakes.yaml")
	f.Add(mistakes)
	for _, s := range []string{"", "\xff", "a: &a [*a]", "version: 1\ndependencies: {a: &x {retry: off}, b: *x}", "- 1", "version: 1\n---\n", "\ufeffversion: 1", "? {a: b}\n: c", "version: 1\ndefaults: {timeout: {call: ${A}}}"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := Parse("f", data, env("A", "1s"))
		if err == nil {
			for _, p := range file.Policies {
				if err := p.Validate(); err != nil {
					t.Fatal(err)
				}
			}
			again, err := Parse("again", []byte(view{file}.YAML(true)), env())
			if err != nil || !reflect.DeepEqual(again.Names(), file.Names()) {
				t.Fatalf("not read again: %v\n%s", err, (view{file}).YAML(true))
			}
			return
		}
		var found Findings
		if !errors.As(err, &found) || len(found) == 0 {
			t.Fatalf("an error that is no finding: %v", err)
		}
		for _, f := range found {
			if f.Line < 1 || f.Col < 1 || f.Reason == "" {
				t.Fatalf("a finding without a place: %+v", f)
			}
		}
	})
}
