package config

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/facts"
	"github.com/gabion-go/gabion/internal/policyfile"
)

const serves = `version: 1
facts:
  service: vault
  stops_retries: true
  routes:
    POST /v1.2/charges: # money
      guarantee: hold
      store: records
      retention: 48h
      scope: tenant
      fail: open
      tags: [payment, eu]
      clients: {attempts: 4, horizon: 24h, server_errors: true}
    "POST /refunds": {key: none}
  stores:
    records: {kind: redis, maxmemory_policy: allkeys-lru, appendfsync: no, ring: true}
`

func TestFactsOfRoutesAndStoresAreRead(t *testing.T) {
	f, err := Parse("gabion.yaml", []byte(serves))
	if err != nil {
		t.Fatal(err)
	}
	want := facts.Program{Service: "vault", StopsRetries: true,
		Routes: map[string]facts.Route{
			"POST /v1.2/charges": {Guarantee: facts.GuaranteeHold, Store: "records", Retention: 48 * time.Hour, Scope: "tenant", Fail: facts.FailOpen,
				Tags: []string{"payment", "eu"}, Clients: facts.ClientFacts{Attempts: 4, Horizon: 24 * time.Hour, ServerErrors: true}},
			"POST /refunds": {Key: facts.KeyUseNone},
		},
		Stores: map[string]facts.Store{"records": {Kind: facts.StoreRedis, MaxmemoryPolicy: "allkeys-lru", Appendfsync: "no", Ring: true}},
	}
	if !reflect.DeepEqual(facts.Of(f).Program, want) {
		t.Errorf("%+v", facts.Of(f).Program)
	}
	for path, line := range map[string]int{
		"facts.routes.POST /v1.2/charges.retention":       9,
		"facts.routes.POST /v1.2/charges.clients.horizon": 13,
		"facts.routes.POST /v1.2/charges.lease":           6,
		"facts.routes.POST /refunds.guarantee":            14,
		"facts.stores.records.ring":                       16,
		"facts.deadline":                                  2,
	} {
		if got := (view{f}).Finding("", path, "", ""); got.Line != line {
			t.Errorf("%s: line %d, want %d", path, got.Line, line)
		}
	}
	if !(view{f}).Written("", "facts.routes.POST /v1.2/charges.clients") || (view{f}).Written("", "facts.routes.POST /refunds.store") {
		t.Error("what is written")
	}
}

func TestWrongFactsOfRoutesAreTold(t *testing.T) {
	for text, want := range map[string]string{
		"routes: {POST /a: {guarantee: holds}}":                    "did you mean hold?",
		"routes: {POST /a: {guarantee: once}}":                     "use one of tx, hold, reexecute",
		"routes: {POST /a: {retention: off}}":                      "leave the key out when nothing is known",
		"routes: {POST /a: {lease: 3}}":                            "has no unit",
		"routes: {POST /a: {clients: {attempts: 0}}}":              "routes.POST /a.clients.attempts",
		"routes: {POST /a: {leas: 3s}}":                            "did you mean lease?",
		"routes: {POST /a: {store: x}}\n  stores: {y: {}}":         `there is no store "x"`,
		"routes: {" + strings.Repeat("x", 61) + ": {key: none}}":   "is no name of a route",
		"routes: {\"\": {key: none}}":                              "is no name of a route",
		"stores: {s: {replicas: off}}":                             "leave the key out",
		"stores: {s: {kind: postgresql}}":                          "did you mean postgres?",
		"routes: {POST /a: {tags: payment}}":                       "write [payment]",
		"routes: [POST /a]":                                        "wants keys",
		"routes: {POST /a: {p999: -3s}}":                           "p999",
		"routes: {POST /a: {key: none}, POST /a: {key: required}}": "is there twice",
	} {
		_, err := Parse("gabion.yaml", []byte("version: 1\nfacts:\n  "+text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestAFactOfARouteIsEdited(t *testing.T) {
	for fact, c := range map[string]struct {
		change   policyfile.Change
		old, new string
	}{
		"a value":             {change("", "facts.routes.POST /v1.2/charges.retention", "72h"), "48h", "72h"},
		"a key of a block":    {change("", "facts.routes.POST /v1.2/charges.lease", "1m"), "clients: {attempts: 4, horizon: 24h, server_errors: true}\n", "clients: {attempts: 4, horizon: 24h, server_errors: true}\n      lease: 1m\n"},
		"what clients do":     {change("", "facts.routes.POST /v1.2/charges.clients.attempts", "2"), "attempts: 4", "attempts: 2"},
		"of a store":          {change("", "facts.stores.records.appendfsync", "always"), "appendfsync: no", "appendfsync: always"},
		"of the file":         {change("", "facts.service", "safe"), "service: vault", "service: safe"},
		"a key in braces":     {change("", "facts.routes.POST /refunds.guarantee", "tx"), "{key: none}", "{guarantee: tx, key: none}"},
		"a section in braces": {change("", "facts.routes.POST /refunds.clients.attempts", "2"), "{key: none}", "{clients: {attempts: 2}, key: none}"},
	} {
		t.Run(fact, func(t *testing.T) {
			got, err := edit("gabion.yaml", []byte(serves), []policyfile.Change{c.change})
			if err != nil {
				t.Fatal(err)
			}
			if want := strings.Replace(serves, c.old, c.new, 1); string(got) != want {
				t.Errorf("got\n%s", got)
			}
		})
	}
	for _, c := range []policyfile.Change{
		change("", "facts.routes.POST /v1.2/charges.guarantee", "holds"),
		change("", "facts.nonsense", "1"),
		change("", "retry.attempts", "2"),
	} {
		if got, err := edit("gabion.yaml", []byte(serves), []policyfile.Change{c}); err == nil {
			t.Errorf("%v: got\n%s", c, got)
		}
	}
}
