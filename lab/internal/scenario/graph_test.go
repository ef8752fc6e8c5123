package scenario

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gabion-go/gabion/config"
	"github.com/gabion-go/gabion/internal/lint"
)

// linted says what the rules for graphs find, as "G070 note 19: …".
func linted(t *testing.T, name, text string) (said []string) {
	t.Helper()
	policies, g, found := Read("", name, []byte(text))
	if len(found) > 0 {
		t.Fatal(found)
	}
	for _, f := range lint.Run([]*config.File{policies}, lint.Options{Graphs: map[*config.File]lint.Graph{policies: g}}).Findings {
		if f.Rule.ID >= "G050" && f.Rule.ID < "G090" {
			said = append(said, fmt.Sprintf("%s %s %s:%d: %s", f.Rule.ID, f.Severity, f.File, f.Line, f.Reason))
		}
	}
	return said
}

// The library has one scenario with several layers, which is about just that: it multiplies,
// and budgets bound it. Nothing is found in the others.
func TestTheLibraryHasNoBadGraph(t *testing.T) {
	want := []string{
		"G070 note layered-retries:19: shop → orders → stock → database: 3 × 3 × 3 = 27 attempts at database for one call of shop; budgets bound it to 2.2 while an outage lasts",
		"G072 note layered-retries:26: orders → stock may take 4s, but shop → orders leaves orders at most 3.9s",
		"G072 note layered-retries:27: stock → database may take 2s, but orders → stock leaves stock at most 1.9s",
		"G075 note layered-retries:19: shop → orders is tried 3 times",
		"G075 note layered-retries:21: orders → stock is tried 3 times",
	}
	var got []string
	for _, name := range Names() {
		text, err := Text(name)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, linted(t, name, string(text))...)
	}
	slices.Sort(got)
	if len(got) != len(want) {
		t.Fatalf("found %s", strings.Join(got, "\n"))
	}
	for i := range want {
		if !strings.HasPrefix(got[i], want[i]) {
			t.Errorf("%s\nwant %s", got[i], want[i])
		}
	}
}

const layers = `version: 1
title: t
duration: 5m
clients:
  shop:
    count: 10
    rate: 100/s
    deadline: 4s
    calls: [{to: orders, propagate: true}]
services:
  orders:
    workers: 50
    time: exp 5ms
    calls: [{to: db, propagate: true}]
  db: {workers: 10, time: 20ms}
policies:
  orders: {safe: true, timeout: {call: 4s, attempt: 2s}, retry: {attempts: 1}}
  db: {safe: true, timeout: {call: 1s, attempt: 500ms}}
`

func TestAGraphOfAScenario(t *testing.T) {
	for fact, c := range map[string]struct{ old, new, want string }{
		"one layer repeats":         {"", "", ""},
		"deadlines do not travel":   {"[{to: orders, propagate: true}]", "[{to: orders}]", "G077 warning f:9: shop → orders is a service of yours"},
		"layers without budgets":    {"retry: {attempts: 1}}\n  db: {safe: true,", "retry: {budget: off}}\n  db: {safe: true, retry: {budget: off},", "G070 warning f:9: shop → orders → db: 3 × 3 = 9 attempts at db for one call of shop: nothing bounds"},
		"a call longer than of use": {"orders: {safe: true, timeout: {call: 4s", "orders: {safe: true, timeout: {call: 5s", "G076 warning f:17: shop → orders may take 5s, but those who call shop wait 4s"},
		"longer than what is left":  {"db: {safe: true, timeout: {call: 1s", "db: {safe: true, timeout: {call: 2s", "G072 note f:18: orders → db may take 2s, but shop → orders leaves orders at most 1.9s"},
		"more than it can answer":   {"clients:\n", "clients:\n  jobs: {count: 5, rate: 401/s, calls: [{to: db}]}\n", "G078 warning f:5: db: jobs 80.2/s × 5 + orders 100/s × 1 = 501/s at a usual time > capacity 500/s"},
		"who calls when answered":   {"    rate: 100/s\n", "    loop: closed\n    think: exp 1s\n", ""},
	} {
		t.Run(fact, func(t *testing.T) {
			text := strings.Replace(layers, c.old, c.new, 1)
			if text == layers && c.old != "" {
				t.Fatal("nothing is replaced")
			}
			said := linted(t, "f", text)
			found := slices.ContainsFunc(said, func(s string) bool { return strings.HasPrefix(s, c.want) })
			if c.want == "" && len(said) > 0 || !found && c.want != "" {
				t.Errorf("said %q, want %q", said, c.want)
			}
		})
	}
}

func TestMarksAndDeadlinesOfAScenarioCount(t *testing.T) {
	off := strings.Replace(strings.Replace(layers, "retry: {attempts: 1}", "retry: {budget: off}", 1), "db: {safe: true,", "db: {safe: true, retry: {budget: off},", 1)
	said := linted(t, "f", strings.Replace(off, "    workers: 50\n", "    workers: 50\n    stops_retries: true\n", 1))
	if len(said) != 1 || !strings.Contains(said[0], "G070 note") || !strings.HasSuffix(said[0], "marks that stop retries leave 3") {
		t.Errorf("marks: %q", said)
	}
	long := strings.Replace(strings.Replace(layers, "[{to: orders, propagate: true}]", "[{to: orders}]", 1), "timeout: {call: 1s", "timeout: {call: 3s", 1)
	if said := linted(t, "f", long); len(said) != 2 || !strings.Contains(said[1], "G071 warning f:18: orders → db may take 3s, but shop gives orders only 2s") {
		t.Errorf("a long call: %q", said)
	}
	bound := strings.Replace(long, "  orders:\n    workers", "  orders:\n    deadline: 2s\n    workers", 1)
	if said := linted(t, "f", bound); len(said) != 1 {
		t.Errorf("a long call that the service's deadline ends: %q", said)
	}
}

// What is wrong in a scenario does not hide its policies.
func TestABrokenScenarioIsReadAsFarAsItGoes(t *testing.T) {
	text := strings.Replace(strings.Replace(layers, "rate: 100/s", "rate: 100", 1), "{to: db,", "{to: dbb,", 1)
	policies, g, found := Read("", "f", []byte(text))
	if len(found) < 2 || len(policies.Policies) != 2 || len(g.Edges) != 1 || len(g.Services) != 2 {
		t.Errorf("%d policies, %d edges, %d services, %v", len(policies.Policies), len(g.Edges), len(g.Services), found)
	}
	if policies, _, found := Read("", "f", []byte("{")); policies == nil || len(found) == 0 {
		t.Errorf("%v %v", policies, found)
	}
}

// Whatever a text holds, it is read and looked at to the end.
func FuzzRead(f *testing.F) {
	f.Add(layers)
	f.Add("clients: {a: {calls: [{to: b}]}}\nservices: {b: {calls: [{to: b, fan: 3}]}}\npolicies:\n  b: {retry: 3}\n")
	f.Fuzz(func(_ *testing.T, text string) {
		policies, g, _ := Read("", "f", []byte(text))
		for _, f := range lint.Run([]*config.File{policies}, lint.Options{Graphs: map[*config.File]lint.Graph{policies: g}}).Findings {
			_ = f.Error()
		}
	})
}
