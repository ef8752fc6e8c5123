package scenario

import (
	"errors"
	"strings"
	"testing"
)

func TestWhatIsWrongWithFleets(t *testing.T) {
	text, err := Text("fleet-store-outage")
	if err != nil {
		t.Fatal(err)
	}
	const clients, fault = "    store: {network: exp 1ms}\n", "{kind: store_down, clients: shop, at: 45s, for: 1m}"
	for _, c := range []struct{ fact, from, to, says string }{
		{"no network", clients, "    store: {lease: 10s}\n", "store.network is missing"},
		{"a lease too short", clients, "    store: {network: exp 1ms, lease: 100ms}\n", "no lease of less than a second"},
		{"nothing to share", "fleet: {rate: true}\nagainst", "breaker: off\nagainst", "store means nothing while no policy of its calls shares"},
		{"an outage of no store", clients, "", "store_down means nothing for shop"},
		{"an outage of a service's store", fault, "{kind: store_down, clients: shop, service: api, at: 45s, for: 1m}", "service means nothing for store_down"},
		{"an outage of whose store", fault, "{kind: store_down, at: 45s, for: 1m}", "store_down needs it"},
		{"a greedy one alone", "count: 10", "count: 1\n    greedy: 40%", "greedy means nothing for one client"},
		{"all are poisoned", fault, "{kind: down, service: api, callers: 10, at: 45s, for: 1m}", "no 11 clients that are alike call api"},
		{"capacity is of all callers", fault, "{kind: brown_out, service: api, callers: 1, factor: 0.5, at: 45s, for: 1m}", "callers means nothing for brown_out"},
		{"more restart than there are", fault, "{kind: restart_clients, clients: shop, replicas: 11, at: 45s}", "there are 10 of shop, not 11"},
		{"greedy consumers", clients, "    greedy: 40%\n    queue: {workers: 3, plain: true}\n", "greedy means nothing for consumers"},
		{"consumers", clients, clients + "    queue: {workers: 3, plain: true}\n", "store means nothing for consumers"},
	} {
		from := strings.Replace(c.from, "\nagainst", "", 1)
		if !strings.Contains(string(text), from) {
			t.Fatalf("%s: the scenario does not say %q", c.fact, from)
		}
		_, err := Parse("x.yaml", []byte(strings.Replace(string(text), from, strings.Replace(c.to, "\nagainst", "", 1), 1)))
		var found Findings
		if !errors.As(err, &found) || !strings.Contains(found.Error(), c.says) {
			t.Errorf("%s: %v, want %s", c.fact, err, c.says)
		} else if found[0].Line == 0 {
			t.Errorf("%s: no line", c.fact)
		}
	}
}

// What the stories of the library say of fleets, in one run of each: in the trouble and over all of it. Where nearly all of a limit of
// 200 in each second is used, calls that come unevenly are over it in some.
func TestFleetsOfTheLibrary(t *testing.T) {
	if testing.Short() {
		t.Skip("long: three runs of some two minutes")
	}
	for name, least := range map[string]float64{"fleet-shares": 0.75, "fleet-store-outage": 0.9, "fleet-rolling-deploy": 0.85} {
		text, err := Text(name)
		if err != nil {
			t.Fatal(err)
		}
		of := figures(t, string(text), 1)
		t.Logf("%s: %.1f %% of the limit in the trouble, %.2f %% of the requests over it, %.1f %% answered", name, 100*of("quota", "api"), 100*of("over_quota", "api"), 100*of("goodput", ""))
		if of("quota", "api") < least || of("over_quota", "api") > 0.015 {
			t.Errorf("%s: %.3f of the limit is used, and %.4f of the requests are over it", name, of("quota", "api"), of("over_quota", "api"))
		}
	}
}
