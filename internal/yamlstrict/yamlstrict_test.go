package yamlstrict

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
)

type limits struct {
	Off      bool
	Max      int
	MaxAfter time.Duration
	Growth   float64
	Codes    []int
	Inner    struct{ HTTP bool }
}

type sample struct {
	Version int
	Name    string
	Limits  limits
	Plain   struct{ Rate int }
	Later   Node
	Table   map[string]Node
}

var testOptions = Options{
	Lookup: func(name string) (string, bool) {
		v, ok := map[string]string{"N": "7", "EMPTY": "", "YAML": "{a: b}", "SECRET": "hunter2"}[name]
		return v, ok
	},
	Scalars: map[reflect.Type]Scalar{reflect.TypeFor[time.Duration](): {Parse: func(s string) (any, string, string) {
		d, err := time.ParseDuration(s)
		if err != nil {
			return nil, "is not a duration", "write 10s"
		}
		return d, "", ""
	}}},
	Instead: func(path string) string { return map[string]string{"limits.max": "write at least 1"}[path] },
}

func read(text string) (s sample, places map[string]Place, found Findings) {
	doc, found := Parse("f", []byte(text), testOptions)
	if len(found) > 0 {
		return s, nil, found
	}
	places, found = doc.Decode(&s)
	return s, places, found
}

func TestReads(t *testing.T) {
	s, places, found := read("\ufeffversion: 1\r\nname: it's ${N} for $$5\r\nlimits:\r\n  max: off\r\n  max_after: 5s\r\n  codes: [1, \"${N}\"]\r\n  growth: 1.5\r\n  inner: {http: true}\r\n")
	if len(found) > 0 {
		t.Fatal(found)
	}
	want := sample{Version: 1, Name: "it's 7 for $5", Limits: limits{Max: -1, MaxAfter: 5 * time.Second, Codes: []int{1, 7}, Growth: 1.5}}
	want.Limits.Inner.HTTP = true
	if !reflect.DeepEqual(s, want) {
		t.Errorf("got %+v", s)
	}
	for path, want := range map[string]Place{
		"limits":           {Line: 3, Col: 1},
		"limits.max_after": {Line: 5, Col: 14, Text: "5s", Leaf: true},
		"limits.codes":     {Line: 6, Col: 10, Text: "[1, ${N}]", Vars: []string{"N"}, Leaf: true, Items: []Place{{Line: 6, Col: 11}, {Line: 6, Col: 14}}},
		"name":             {Line: 2, Col: 7, Text: "it's ${N} for $$5", Vars: []string{"N"}, Leaf: true},
	} {
		if got := places[path]; !reflect.DeepEqual(got, want) {
			t.Errorf("%s is at %+v, want %+v", path, got, want)
		}
	}
}

func TestLaysOver(t *testing.T) {
	doc, _ := Parse("f", []byte("limits: {max: 3}\n"), testOptions)
	s := sample{Name: "kept", Limits: limits{Off: true, Growth: 2}}
	if _, found := doc.Decode(&s); found != nil || s.Name != "kept" || s.Limits.Off || s.Limits.Growth != 2 || s.Limits.Max != 3 {
		t.Errorf("got %+v, %v", s, found)
	}
}

func TestNodesAreReadLater(t *testing.T) {
	s, _, found := read("version: 1\ntable:\n  x: &x {max: 4}\n  y: *x\n")
	var l limits
	places, more := s.Table["y"].Decode(&l)
	if found != nil || more != nil || l.Max != 4 || places["max"].Line != 3 || s.Table["y"].Key.Line != 4 || s.Later.Set() {
		t.Errorf("got %+v, %v, %v, %v", l, found, more, places)
	}
}

func TestRefuses(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"an unknown key", "nmae: x", `f:1:1: unknown key "nmae" here|^ did you mean name?`},
		{"camel case", "limits: {maxAfter: 5s}", `f:1:10: unknown key "maxAfter" in limits|^ did you mean max_after?`},
		{"dashes", "limits: {max-after: 5s}", `f:1:10: unknown key "max-after" in limits|^ did you mean max_after?`},
		{"a key of another section", "plain: {growth: 2}", `f:1:9: unknown key "growth" in plain|^ it belongs under limits`},
		{"a key of nowhere", "plain: {zzz: 2}", `f:1:9: unknown key "zzz" in plain|^ keys: rate`},
		{"off as a key", "limits: {off: true}", `f:1:10: unknown key "off" in limits|^ write limits: off`},
		{"a key twice", "name: a\nname: b", "f:2:1: name is there twice, first in line 1|^ remove one"},
		{"nothing", "name:", "f:1:6: name is empty|^ write a value, or leave the key out for the default"},
		{"null", "name: ~", "f:1:7: name is empty|^ write a value"},
		{"zero", "version: 0", `f:1:10: version: "0" would mean the default|^ leave the key out, or write off`},
		{"octal", "version: 010", `f:1:10: version: "010" is not a whole number|^ write digits`},
		{"hexadecimal", "version: 0x10", `f:1:10: version: "0x10" is not a whole number|`},
		{"zero where off is not possible", "limits: {max: 0}", `f:1:15: limits.max: "0" would mean the default|^ write at least 1`},
		{"a negative number", "version: -1", `f:1:10: version: "-1" is negative|`},
		{"a negative number where off is not possible", "limits: {max: -1}", `f:1:15: limits.max: "-1" is negative|^ write at least 1`},
		{"a negative fraction", "limits: {growth: -1.5}", `f:1:18: limits.growth: "-1.5" is negative|^ leave the key out, or write off`},
		{"not a number", "limits: {growth: .nan}", `f:1:18: limits.growth: ".nan" is not a number|`},
		{"yes", "limits: {inner: {http: yes}}", `f:1:24: limits.inner.http: "yes" is not true or false|^ write true`},
		{"a list for a value", "name: [a]", "f:1:7: name wants one value, not a list|"},
		{"keys for a value", "name: {a: b}", "f:1:7: name wants one value, not keys|"},
		{"a value for a list", "limits: {codes: 4}", `f:1:17: limits.codes wants a list, not "4"|^ write [4]`},
		{"a list for a section", "limits: [a]", "f:1:9: limits wants keys, not a list|"},
		{"a word for a section", "limits: on", `f:1:9: limits wants keys, not "on"|^ keys: max, max_after`},
		{"false for a section", "limits: false", `f:1:9: limits wants keys, not "false"|^ write limits: off`},
		{"no for a section in another", "limits: {inner: no}", `f:1:17: limits.inner wants keys, not "no"|^ keys: http`},
		{"none for a number", "limits: {growth: none}", `f:1:18: limits.growth: "none" is not a number|^ leave the key out, or write off`},
		{"false for a duration", "limits: {max_after: false}", `f:1:21: limits.max_after: "false" is not a duration|^ leave the key out, or write off`},
		{"off where there is no off", "plain: off", "f:1:8: plain can't be off as a whole|^ keys: rate"},
		{"a tag", "name: !!str 5", "f:1:7: name has a tag, !!str|^ write the value alone"},
		{"a merge key", "limits: &l {max: 1}\nplain: {<<: *l}", "f:2:9: plain has a merge key|"},
		{"a key that is a list", "? [a]\n: b", "f:1:3: has a key that is not a word|"},
		{"two documents", "name: a\n---\nname: b", "f:3:1: a second document begins here|"},
		{"an empty file", "# nothing\n", "f:1:1: the file is empty|^ begin with version: 1"},
		{"tabs", "limits:\n\tmax: 1\n\tgrowth: 2\n", "f:2:1: a tab indents this line|^ indent with spaces"},
		{"an open bracket", "name: [a\n", "not YAML: did not find expected ',' or ']'|"},
		{"a variable in braces", "limits: {max: ${N}}", `not YAML|inside { } and [ ] a variable needs quotes: "${N}"`},
		{"an unset variable", "name: ${NO}", "f:1:7: name needs the variable NO, which is not set|^ set it, or write ${NO:-default}"},
		{"an unset variable with a message", "name: ${NO:?the name of it}", "f:1:7: name needs the variable NO: the name of it|"},
		{"an empty variable with a message", "name: ${EMPTY:?please}", "f:1:7: name needs the variable EMPTY: please|"},
		{"a lone dollar", "name: $HOME", "f:1:7: name has a lone $|^ write ${NAME} for a variable, $$ for a dollar"},
		{"an open variable", "name: ${N", "f:1:7: name has a lone $|"},
		{"a strange variable", "name: ${N:+x}", "f:1:7: name has an invalid variable|"},
		{"a variable that would inject YAML", "limits: \"${YAML}\"", `f:1:9: limits wants keys, not "${YAML}"|`},
		{"a secret", "version: ${SECRET}", `f:1:10: version: "${SECRET}" expands to what is not a whole number|its value is not shown here`},
		{"broken UTF-8", "name: a\xff", "f:1:8: not UTF-8|"},
		{"UTF-16", "\xff\xfen\x00", "f:1:1: not UTF-8|"},
		{"a huge file", "#" + strings.Repeat("x", MaxSize), "f:1:1: the file has 1048577 bytes|"},
		{"deep brackets", strings.Repeat("[", 5000), "f:1:1001: brackets are nested too deeply|"},
		{"an unknown alias", "name: *a", "not YAML: unknown anchor|"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, _, found := read(c.text)
			reason, proposal, _ := strings.Cut(c.want, "|")
			if text := found.Error(); !strings.Contains(text, reason) || !strings.Contains(text, proposal) {
				t.Errorf("got\n%s\nwant\n%s\n%s", text, reason, proposal)
			}
			if strings.Contains(found.Error(), "hunter2") {
				t.Error("a secret is shown")
			}
		})
	}
}

func TestVariables(t *testing.T) {
	for text, want := range map[string]string{
		"${N}": "7", "a${N}b${N}": "a7b7", "${NO:-x y}": "x y", "${EMPTY:-x}": "x", "${EMPTY}": "", "$${N}": "${N}", "$$": "$",
		"${N:-x}": "7", "${N:?x}": "7", "${NO:-}": "", "plain": "plain",
	} {
		got, _, problem, _ := expand(text, testOptions.Lookup)
		if got != want || problem != "" {
			t.Errorf("%s expands to %q, %s; want %q", text, got, problem, want)
		}
	}
}

// A billion laughs: aliases that multiply end early.
func TestAliasesAreBounded(t *testing.T) {
	var b strings.Builder
	b.WriteString("x: &x0 [1, 1, 1]\n")
	for i := 1; i < 16; i++ {
		fmt.Fprintf(&b, "x%d: &x%d [*x%d, *x%d, *x%d]\n", i, i, i-1, i-1, i-1)
	}
	b.WriteString("laughs: *x15\n")
	doc, _ := Parse("f", []byte(b.String()), testOptions)
	var into struct {
		Laughs [][][][][][][][][][][][][][][][]int
	}
	_, found := doc.Decode(&into)
	if text := found.Error(); !strings.Contains(text, "is too large once its aliases are followed") || len(found) > 20 {
		t.Errorf("%d findings: %.300s", len(found), text)
	}
}

// One that holds itself ends at all.
func TestDepthIsBounded(t *testing.T) {
	type tree map[string]tree
	doc, found := Parse("f", []byte("a: &a {b: *a}\n"), testOptions)
	var into struct{ A tree }
	_, more := doc.Decode(&into)
	if text := append(found, more...).Error(); !strings.Contains(text, "nested too deeply") {
		t.Errorf("got %.300s", text)
	}
}

func TestSnippetIsBounded(t *testing.T) {
	_, _, found := read("name: x\nzzz: \x1b[31m" + strings.Repeat("ä", 5000) + "\n")
	text := found.Error()
	if len(text) > 2000 || strings.Contains(text, "\x1b") {
		t.Errorf("shows %d bytes: %.300q", len(text), text)
	}
	f := Finding{File: "f", Line: 1, Col: 200, Reason: "r", Snippet: strings.Repeat("x", 199) + "Y" + strings.Repeat("z", 99)}
	lines := strings.Split(f.Error(), "\n")
	if i, j := strings.IndexRune(lines[2], '^'), strings.IndexRune(strings.Replace(lines[1], "…", ".", 1), 'Y'); i != j {
		t.Errorf("the caret is at %d, not %d:\n%v", i, j, f.Error())
	}
}

func TestSnake(t *testing.T) {
	for name, want := range map[string]string{
		"Call": "call", "MaxAfter": "max_after", "HTTP": "http", "HTTPStatus": "http_status", "RateLimit": "rate_limit", "K": "k", "ReplayLimit": "replay_limit",
	} {
		if got := Snake(name); got != want {
			t.Errorf("%s is %s", name, got)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, s := range []string{
		"version: 1\nlimits: {max: 3}\n", "a: &a [*a]", "limits: off", "name: ${N:-x}", "\xff", "\t", "{", "? ? ? a", "a: |\n  x", "--- !x\n...\n---", "<<: {a: b}",
		"limits: &l {max: 1}\nplain: *l", "\ufeff", "a: \"\\x00\"", "name: >-\n x\n\n y", "%YAML 1.1\n---\na: b",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		_, _, found := read(string(data))
		for _, f := range found {
			if f.Line < 1 || f.Col < 1 || f.Reason == "" || f.Error() == "" {
				t.Fatalf("a finding without a place: %+v", f)
			}
		}
	})
}
