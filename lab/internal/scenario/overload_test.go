package scenario

import (
	"slices"
	"strings"
	"testing"
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

// A side of which nobody typed a name is called as the scenario is.
func TestASideOfTheScenariosOwnPoliciesHasItsName(t *testing.T) {
	s := study(t, "version: 1\ntitle: x\nduration: 10s\nclients:\n  shop: {count: 10, rate: 10/s, calls: [{to: db}]}\nservices:\n  db: {time: 20ms}\npolicies:\n  db: {safe: true, retry: {attempts: 2}}\n",
		Options{Replications: 2, Against: &Policies{Rival: "naive"}})
	if s.Sides[0].Name != s.Name {
		t.Errorf("it is called %q in the scenario %q", s.Sides[0].Name, s.Name)
	}
}
