package lint

import (
	"fmt"
	"testing"
)

func TestRoutes(t *testing.T) {
	one := func(route string) string {
		return "version: 1\nfacts: {service: vault, routes: {POST /charges: {" + route + "}}}\n"
	}
	called := func(route, dep string) string {
		return "# file: vault.yaml\n" + one(route) + "# file: shop.yaml\nversion: 1\nfacts: {service: shop}\ndependencies: {vault: {" + dep + "}}\n"
	}
	get := "version: 1\nfacts: {routes: {GET /charges: {key: none, clients: {attempts: 3}}}}\n"
	for _, c := range []graphCase{
		{"kept as long as they come again", "G050", one("guarantee: hold, retention: 24h, clients: {horizon: 24h}"), nil, ""},
		{"they come again a second later", "G050", one("guarantee: hold, retention: 24h, clients: {horizon: 86401s}"), []string{"G050 warning gabion.yaml:2 POST /charges: retention 24h < 24h0m1s"}, ""},
		{"the default", "G050", one("guarantee: hold, clients: {horizon: 25h}"), []string{"retention 24h (the default) < 25h"}, ""},
		{"it is not said how long they come", "G050", one("guarantee: hold"), nil, "facts.routes.POST /charges.clients.horizon"},
		{"a call of gabion lasts longer", "G050", called("guarantee: hold, retention: 10s", "timeout: {call: 15s}"), []string{"retention 10s < 15s, for which shop may repeat"}, ""},
		{"a call of gabion ends before", "G050", called("guarantee: hold, retention: 15s", "timeout: {call: 15s}"), nil, ""},
		{"a call that is not repeated", "G050", called("guarantee: hold, retention: 10s", "retry: {attempts: 1}"), nil, "facts.routes.POST /charges.clients.horizon"},
		{"calls that only read", "G050", called("guarantee: hold, retention: 10s", "safe: true"), nil, "facts.routes.POST /charges.clients.horizon"},
		{"a queue delivers again, who knows for how long", "G050", called("guarantee: hold", "facts: {queue: true}"), nil, "facts.horizon"},
		{"a queue delivers again for two weeks", "G050", called("guarantee: hold", "facts: {queue: true, horizon: 336h}"), []string{"retention 24h (the default) < 336h, for which shop"}, ""},
		{"no end is known", "G050", called("guarantee: hold", "timeout: {call: off, attempt: 1s}"), nil, "facts.horizon"},
		{"a route without keys", "G050", one("key: none, retention: 1s, clients: {horizon: 25h}"), nil, ""},

		{"a lease that is as long as the work", "G051", one("guarantee: hold, no_heartbeat: true, lease: 30s, p999: 30s"), nil, ""},
		{"a lease that is shorter", "G051", one("guarantee: hold, no_heartbeat: true, p999: 30001ms"), []string{"lease 30s (the default) < 30.001s"}, ""},
		{"a lease that is extended", "G051", one("guarantee: hold, lease: 1s, p999: 30s"), nil, ""},
		{"a transaction has none", "G051", one("guarantee: tx, no_heartbeat: true, lease: 1s, p999: 30s"), nil, ""},
		{"cancelled before it ends", "G051", one("guarantee: hold, p999: 301s"), []string{"max_execution 5m (the default) < 5m1s"}, ""},
		{"just ends", "G051", one("guarantee: hold, p999: 300s"), nil, ""},
		{"it is not said how long it takes", "G051", one("guarantee: hold"), nil, "facts.routes.POST /charges.p999"},

		{"no key", "G052", one("key: none, clients: {attempts: 2}"), []string{"clients make up to 2 attempts, and it takes no key"}, ""},
		{"an optional key", "G052", one("key: optional, guarantee: hold, clients: {attempts: 2}"), []string{"and a key is optional"}, ""},
		{"nothing is said of a key", "G052", one("clients: {attempts: 2}"), []string{"and the file says nothing of a key"}, ""},
		{"no retries", "G052", one("key: none, clients: {attempts: 1}"), nil, ""},
		{"a required key", "G052", one("guarantee: hold, clients: {attempts: 2}"), nil, ""},
		{"nothing is known of clients", "G052", one("key: none"), nil, "facts.routes.POST /charges.clients.attempts"},
		{"gabion sends keys, and they are ignored", "G052", called("key: none", "key: made"), []string{"shop repeats requests, since they have a key (key: made), and it takes no key"}, ""},
		{"gabion sends keys, and they are taken", "G052", called("key: optional, guarantee: hold", "key: made"), nil, ""},
		{"gabion does not repeat without a key", "G052", called("key: none", ""), nil, ""},
		{"a GET", "G052", get, nil, ""},

		{"a guarantee that is not said", "G053", one("store: x"), []string{"G053 warning"}, ""},
		{"a guarantee that is said", "G053", one("guarantee: hold"), nil, ""},
		{"a route without keys says none", "G053", one("key: none"), nil, ""},
		{"global", "G054", one("scope: global"), []string{"the scope of keys is global"}, ""},
		{"the word of package idempotency", "G054", one("scope: '*'"), []string{"the scope of keys is *"}, ""},
		{"a tenant", "G054", one("scope: tenant"), nil, ""},
		{"a scope that is not said", "G054", one("guarantee: hold"), nil, "facts.routes.POST /charges.scope"},
		{"streams", "G059", one("guarantee: hold, streaming: true"), []string{"G059 warning"}, ""},
		{"streams without keys", "G059", one("key: none, streaming: true"), nil, ""},
		{"compressed inside", "G060", one("guarantee: hold, compression: inside"), []string{"G060 warning"}, ""},
		{"compressed outside", "G060", one("guarantee: hold, compression: outside"), nil, ""},
		{"5xx again under hold", "G061", one("guarantee: hold, clients: {server_errors: true}"), []string{"G061 warning"}, ""},
		{"5xx again under hold that is not said", "G061", one("scope: tenant, clients: {server_errors: true}"), []string{"G061 warning"}, ""},
		{"5xx again under tx", "G061", one("guarantee: tx, clients: {server_errors: true}"), nil, ""},
		{"a payment fails open", "G062", one("fail: open, tags: [eu, Payments]"), []string{"G062 error gabion.yaml:2 POST /charges: tagged Payments"}, ""},
		{"a counter fails open", "G062", one("fail: open, tags: [counter]"), nil, ""},
		{"a payment fails closed", "G062", one("fail: closed, tags: [payment]"), nil, ""},
	} {
		t.Run(c.rule+" "+c.fact, c.check)
	}
}

func TestStores(t *testing.T) {
	store := func(text string) string {
		return "version: 1\nfacts: {service: vault, processes: 2, stores: {records: {" + text + "}}}\n"
	}
	for _, c := range []graphCase{
		{"evicts", "G055", store("maxmemory_policy: volatile-ttl"), []string{"maxmemory_policy is volatile-ttl"}, ""},
		{"evicts nothing", "G055", store("kind: redis, maxmemory_policy: noeviction"), nil, ""},
		{"not said", "G055", store("kind: redis"), nil, "facts.stores.records.maxmemory_policy"},
		{"no Redis", "G055", store("kind: postgres"), nil, ""},
		{"every second", "G056", store("kind: redis, appendfsync: everysec"), []string{"appendfsync is everysec"}, ""},
		{"always", "G056", store("kind: redis, appendfsync: always"), nil, ""},
		{"no file at all", "G056", store("kind: redis, appendonly: no, appendfsync: always"), []string{"no append-only file"}, ""},
		{"not said when it syncs", "G056", store("kind: redis"), nil, "facts.stores.records.appendfsync"},
		{"a ring", "G057", store("ring: true"), []string{"G057 warning"}, ""},
		{"two minutes", "G058", store("kind: nats, sync_interval: 2m, replicas: 3"), []string{"sync_interval is 2m"}, ""},
		{"one replica", "G058", store("sync_interval: always, replicas: 1"), []string{"replicas: 1"}, ""},
		{"three replicas that sync", "G058", store("kind: nats, sync_interval: always, replicas: 3"), nil, ""},
		{"not said how many replicas", "G058", store("kind: nats, sync_interval: always"), nil, "facts.stores.records.replicas"},
		{"memory of two processes", "G063", store("kind: memory"), []string{"vault has 2 processes"}, ""},
		{"shared by two processes", "G063", store("kind: mysql"), nil, ""},
		{"memory of an unknown number", "G063", "version: 1\nfacts: {stores: {records: {kind: bolt}}}\n", nil, "facts.processes"},
		{"memory of one process", "G063", "version: 1\nfacts: {processes: 1, stores: {records: {kind: bolt}}}\n", nil, ""},
	} {
		t.Run(fmt.Sprint(c.rule, " ", c.fact), c.check)
	}
}
