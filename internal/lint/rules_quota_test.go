package lint

import "testing"

func TestRulesOfQuotas(t *testing.T) {
	tryRule(t, "G065", []specimen{
		{"more than it says", "{rate_limit: {quotas: [200000 tokens/1m estimate 900 among 10]}, facts: {processes: 25}}", "warning", "a: among 10, and facts.processes 25: together they use 250% of the tokens"},
		{"fewer than it says", "{rate_limit: {quotas: [200000 tokens/1m estimate 900 among 10]}, facts: {processes: 5}}", "note", "a: among 10, and facts.processes 5: 50% of the tokens are never used"},
		{"as many", "{rate_limit: {quotas: [200000 tokens/1m estimate 900 among 10]}, facts: {processes: 10}}", "silent", ""},
		{"not said", "{rate_limit: {quotas: [200000 tokens/1m estimate 900 among 10]}}", "unknown facts.processes", ""},
		{"not shared by agreement", "{rate_limit: {quotas: [200000 tokens/1m estimate 900]}, facts: {processes: 25}}", "silent", ""},
	})
	tryRule(t, "G066", []specimen{
		{"six an hour", "{rate_limit: {quotas: [6 requests/1h]}}", "note", "a: what one attempt uses of requests comes back in 10m > timeout.call 15s (default): most calls"},
		{"a window that is longer than a call", "{rate_limit: {quotas: [500 requests/1m window]}}", "note", "a: requests come back at the end of 1m > timeout.call 15s (default)"},
		{"a wait that is bounded", "{timeout: {call: 2m}, rate_limit: {max_wait: 5s, quotas: [500 requests/1m window]}}", "note", "> rate_limit.max_wait 5s"},
		{"a call that waits for the window", "{timeout: {call: 2m}, rate_limit: {quotas: [500 requests/1m window]}}", "silent", ""},
		{"that comes back steadily", "{rate_limit: {quotas: [500 requests/1m]}}", "silent", ""},
		{"a budget of a day", "{rate_limit: {quotas: [25 usd/24h estimate 0.01 window]}}", "silent", ""},
		{"who never waits says so", "{rate_limit: {max_wait: off, quotas: [500 requests/1m window]}}", "silent", ""},
	})
}

func TestRulesOfEndpoints(t *testing.T) {
	tryRule(t, "G067", []specimen{
		{"one attempt", "{endpoints: {list: [eu, us]}, retry: off}", "warning", "a: 2 endpoints, and one attempt: a call that fails at one of them fails"},
		{"a hedge is a second one", "{endpoints: {list: [eu, us]}, retry: off, safe: true, hedge: {max: 1}}", "silent", ""},
		{"the default", "{endpoints: {list: [eu, us]}}", "silent", ""},
		{"no endpoints", "{retry: off}", "silent", ""},
	})
	tryRule(t, "G068", []specimen{
		{"one", "{endpoints: {list: [eu]}}", "note", "a: eu is the only endpoint"},
		{"two", "{endpoints: {list: [eu, us]}}", "silent", ""},
		{"none", "{}", "silent", ""},
	})
	tryRule(t, "G069", []specimen{
		{"keys that are made", "{endpoints: {list: [eu, us]}, key: made, hedge: {max: 1}}", "note", "a: calls have keys that the endpoints do not share: a hedge goes to the endpoint that is slow"},
		{"keys that are required", "{endpoints: {list: [eu, us]}, key: required, hedge: {max: 1}}", "note", ""},
		{"keys that are shared", "{endpoints: {list: [eu, us], shared_keys: true}, key: made, hedge: {max: 1}}", "silent", ""},
		{"no keys", "{endpoints: {list: [eu, us]}, safe: true, hedge: {max: 1}}", "silent", ""},
		{"no hedges", "{endpoints: {list: [eu, us]}, key: made}", "silent", ""},
	})
}
