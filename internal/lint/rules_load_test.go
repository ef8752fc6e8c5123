package lint

import "testing"

func TestRulesOfBudgets(t *testing.T) {
	tryRule(t, "G012", []specimen{
		{"as much as it can", "{facts: {rate: 10/s, processes: 10, capacity: 100/s}}", "silent", ""},
		{"more", "{facts: {rate: 10.1/s, processes: 10, capacity: 100/s}}", "warning",
			"a: facts.rate 10.1/s × 10 processes = 101/s > facts.capacity 100/s: the dependency is overloaded when all is well"},
		{"a limit keeps them", "{rate_limit: {rate: 10/s}, facts: {rate: 50/s, processes: 10, capacity: 100/s}}", "silent", ""},
		{"not said", "{facts: {rate: 10/s, capacity: 100/s}}", "unknown facts.processes", ""},
	})
	tryRule(t, "G020", []specimen{
		{"off", "{retry: {budget: off}}", "warning", "a: retry.budget: off with 3 attempts (default): an outage gets up to 3 times the calls, until its breaker opens"},
		{"off in a fleet", "{retry: {budget: off}, facts: {rate: 5/s, processes: 1}}", "warning", "facts.rate 5/s × 1 process × 3 = 15/s instead of 5/s"},
		{"no breaker either", "{retry: {budget: off}, breaker: off}", "error", "and no breaker ends it"},
		{"one attempt", "{retry: {attempts: 1, budget: off}}", "silent", ""},
		{"on", "{}", "silent", ""},
	})
	tryRule(t, "G021", []specimen{
		{"earned", "{retry: {budget: {ratio: off}}}", "warning", "a: ratio: off earns nothing: after 1 re-sends that fail, a process never makes another, whatever 3 attempts (default) says"},
		{"tokens", "{retry: {budget: {shape: tokens, ratio: off}}}", "warning", "first 100"},
		{"a window has its floor", "{retry: {budget: {shape: window, ratio: off}}}", "silent", ""},
		{"without one", "{retry: {budget: {shape: window, ratio: off, floor: off}}}", "warning", ""},
		{"a share has a least", "{retry: {budget: {shape: share, ratio: off}}}", "silent", ""},
		{"the default", "{}", "silent", ""},
		{"no retry", "{retry: {attempts: 1, budget: {ratio: off}}}", "silent", ""},
	})
	tryRule(t, "G022", []specimen{
		{"a half", "{retry: {budget: {ratio: 50%}}}", "silent", ""},
		{"more", "{retry: {budget: {ratio: 51%}}}", "note", "a: ratio 51%: re-sends add up to 51%"},
		{"a share of those in flight", "{retry: {budget: {shape: share, ratio: 40%}}}", "note", "add up to 66.7%"},
		{"a quota by what it costs", "{retry: {budget: {shape: quota}}}", "silent", ""},
		{"none", "{retry: {budget: off}}", "silent", ""},
	})
	tryRule(t, "G023", []specimen{
		{"as much as it can", "{facts: {rate: 10/s, processes: 10, capacity: 130/s}}", "silent", ""},
		{"more", "{facts: {rate: 10/s, processes: 10, capacity: 129/s}}", "warning", "a: facts.rate 10/s × 10 processes × (1 + 0.3) = 130/s > facts.capacity 129/s: the budget adds up to 30%"},
		{"no budget", "{retry: {budget: off}, facts: {rate: 10/s, processes: 10, capacity: 299/s}}", "error", "3 attempts without a budget add up to 200%"},
		{"no budget, and room", "{retry: {budget: off}, facts: {rate: 10/s, processes: 10, capacity: 300/s}}", "silent", ""},
		{"too much without re-sends", "{facts: {rate: 10/s, processes: 10, capacity: 99/s}}", "silent", ""},
		{"no retry", "{retry: off, facts: {rate: 10/s, processes: 10, capacity: 101/s}}", "silent", ""},
		{"not said", "{facts: {rate: 10/s, processes: 10}}", "unknown facts.capacity", ""},
	})
	tryRule(t, "G024", []specimen{
		{"a second's worth", "{facts: {rate: 1/s, processes: 100, capacity: 200/s}}", "silent", ""},
		{"more", "{facts: {rate: 1/s, processes: 100, capacity: 199/s}}", "note",
			"a: 1 of retry.budget.reserve (default) × 100 processes = 100 re-sends at once: the spare capacity 99/s (facts.capacity 199/s - 100/s) needs 1.01s for them"},
		{"ten seconds' worth", "{facts: {rate: 1/s, processes: 100, capacity: 110/s}}", "note", ""},
		{"more than that", "{facts: {rate: 1/s, processes: 100, capacity: 109/s}}", "warning", ""},
		{"the start", "{retry: {budget: {start: 3}}, facts: {rate: 1/s, processes: 100, capacity: 200/s}}", "note", "3 of retry.budget.start ×"},
		{"a floor", "{retry: {budget: {floor: 1/s}}, facts: {rate: 1/s, processes: 100, capacity: 199/s}}", "warning",
			"a: floor 1/s × 100 processes = 100/s > spare capacity 99/s (facts.capacity 199/s - 100/s): in an outage the whole fleet retries at that rate"},
		{"a floor that fits", "{retry: {budget: {floor: 1/s}}, facts: {rate: 1/s, processes: 100, capacity: 200/s}}", "silent", ""},
		{"what is in flight", "{retry: {budget: {shape: share}}, facts: {rate: 1/s, processes: 100, capacity: 200/s}}", "note", "3 of retry.budget.min_in_flight (default) ×"},
		{"none", "{retry: {budget: off}, facts: {rate: 1/s, processes: 100, capacity: 114/s}}", "silent", ""},
		{"not said", "{facts: {rate: 10/s, processes: 10}}", "unknown facts.capacity", ""},
	})
	tryRule(t, "G049", []specimen{
		{"as much as it can", "{rate_limit: {rate: 10/s}, facts: {processes: 10, capacity: 100/s}}", "silent", ""},
		{"more", "{rate_limit: {rate: 10/s}, facts: {processes: 11, capacity: 100/s}}", "warning", "a: rate 10/s × 11 processes = 110/s > facts.capacity 100/s"},
		{"less than is needed", "{rate_limit: {rate: 9/s}, facts: {rate: 10/s, processes: 10, capacity: 100/s}}", "warning", "rate 9/s < facts.rate 10/s"},
		{"a burst", "{rate_limit: {rate: 1/s, burst: 101}, facts: {processes: 10, capacity: 100/s}}", "note", "burst 101 × 10 processes"},
		{"a wait beyond the call", "{rate_limit: {rate: 1/s, max_wait: 20s}, facts: {processes: 10, capacity: 100/s}}", "note", "max_wait 20s > call timeout 15s (default)"},
		{"none", "{facts: {processes: 10, capacity: 1/s}}", "silent", ""},
		{"not said", "{rate_limit: {rate: 1/s}, facts: {processes: 10}}", "unknown facts.capacity", ""},
	})
}

func TestRulesOfBulkheads(t *testing.T) {
	tryRule(t, "G026", []specimen{
		{"as many as there are", "{bulkhead: {limit: 20}, facts: {pool: 20}}", "silent", ""},
		{"one more", "{bulkhead: {limit: 21}, facts: {pool: 20}}", "warning",
			"a: bulkhead.limit 21 > facts.pool 20: up to 1 of them wait for a connection, where no queue timeout counts, and look like a slow dependency"},
		{"the default", "{facts: {pool: 20}}", "warning", "bulkhead.limit 100 (default) >"},
		{"none", "{bulkhead: off, facts: {pool: 20}}", "warning", "bulkhead: off > facts.pool 20: all others"},
		{"learned", "{bulkhead: {limit: learned}, facts: {pool: 20}}", "warning", "bulkhead.max 1000 (default)"},
		{"learned, within it", "{bulkhead: {limit: learned, max: 20}, facts: {pool: 20}}", "silent", ""},
		{"not said", "{}", "unknown facts.pool", ""},
	})
	tryRule(t, "G027", []specimen{
		{"as many as slots", "{bulkhead: {limit: 20}, facts: {idle_per_host: 20}}", "silent", ""},
		{"fewer", "{bulkhead: {limit: 21}, facts: {idle_per_host: 20}}", "note", "a: bulkhead.limit 21 > facts.idle_per_host 20: each"},
		{"as many as are out on average", "{facts: {idle_per_host: 2, rate: 50/s, p50: 40ms}}", "note", ""},
		{"fewer than are out on average", "{facts: {idle_per_host: 2, rate: 50/s, p50: 41ms}}", "warning", "facts.rate 50/s × facts.p50 41ms = 2.05 at once > facts.idle_per_host 2"},
		{"enough for the slow ones", "{facts: {idle_per_host: 5, rate: 50/s, p50: 41ms, p99: 100ms}}", "silent", ""},
		{"not for the slow ones", "{facts: {idle_per_host: 4, rate: 50/s, p50: 41ms, p99: 100ms}}", "note", ""},
		{"not said", "{}", "unknown facts.idle_per_host", ""},
	})
	tryRule(t, "G028", []specimen{
		{"the wait is the call", "{bulkhead: {queue_timeout: 15s}}", "warning", "a: queue_timeout 15s ≥ call timeout 15s (default)"},
		{"shorter", "{bulkhead: {queue_timeout: 14s}}", "silent", ""},
		{"the default is bounded by the call", "{timeout: {call: 500ms}}", "silent", ""},
		{"twenty times", "{bulkhead: {limit: 10, queue: 200}}", "silent", ""},
		{"more", "{bulkhead: {limit: 10, queue: 201}}", "note", "a: queue 201 is 20.1 times limit 10"},
		{"served in time", "{bulkhead: {limit: 10, queue: 100}, facts: {p50: 200ms}}", "silent", ""},
		{"not", "{bulkhead: {limit: 10, queue: 101}, facts: {p50: 200ms}}", "warning",
			"a: queue 101 behind 10 slots × facts.p50 200ms = 2.02s > queue_timeout 1s (default): all but the first 50 wait in vain"},
		{"no queue", "{bulkhead: {queue: off}}", "silent", ""},
		{"a limit that moves", "{bulkhead: {limit: learned}}", "silent", ""},
	})
	tryRule(t, "G029", []specimen{
		{"as many as are needed", "{bulkhead: {limit: 20}, facts: {rate: 200/s, p50: 100ms}}", "silent", ""},
		{"fewer", "{bulkhead: {limit: 19}, facts: {rate: 200/s, p50: 100ms}}", "warning",
			"a: facts.rate 200/s × facts.p50 100ms = 20 slots > bulkhead.limit 19: calls are refused when all is well"},
		{"when slow", "{bulkhead: {limit: 30}, facts: {rate: 200/s, p50: 100ms, p99: 200ms}}", "note", ""},
		{"with room", "{bulkhead: {limit: 40}, facts: {rate: 200/s, p50: 100ms, p99: 250ms}}", "silent", ""},
		{"none", "{bulkhead: off, facts: {rate: 200/s, p50: 100ms}}", "silent", ""},
		{"not said", "{facts: {rate: 200/s}}", "unknown facts.p50", ""},
	})
}

func TestRulesOfHedges(t *testing.T) {
	tryRule(t, "G039", []specimen{
		{"no budget", "{hedge: {max: 1}, retry: {budget: off}}", "warning", "a: hedge.max 1 and retry.budget: off: a dependency that becomes slow gets up to 2 times the calls"},
		{"a budget", "{hedge: {max: 1}}", "silent", ""},
		{"no hedge", "{retry: {budget: off}}", "silent", ""},
	})
	tryRule(t, "G040", []specimen{
		{"a tenth", "{hedge: {max: 1, percentile: 90%}}", "silent", ""},
		{"more", "{hedge: {max: 1, percentile: 89%}}", "warning", "a: percentile 89%: 11% of the calls are sent more than once"},
		{"all at once", "{hedge: {max: 2, percentile: off}}", "warning", "each call is sent 3 times at once"},
		{"never", "{hedge: {max: 1, delay: 4s}}", "note", "a: delay 4s ≥ timeout.attempt 4s (default)"},
		{"in time", "{hedge: {max: 1, delay: 3s}}", "silent", ""},
		{"at once, nearly", "{hedge: {max: 3, delay: 1ms}}", "warning", "a: delay 1ms, where an attempt may take 4s (default): unless nearly all answers come within it, each call is sent 4 times"},
		{"soon", "{hedge: {max: 3, delay: 5ms}}", "silent", ""},
		{"soon for quick calls", "{hedge: {max: 3, delay: 1ms}, timeout: {attempt: 100ms}}", "silent", ""},
		{"after failures only", "{hedge: {max: 1, delay: off}}", "silent", ""},
	})
	tryRule(t, "G041", []specimen{
		{"writes", "{key: required, hedge: {max: 1}, facts: {writes: true}}", "warning", "the same write is out twice at once"},
		{"reads", "{hedge: {max: 1}, facts: {writes: false}}", "silent", ""},
		{"no hedge", "{facts: {writes: true}}", "silent", ""},
		{"not said", "{hedge: {max: 1}}", "unknown facts.writes", ""},
	})
	tryRule(t, "G042", []specimen{
		{"the median", "{hedge: {max: 1, delay: 20ms}, facts: {p50: 20ms}}", "silent", ""},
		{"less", "{hedge: {max: 1, delay: 19ms}, facts: {p50: 20ms}}", "warning", "a: delay 19ms < facts.p50 20ms"},
		{"measured", "{hedge: {max: 1}, facts: {p50: 20ms}}", "silent", ""},
		{"not said", "{hedge: {max: 1, delay: 19ms}}", "unknown facts.p50", ""},
	})
}

func TestRulesOfLayers(t *testing.T) {
	tryRule(t, "G043", []specimen{
		{"one", "{facts: {inner: 1}}", "silent", ""},
		{"two", "{facts: {inner: 2}}", "warning", "a: 3 attempts (default) × 2 of the client below = 6 of one call"},
		{"nine", "{facts: {inner: 3}}", "warning", ""},
		{"ten", "{retry: {attempts: 5}, facts: {inner: 2}}", "error", ""},
		{"its own are off", "{retry: off, facts: {inner: 20}}", "note", ""},
		{"not said", "{}", "unknown facts.inner", ""},
	})
	tryRule(t, "G044", []specimen{
		{"one", "{facts: {mesh: {attempts: 1}}}", "silent", ""},
		{"three", "{facts: {mesh: {attempts: 3}}}", "warning", "a: 3 attempts (default) × 3 of the mesh = 9 of one call"},
		{"not said", "{facts: {mesh: {timeout: 1s}}}", "unknown facts.mesh.attempts", ""},
	})
	tryRule(t, "G046", []specimen{
		{"the same", "{facts: {mesh: {timeout: 4s}}}", "warning", "a: facts.mesh.timeout 4s ≤ timeout.attempt 4s (default)"},
		{"longer", "{facts: {mesh: {timeout: 4001ms}}}", "silent", ""},
		{"no timeout", "{timeout: {attempt: off}, facts: {mesh: {timeout: 1s}}}", "silent", ""},
		{"not said", "{}", "unknown facts.mesh.timeout", ""},
	})
	tryRule(t, "G047", []specimen{
		{"there is one", "{facts: {fallback: true}}", "note", "the fallback gets all calls at once"},
		{"its load", "{facts: {fallback: true, rate: 3/s, processes: 2}}", "note", "the fallback gets 6/s at once"},
		{"no fallback", "{facts: {fallback: false}}", "silent", ""},
		{"not said", "{}", "unknown facts.fallback", ""},
	})
}
