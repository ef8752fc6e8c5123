package lint

import "testing"

func TestRulesOfKeys(t *testing.T) {
	tryRule(t, "G001", []specimen{
		{"safe writes without a key", "{safe: true, facts: {writes: true}}", "error",
			"a: safe: true lets gabion repeat all calls, and facts.writes says that they change something: a call without a key whose answer is lost may be carried out 3 times"},
		{"a hedge alone repeats", "{safe: true, retry: off, hedge: {max: 1}, facts: {writes: true}}", "error", "carried out twice"},
		{"one attempt", "{safe: true, retry: off, facts: {writes: true}}", "silent", ""},
		{"keys are required", "{safe: true, key: required, facts: {writes: true}}", "silent", ""},
		{"nothing is declared safe", "{facts: {writes: true}}", "silent", ""},
		{"calls only read", "{safe: true, facts: {writes: false}}", "silent", ""},
		{"it is not said whether they write", "{safe: true}", "unknown facts.writes", ""},
		{"it is not said, and does not matter", "{}", "silent", ""},
	})
	tryRule(t, "G002", []specimen{
		{"writes without keys", "{facts: {writes: true}}", "note", "whatever 3 attempts (default) says"},
		{"attempts are written", "{retry: {attempts: 4}, facts: {writes: true}}", "note", "whatever 4 attempts says"},
		{"one attempt is all that is promised", "{retry: off, facts: {writes: true}}", "silent", ""},
		{"keys are required", "{key: required, facts: {writes: true}}", "silent", ""},
		{"reads", "{facts: {writes: false}}", "silent", ""},
		{"not said", "{}", "unknown facts.writes", ""},
	})
	tryRule(t, "G005", []specimen{
		{"a client's mistake", "{http: {transient: [400]}}", "warning", "a: 400 will be the answer to each of 3 attempts (default), and each counts as a failure for the breaker"},
		{"not implemented", "{http: {transient: [501, 505]}}", "warning", "501, 505 will be"},
		{"those that pass", "{http: {transient: [408, 425, 429]}}", "silent", ""},
		{"a server's failure", "{http: {transient: [500, 520]}}", "silent", ""},
		{"another request holds it", "{http: {transient: [409]}}", "note", "409 is retried"},
		{"a mistake in gRPC", "{grpc: {transient: [NOT_FOUND, RESOURCE_EXHAUSTED]}}", "warning", "a: NOT_FOUND will be"},
		{"those of gRPC that pass", "{grpc: {transient: [RESOURCE_EXHAUSTED, INTERNAL]}}", "silent", ""},
		{"nothing is retried", "{retry: off, http: {transient: [400]}}", "silent", ""},
	})
	tryRule(t, "G045", []specimen{
		{"a full server, and a limit", "{http: {permanent: [503, 429]}}", "warning", "a: an answer of 503 or 429 ends a call at once: a restart or a limit that is over in a second fails calls that the next of 3 attempts (default) would save"},
		{"one of gRPC", "{grpc: {permanent: [UNAVAILABLE, INTERNAL]}}", "warning", "a: an answer of UNAVAILABLE ends"},
		{"those that stay", "{http: {permanent: [500, 501]}, grpc: {permanent: [INTERNAL]}}", "silent", ""},
		{"nothing is retried", "{retry: off, http: {permanent: [503]}}", "silent", ""},
	})
	tryRule(t, "G037", []specimen{
		{"as long as the call", "{key: required, timeout: {call: 15s}, facts: {key_retention: 15s}}", "error", "a: timeout.call 15s ≥ facts.key_retention 15s: an attempt"},
		{"longer than the call", "{key: required, timeout: {call: 15s}, facts: {key_retention: 15001ms}}", "silent", ""},
		{"keys are possible", "{facts: {key_retention: 10s}}", "warning", "timeout.call 15s (default) ≥"},
		{"without a timeout the attempts count", "{key: made, timeout: {call: off}, facts: {key_retention: 15s}}", "error", "the longest call, 15s ≥"},
		{"and are longer than it", "{key: made, timeout: {call: off}, facts: {key_retention: 16s}}", "silent", ""},
		{"nothing ends the call", "{key: made, timeout: {call: off, attempt: off}, facts: {key_retention: 24h}}", "error", "without end"},
		{"nothing is repeated", "{key: required, retry: off, facts: {key_retention: 1s}}", "silent", ""},
		{"not said", "{key: required}", "unknown facts.key_retention", ""},
	})
	tryRule(t, "G038", []specimen{
		{"a queue delivers twice", "{key: made, facts: {writes: true, queue: true}}", "warning", ""},
		{"a caller may try again", "{key: made, facts: {writes: true}}", "note", ""},
		{"reads", "{key: made, facts: {writes: false}}", "silent", ""},
		{"the caller's key", "{key: required, facts: {writes: true}}", "silent", ""},
		{"not said", "{key: made}", "unknown facts.writes", ""},
	})
}

func TestRulesOfRetries(t *testing.T) {
	tryRule(t, "G003", []specimen{
		{"exponential", "{retry: {backoff: {kind: exponential}}}", "warning",
			"a: retry.backoff.kind: exponential has no jitter: all calls that fail in one moment come back in one moment, 1s later"},
		{"linear", "{retry: {backoff: {kind: linear, base: 2s}}}", "warning", "2s later"},
		{"constant", "{retry: {backoff: {kind: constant}}}", "warning", ""},
		{"equal is half", "{retry: {backoff: {kind: equal}}}", "silent", ""},
		{"decorrelated", "{retry: {backoff: {kind: decorrelated}}}", "silent", ""},
		{"no retry", "{retry: {attempts: 1, backoff: {kind: constant}}}", "silent", ""},
		{"no wait has none either", "{retry: {backoff: {kind: constant, base: off}}}", "silent", ""},
		{"of conflicts", "{retry: {contention: {backoff: {kind: constant}}}}", "warning", "retry.contention.backoff.kind: constant"},
		{"of no conflicts", "{retry: {contention: {attempts: 1, backoff: {kind: constant}}}}", "silent", ""},
	})
	tryRule(t, "G004", []specimen{
		{"off", "{retry: {backoff: off}}", "warning", "a: 3 attempts (default) are made one after the other without a wait: an outage of a second meets them all"},
		{"less than a millisecond", "{retry: {backoff: {base: 999us}}}", "warning", "after 999µs"},
		{"a millisecond, and then until the dependency is back", "{retry: {backoff: {base: 1ms}}}", "silent", ""},
		{"a few milliseconds and nothing else", "{retry: {hold: off, backoff: {base: 16ms}}}", "note", "a: all waits of 3 attempts (default) together are at most 48ms, and retry.hold: off"},
		{"longer than a blip", "{retry: {hold: off, backoff: {base: 17ms}}}", "silent", ""},
		{"the default", "{}", "silent", ""},
		{"no retry", "{retry: {attempts: 1, backoff: off}}", "silent", ""},
	})
	tryRule(t, "G006", []specimen{
		{"six", "{retry: {attempts: 6, budget: off}}", "silent", ""},
		{"seven without a budget", "{retry: {attempts: 7, budget: off}}", "warning", "a: 7 attempts without a budget are up to 7 times the calls in an outage"},
		{"seven with one", "{retry: {attempts: 7}}", "note", "the budget lets 0.3 re-sends a call through"},
		{"fifteen", "{retry: {attempts: 15, budget: off}}", "warning", ""},
		{"sixteen", "{retry: {attempts: 16, budget: off}}", "error", ""},
		{"from a queue", "{retry: {attempts: 16, budget: off}, facts: {queue: true}}", "silent", ""},
		{"a call without a waiting user", "{timeout: {call: 2m}, retry: {attempts: 16, budget: off}}", "silent", ""},
		{"a call with a waiting user", "{timeout: {call: 119s}, retry: {attempts: 16, budget: off}}", "error", ""},
		{"a long call with a waiting user", "{timeout: {call: 5m}, retry: {attempts: 7}, facts: {queue: false}}", "note", ""},
	})
	tryRule(t, "G010", []specimen{
		{"the sum is the call", "{timeout: {call: 9s, attempt: 2s}}", "silent", ""},
		{"the sum is more", "{timeout: {call: 8999ms, attempt: 2s}}", "note",
			"a: 3 attempts (default) × 2s + waits of up to 3s = 9s > call timeout 8.999s: if each runs into its timeout, only 2 of 3 are sure to get their time"},
		{"the default does not say more than it does", "{timeout: {call: 1s}}", "note",
			"a: the usual waits between 3 attempts (default) are 1.5s together > call timeout 1s: even if each fails at once, most calls do not make attempt 3"},
		{"who asks for it does", "{timeout: {call: 1s}, retry: {attempts: 3}}", "warning", ""},
		{"several are not made", "{timeout: {call: 5s}, retry: {attempts: 8}}", "warning", "attempt 5 to 8"},
		{"the waits fit, with the margin", "{timeout: {call: 1550ms, attempt: 1550ms}, retry: {attempts: 3}}", "silent", ""},
		{"and do not", "{timeout: {call: 1549ms, attempt: 1549ms}, retry: {attempts: 3}}", "warning",
			"a: the usual waits between 3 attempts are 1.5s together, with timeout.margin 50ms (default) > call timeout 1.549s: even if each fails at once, most calls do not make attempt 3"},
		{"a margin that takes the call", "{timeout: {call: 15s, attempt: 1s, margin: 14s}, retry: {attempts: 3}}", "warning",
			"a: the usual waits between 3 attempts are 1.5s together, with timeout.margin 14s > call timeout 15s: an attempt that would have less time than the margin is not made, so most calls do not make attempt 3"},
		{"a margin that takes what the waits leave", "{timeout: {call: 1s, margin: 900ms}, retry: {attempts: 3}}", "warning", "with timeout.margin 900ms > call timeout 1s: an attempt that would have less time"},
		{"a margin that is longer than what is left", "{timeout: {call: 9s, attempt: 2s, margin: 2001ms}}", "note",
			"a: 2 × 2s + waits of up to 3s leave 2s of call timeout 9s < timeout.margin 2.001s: if each runs into its timeout, the last of 3 attempts (default) is not made"},
		{"and one that is as long", "{timeout: {call: 9s, attempt: 2s, margin: 2s}}", "silent", ""},
		{"one attempt", "{timeout: {call: 1s}, retry: off}", "silent", ""},
		{"no end", "{timeout: {call: off}}", "silent", ""},
		{"what could not be had", "{timeout: {call: 10s, attempt: off}}", "silent", ""},
	})
	tryRule(t, "G011", []specimen{
		{"twenty", "{retry: {attempts: 5}, facts: {inner: 4}}", "silent", ""},
		{"twenty-one", "{retry: {attempts: 7}, facts: {inner: 3}}", "note", "a: one call can become 21 attempts (7 × 3 of the client below × 1 of the mesh), and take 15s"},
		{"hedges too", "{hedge: {max: 2}, retry: {attempts: 5}, facts: {mesh: {attempts: 3}}}", "note", "21 attempts (7 × 1 of the client below × 3"},
		{"ten minutes", "{timeout: {call: 10m}, facts: {queue: false}}", "silent", ""},
		{"more", "{timeout: {call: 10m1s}, facts: {queue: false}}", "note", "take 10m1s"},
		{"in a queue", "{timeout: {call: 11m}, retry: {attempts: 30}}", "silent", ""},
	})
	tryRule(t, "G033", []specimen{
		{"the waits are the blip", "{retry: {hold: off}, facts: {blip: 1500ms}}", "silent", ""},
		{"the usual ones are shorter", "{retry: {hold: off}, facts: {blip: 3s}}", "note", "up to 3s after the first failed, and usually 1.5s < facts.blip 3s"},
		{"the longest ones are shorter", "{retry: {hold: off}, facts: {blip: 3001ms}}", "warning",
			"a: the last of 3 attempts (default) begins up to 3s after the first failed < facts.blip 3.001s: every attempt of a call that meets its beginning lands inside"},
		{"a held retry bridges more", "{facts: {blip: 14950ms}}", "silent", ""},
		{"but no more than the call has", "{facts: {blip: 14951ms}}", "warning", "up to 14.95s after"},
		{"without a breaker nothing is held", "{breaker: off, facts: {blip: 5s}}", "warning", ""},
		{"without other calls nothing is held", "{facts: {blip: 5s, rate: 0.3/s}}", "warning", ""},
		{"with others it is", "{facts: {blip: 5s, rate: 1/s}}", "silent", ""},
		{"one attempt", "{retry: off, facts: {blip: 1s}}", "warning", "one attempt is all that a call makes < facts.blip 1s"},
		{"not said", "{}", "unknown facts.blip", ""},
	})
	tryRule(t, "G034", []specimen{
		{"twice the call", "{retry: {backoff: {cap: 20s}}, timeout: {call: 10s}}", "silent", ""},
		{"more", "{retry: {backoff: {cap: 20001ms}}, timeout: {call: 10s}}", "note",
			"a: cap 20.001s > call timeout 10s: no wait can be so long; the longest between 3 attempts (default) is 2s"},
		{"the default", "{timeout: {call: 1s}}", "silent", ""},
		{"no end", "{retry: {backoff: {cap: 1h}}, timeout: {call: off}}", "silent", ""},
	})
	tryRule(t, "G035", []specimen{
		{"as long as the call", "{retry: {max_after: 15s}}", "silent", ""},
		{"longer", "{retry: {max_after: 15001ms}}", "note", "a: max_after 15.001s > call timeout 15s (default)"},
		{"the default", "{timeout: {call: 1s}}", "silent", ""},
		{"a second", "{retry: {max_after: 1s}}", "silent", ""},
		{"less", "{retry: {max_after: 999ms}}", "note", "a: max_after 999ms: each Retry-After of a second or more ends the call"},
	})
	tryRule(t, "G036", []specimen{
		{"off", "{pace: off}", "warning", ""},
		{"a minute", "{pace: {max: 1m}}", "note", "pace.max 1m"},
		{"less", "{pace: {max: 59s}}", "silent", ""},
	})
}

func TestRulesOfTimeouts(t *testing.T) {
	tryRule(t, "G007", []specimen{
		{"both are off", "{timeout: {call: off, attempt: off}}", "error", ""},
		{"the call's is off", "{timeout: {call: off}}", "warning", "a: timeout.call is off: 3 attempts (default) × 4s (default) + waits of up to 3s = 15s"},
		{"the attempt's is off", "{timeout: {attempt: off}}", "silent", ""},
		{"the default", "{}", "silent", ""},
	})
	tryRule(t, "G008", []specimen{
		{"as long as the call", "{timeout: {call: 2s, attempt: 2s}}", "note",
			"a: timeout.attempt 2s ≥ call timeout 2s: an attempt that hangs takes the whole call, and none of the 2 other attempts (default) follows it"},
		{"shorter", "{timeout: {call: 2s, attempt: 1999ms}}", "silent", ""},
		{"off", "{timeout: {attempt: off}}", "note", "timeout.attempt is off: an attempt"},
		{"one attempt", "{timeout: {call: 2s, attempt: 2s}, retry: off}", "silent", ""},
		{"strict", "{timeout: {call: 2s, attempt: 2s, strict: true}}", "note", ""},
		{"measured", "{timeout: {call: 3s, attempt: p99.9}}", "silent", ""},
	})
	tryRule(t, "G009", []specimen{
		{"off", "{timeout: {idle: off}}", "warning", ""},
		{"the whole body is bounded", "{timeout: {idle: off, body: 1h}}", "silent", ""},
		{"the default", "{}", "silent", ""},
	})
	tryRule(t, "G030", []specimen{
		{"100 ms", "{timeout: {attempt: 100ms}}", "warning", "a: timeout.attempt 100ms ≤ 100ms"},
		{"more", "{timeout: {attempt: 101ms}}", "silent", ""},
		{"with measured latency", "{timeout: {attempt: 100ms}, facts: {p99: 10ms}}", "silent", ""},
		{"inside", "{timeout: {attempt: 100ms}, trust: internal}", "silent", ""},
		{"on the same machine", "{timeout: {attempt: 100ms}, facts: {local: true}}", "silent", ""},
		{"a minute", "{timeout: {call: 100s, attempt: 1m}}", "silent", ""},
		{"more than a minute", "{timeout: {call: 100s, attempt: 61s}}", "note", ""},
		{"five minutes", "{timeout: {call: 20m, attempt: 5m}}", "warning", "timeout.attempt 5m ≥ 5m"},
		{"no attempt timeout", "{timeout: {call: 50ms, attempt: off}}", "warning", "timeout.call 50ms ≤ 100ms"},
		{"a long call from a queue", "{timeout: {call: 20m, attempt: off}, facts: {queue: true}}", "silent", ""},
		{"nothing", "{timeout: {call: off, attempt: off}}", "silent", ""},
	})
	tryRule(t, "G031", []specimen{
		{"the median", "{timeout: {attempt: 40ms}, facts: {p50: 40ms, p99: 300ms}}", "error",
			"a: timeout.attempt 40ms ≤ facts.p50 40ms: at least 50% of the attempts is cut off and repeated, so that calls cost 2 attempts when all is well"},
		{"the 99th", "{timeout: {attempt: 300ms}, facts: {p50: 40ms, p99: 300ms}}", "warning", "at least 1% of the attempts is cut off and repeated, so that calls cost 1.0101 attempts"},
		{"above it", "{timeout: {attempt: 301ms}, facts: {p50: 40ms, p99: 300ms}}", "silent", ""},
		{"the 99.9th", "{timeout: {attempt: 400ms}, facts: {p99: 300ms, p999: 400ms}}", "note", "at least 0.1%"},
		{"above that", "{timeout: {attempt: 401ms}, facts: {p99: 300ms, p999: 400ms}}", "silent", ""},
		{"nothing is repeated", "{timeout: {attempt: 300ms}, retry: off, facts: {p99: 300ms}}", "warning", "is cut off when all is well"},
		{"the call", "{timeout: {call: 300ms}, facts: {p99: 300ms}}", "warning", "a: timeout.call 300ms ≤ facts.p99 300ms: more than 1% of the calls fail"},
		{"not said", "{facts: {p50: 1ms}}", "unknown facts.p99", ""},
	})
	tryRule(t, "G032", []specimen{
		{"half of the call, and half of that above it", "{timeout: {attempt: 11.249s}, facts: {p999: 100ms}}", "silent", ""},
		{"more", "{timeout: {attempt: 11.25s}, facts: {p999: 100ms}}", "note", "a: timeout.attempt 11.25s is 112 times facts.p999 100ms"},
		{"three times what takes long", "{timeout: {call: 1m, attempt: 60s}, facts: {p999: 20s}}", "note", "a: timeout.attempt 1m is 3 times facts.p999 20s"},
		{"nearly", "{timeout: {call: 1m, attempt: 59s}, facts: {p999: 20s}}", "silent", ""},
		{"measured", "{timeout: {attempt: p99.9}, facts: {p999: 1ms}}", "silent", ""},
		{"not said", "{facts: {p99: 1ms}}", "unknown facts.p999", ""},
	})
}
