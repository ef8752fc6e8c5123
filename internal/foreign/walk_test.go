package foreign

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/yamlstrict"
)

var shop = NewTable("the shop ignores it", nil,
	[]Rule{
		{Key: "name", Shape: Word, Fate: Elsewhere, Text: "a name"},
		{Key: "routes[].timeout", Shape: GoSpan, Fate: Kept, To: "timeout.call"},
		{Key: "routes[].tries", Shape: Whole(0, 9), Fate: Nearly, To: "retry.attempts", Text: "{} retries"},
		{Key: "routes[].on", Shape: Commas, Fate: Lost, Text: "no words"},
		{Key: "labels", Fate: Elsewhere, Text: "labels"},
	},
	Under("hosts.*", []Rule{{Key: "open", Shape: ISOSpan, Fate: Kept}}),
)

func read(t *testing.T, text string) (*Value, *Import) {
	t.Helper()
	doc, trees, found := yamlstrict.Trees("shop.yaml", []byte(text))
	if found != nil || len(trees) != 1 {
		t.Fatal(found, len(trees))
	}
	w := NewWalker(&File{Name: "shop.yaml", Document: doc, Documents: trees}, "shop")
	v := w.Read(trees[0], shop, "")
	return v, w.Done()
}

func TestATableSaysWhatBecomesOfEachKey(t *testing.T) {
	v, got := read(t, `
name: stock
labels: {a: [b]}
routes:
- {timeout: 1m30s, tries: 2, on: "5xx, reset"}
- {timeouts: 3s}
hosts:
  eu: {open: PT1M0.5S}
`)
	if d := v.Get("routes").All()[0].Get("timeout").SpanOr(0); d != 90*time.Second {
		t.Error("timeout:", d)
	}
	if d := v.Get("hosts.eu.open").SpanOr(0); d != 60500*time.Millisecond {
		t.Error("open:", d)
	}
	if words := v.Get("routes").All()[0].Get("on").Words; !slices.Equal(words, []string{"5xx", "reset"}) {
		t.Error("words:", words)
	}
	if n := v.Get("routes").All()[1].Get("tries.of.nothing").NumberOr(7); n != 7 {
		t.Error("what is not there:", n)
	}
	var said []string
	for _, r := range got.Remarks {
		said = append(said, r.Key+": "+r.Text)
	}
	want := []string{"name: a name", "labels: labels", "routes[0].timeout: ", "routes[0].tries: 2 retries", "routes[0].on: no words",
		"routes[1].timeouts: did you mean timeout?", "hosts.eu.open: "}
	if !slices.Equal(said, want) || got.Remarks[5].Fate != Unknown || got.Remarks[5].Line != 6 {
		t.Errorf("got %q", said)
	}
}

func TestValuesThatARuleDoesNotTakeAreMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"name: 3":                        `name: wants a text, not 3`,
		"routes: {}":                     `routes: wants a list, not keys with values`,
		"routes: [3]":                    `routes[0]: wants keys with values, not 3`,
		"hosts: [a]":                     `hosts: wants keys with values, not a list`,
		"routes: [{timeout: 250}]":       `routes[0].timeout: 250 has no unit`,
		"routes: [{timeout: -1s}]":       `routes[0].timeout: "-1s" is negative`,
		"routes: [{timeout: soon}]":      `routes[0].timeout: "soon" is no time`,
		"routes: [{tries: 1.5}]":         `routes[0].tries: wants a whole number, not 1.5`,
		"routes: [{tries: 10}]":          `routes[0].tries: 10 is too large`,
		"routes: [{tries: -1}]":          `routes[0].tries: -1 is negative`,
		"routes: [{tries: '1'}]":         `routes[0].tries: wants a number, not "1"`,
		"routes: [{tries: .nan}]":        `routes[0].tries: wants a number, not .nan`,
		"hosts: {eu: {open: 1s}}":        `hosts.eu.open: "1s" is not written as times are here`,
		"hosts: {eu: {open: P}}":         `hosts.eu.open: "P" is no time`,
		"routes: [{timeout: 99999999h}]": `routes[0].timeout: "99999999h" is no time`,
	} {
		v, got := read(t, text)
		if len(got.Wrong) != 1 || !strings.Contains(got.Wrong[0].Reason, want) {
			t.Errorf("%s: %v, want %s", text, got.Wrong, want)
		}
		if v.Get("routes").All() != nil && v.Get("routes").All()[0].Items != nil {
			t.Errorf("%s: what is wrong is kept", text)
		}
	}
}

func TestTimesOfProtobuf(t *testing.T) {
	for text, want := range map[string]time.Duration{"0.025s": 25 * time.Millisecond, "3s": 3 * time.Second, "250ms": -1, "1m": -1, "0.0000000001s": -1} {
		v := &Value{Tree: &yamlstrict.Tree{Kind: yamlstrict.Text, Text: text}}
		if reason, _ := ProtoSpan(v); (reason != "") != (want < 0) || want >= 0 && v.Span != want {
			t.Errorf("%s: %s, %v", text, reason, v.Span)
		}
	}
}
