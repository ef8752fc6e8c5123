package scenario

import (
	"slices"
	"strings"
	"testing"

	"github.com/gabion-go/gabion/config"
)

// A world that is overloaded before anything goes wrong says so; one that is not, or
// not before the trouble, says nothing.
func TestALoadAboveTheCapacityFromTheStartIsSaid(t *testing.T) {
	head := "version: 1\ntitle: x\nduration: 60s\n"
	tail := "policies:\n  db: " + callOnly + "\n"
	for _, c := range []struct{ fact, text, want string }{
		{"too much for one service", `clients:
  shop: {count: 10, rate: 120/s, calls: [{to: db}]}
services:
  db: {workers: 2, queue: 10, time: 20ms}
`, "db gets 120 requests a second and can serve 100"},
		{"each piece of work is several requests", `clients:
  shop: {count: 10, rate: 40/s, calls: [{to: api, policy: db}]}
services:
  api: {workers: 50, time: 5ms, calls: [{to: db, fan: 3}]}
  db: {workers: 2, queue: 10, time: 20ms}
`, "db gets 120 requests a second and can serve 100"},
		{"two fleets together", `clients:
  shop: {count: 10, rate: 70/s, calls: [{to: db}]}
  reports: {count: 10, rate: 50/s, calls: [{to: db}]}
services:
  db: {workers: 2, queue: 10, time: 20ms}
`, "db gets 120 requests a second and can serve 100"},
		{"two fleets at services of their own", `clients:
  shop: {count: 10, rate: 120/s, calls: [{to: db}]}
  reports: {count: 10, rate: 10/s, calls: [{to: api, policy: db}]}
services:
  db: {workers: 2, queue: 10, time: 20ms}
  api: {workers: 50, time: 5ms}
`, "db gets 120 requests a second and can serve 100"},
		{"enough", `clients:
  shop: {count: 10, rate: 90/s, calls: [{to: db}]}
services:
  db: {workers: 2, queue: 10, time: 20ms}
`, ""},
		{"without bounds", `clients:
  shop: {count: 10, rate: 900/s, calls: [{to: db}]}
services:
  db: {time: 20ms}
`, ""},
		{"only in the trouble", `clients:
  shop: {count: 10, rate: 90/s, load: [{at: 20s, for: 10s, times: 3}], calls: [{to: db}]}
services:
  db: {workers: 2, queue: 10, time: 20ms}
`, ""},
		{"a step long after the start", `clients:
  shop: {count: 10, rate: 90/s, load: [{at: 50s, times: 2}], calls: [{to: db}]}
services:
  db: {workers: 2, queue: 10, time: 20ms}
`, ""},
		{"only in what is counted after a step", `clients:
  shop: {count: 10, rate: 90/s, load: [{at: 1s, times: 2}], calls: [{to: db}]}
services:
  db: {workers: 2, queue: 10, time: 20ms}
`, "can serve 100"},
		{"a worker who pauses half of the time", `clients:
  shop: {count: 10, rate: 60/s, calls: [{to: db}]}
services:
  db: {workers: 2, queue: 10, time: 20ms, pauses: {every: exp 100ms, for: 100ms}}
`, "db gets 60 requests a second and can serve 50"},
		{"what is behind a cache", `clients:
  shop: {count: 10, rate: 60/s, calls: [{to: api, policy: db, cache: {keys: 100}}]}
services:
  api: {workers: 50, time: 5ms, calls: [{to: db}]}
  db: {workers: 2, queue: 10, time: 1s}
`, ""},
		{"a limit is a capacity", `clients:
  shop: {count: 10, rate: 120/s, calls: [{to: db}]}
services:
  db: {time: 20ms, limit: {rate: 100/s}}
`, "db gets 120 requests a second and can serve 100"},
	} {
		t.Run(c.fact, func(t *testing.T) {
			got := study(t, head+c.text+tail, Options{Replications: 1, Alone: true}).Warnings
			switch {
			case c.want == "" && len(got) != 0:
				t.Errorf("it warns: %q", got)
			case c.want != "" && (len(got) != 1 || !strings.Contains(got[0], c.want) || !strings.Contains(got[0], "from the start")):
				t.Errorf("it says %q, and not %q", got, c.want)
			}
		})
	}
}

// What comes with gabion is about trouble, not about too little of everything.
func TestNoScenarioOfTheLibraryIsOverloadedFromTheStart(t *testing.T) {
	for _, name := range Names() {
		f, err := Open(name)
		if err != nil {
			t.Fatal(err)
		}
		w, err := f.world(&Policies{}, asItIs)
		if err != nil {
			t.Fatal(err)
		}
		w.means = f.means()
		if got := f.overloads(w); len(got) != 0 {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// A file that has only some of the dependencies that a scenario calls is taken, and what
// the scenario itself says of the others does not pass for what the file says.
func TestAFileThatLacksADependencyIsSaid(t *testing.T) {
	const text = "version: 1\ntitle: x\nduration: 10s\nclients:\n  shop: {count: 10, rate: 10/s, calls: [{to: db}, {to: api}]}\n" +
		"services:\n  db: {time: 20ms}\n  api: {time: 20ms}\npolicies:\n  db: {safe: true}\n  api: {safe: true}\n"
	for _, c := range []struct {
		fact, deps string
		as         map[string]string
		want       string
	}{
		{"all are there", "  db: {}\n  api: {}\n", nil, ""},
		{"one is not", "  db: {}\n", nil, "gabion.yaml has no dependency api, which goes by the policy that stands in x: --as api=NAME says which one is meant"},
		{"one is misspelled", "  db: {}\n  apis: {}\n", nil, "--as api=apis says which one is meant"},
		{"another name is given", "  db: {}\n  apis: {}\n", map[string]string{"api": "apis"}, ""},
	} {
		file, err := config.Parse("gabion.yaml", []byte("version: 1\ndependencies:\n"+c.deps))
		if err != nil {
			t.Fatal(err)
		}
		got := study(t, text, Options{Policies: Policies{File: file, As: c.as}, Replications: 1, Against: &Policies{Rival: "plain", File: file, As: c.as}}).Warnings
		switch {
		case c.want == "" && len(got) != 0:
			t.Errorf("%s: it warns: %q", c.fact, got)
		case c.want != "" && (len(got) != 1 || !strings.HasSuffix(got[0], c.want)):
			t.Errorf("%s: it says %q, and not %q", c.fact, got, c.want)
		}
	}
}

// Policies under against say what differs, and what they leave out is meant.
func TestARivalMayLeavePoliciesOut(t *testing.T) {
	s := study(t, "version: 1\ntitle: x\nduration: 10s\nclients:\n  shop: {count: 10, rate: 10/s, calls: [{to: db}, {to: api}]}\nservices:\n  db: {time: 20ms}\n  api: {time: 20ms}\n"+
		"policies:\n  db: {safe: true}\n  api: {safe: true}\nagainst:\n  db: {retry: off}\n", Options{Replications: 1})
	if len(s.Warnings) != 0 {
		t.Errorf("it warns: %q", s.Warnings)
	}
}

// Callers without a budget are told from those whose budget is used up, and callers
// without a breaker from those whose breaker stays closed.
func TestABudgetOrABreakerThatDoesNotExistIsSaid(t *testing.T) {
	text := "version: 1\ntitle: x\nduration: 10s\nclients:\n  shop: {count: 10, rate: 10/s, calls: [{to: db}, {to: api}]}\n" +
		"services:\n  db: {time: 20ms}\n  api: {time: 20ms}\npolicies:\n  db: {safe: true}\n  api: " + callOnly + "\n"
	s := study(t, text, Options{Replications: 1, Against: &Policies{Rival: "naive"}})
	for i, want := range [][]bool{{false, true}, {true, true}, {true, true}} {
		var budgets, breakers []bool
		for _, e := range s.Sides[i].Series.Edges {
			budgets, breakers = append(budgets, e.Unbudgeted), append(breakers, e.Unguarded)
		}
		if !slices.Equal(budgets, want) || !slices.Equal(breakers, want) {
			t.Errorf("%s: without a budget %v, without a breaker %v, want %v", s.Sides[i].Name, budgets, breakers, want)
		}
	}
}

// A side without a name has the scenario's name.
func TestASideOfTheScenariosOwnPoliciesHasItsName(t *testing.T) {
	s := study(t, "version: 1\ntitle: x\nduration: 10s\nclients:\n  shop: {count: 10, rate: 10/s, calls: [{to: db}]}\nservices:\n  db: {time: 20ms}\npolicies:\n  db: {safe: true, retry: {attempts: 2}}\n",
		Options{Replications: 2, Against: &Policies{Rival: "naive"}})
	if s.Sides[0].Name != s.Name {
		t.Errorf("it is called %q in the scenario %q", s.Sides[0].Name, s.Name)
	}
	f, err := Open("hedge-that-hurts")
	if err != nil {
		t.Fatal(err)
	}
	if rival := f.usualRival(&Policies{}); rival.Name != "its rival" {
		t.Errorf("the policies under against are called %q", rival.Name)
	}
}
