package advice

import (
	"fmt"
	"math"
	"regexp"
	"strings"
	"time"
)

// row is a proposal that is followed.
type row struct {
	rule string
	says string             // what the file says, for the table
	keys func(place) string // of each dependency; empty if the scenario does not fit

	// then are the keys after a proposal that is no fix: what a reader makes of its first half,
	// with the numbers that it names. Nil is for proposals with a fix.
	then  func(p place, proposal string) string
	words string // that the proposal has, where then takes no number of it

	keyed bool   // the proposal asks for keys as well: calls have them
	about string // load or twice: what must not grow; empty for answers alone
	loses string // scenarios of the library that lose more than half a point of a hundred, in its order

	// small is what a small world may lose of a hundred calls, where that is more than bound.
	small   float64
	library bool // no small world fits
}

func always(keys string) func(place) string { return func(place) string { return keys } }

// sheds follows: leave the breaker's key out, and write the bulkhead that is proposed.
func sheds(_ place, proposal string) string { return "bulkhead: " + named(proposal, "bulkhead") }

func left(keys string) func(place, string) string { return func(place, string) string { return keys } }

// named is the value that a proposal names for a key.
func named(proposal, key string) string {
	found := regexp.MustCompile(regexp.QuoteMeta(key) + `:? (\{.*?\}|[^ ,]+)`).FindStringSubmatch(proposal)
	if found == nil {
		return "no value of " + key
	}
	return found[1]
}

// fits is the row's keys where a scenario fits.
func fits(when bool, keys string, args ...any) string {
	if !when {
		return ""
	}
	return fmt.Sprintf(keys, args...)
}

// enough is how many attempts are out at once when all is well, with room.
func enough(p place) int { return max(10, 2*int(math.Ceil(p.rate*p.p99.Seconds()))) }

// most is what a service can answer; where no request waits, so much that it is never reached.
func (p place) most() float64 {
	if p.capacity > 0 {
		return p.capacity
	}
	return 100 * p.rate * float64(p.processes)
}

func (p place) fleet() string {
	return fmt.Sprintf("rate: %.4f/s, processes: %d, capacity: %.2f/s", p.rate, p.processes, p.most())
}

var rows = []row{
	{rule: "G001", says: "safe: true, facts: {writes: true}", keys: always("safe: true, facts: {writes: true}"), keyed: true, about: "twice"},
	{rule: "G002", says: "facts: {writes: true}", keys: always("safe: false, facts: {writes: true}"), then: left("safe: false, key: required, facts: {writes: true}"), words: "write key: required", keyed: true, about: "twice"},
	{rule: "G003", says: "kind: exponential", loses: "cron-burst", keys: always("retry: {backoff: {kind: exponential}}")},
	{rule: "G003", says: "kind: constant, base: 200ms, hold: off", keys: always("retry: {hold: off, backoff: {kind: constant, base: 200ms}}")},
	{rule: "G004", says: "backoff: off", small: 1.5, keys: always("retry: {backoff: off}")},
	{rule: "G004", says: "immediate: true, base: 1ms, hold: off", keys: always("retry: {immediate: true, hold: off, backoff: {base: 1ms}}"), then: left("retry: {immediate: true, backoff: {base: 1ms}}"), words: "leave hold out"},
	{rule: "G005", says: "transient: [404, 501]", keys: always("http: {transient: [404, 501]}")},
	{rule: "G006", says: "attempts: 20, budget: off", small: 4, loses: "cron-burst error-storm short-blip short-lived-clients", keys: always("retry: {attempts: 20, budget: off, hold: off, backoff: {base: 50ms}}"), about: "load"},
	{rule: "G006", says: "attempts: 8", keys: always("retry: {attempts: 8}"), then: func(_ place, proposal string) string {
		return "retry: {attempts: " + named(proposal, "attempts") + "}"
	}, about: "load"},
	{rule: "G007", says: "call: off, attempt: off", keys: always("timeout: {call: off, attempt: off}"), then: func(_ place, proposal string) string { return "timeout: " + named(proposal, "timeout") }},
	{rule: "G007", says: "call: off", keys: always("timeout: {call: off, attempt: 1s}"), then: func(_ place, proposal string) string {
		return "timeout: {attempt: 1s, call: " + named(proposal, "timeout.call") + "}"
	}},
	{rule: "G008", says: "attempt: as long as the call", keys: func(p place) string {
		return fmt.Sprintf("timeout: {call: %v, attempt: %v}", p.timeout.Call, p.timeout.Call)
	}, then: func(p place, proposal string) string {
		return fmt.Sprintf("timeout: {call: %v, attempt: %s}", p.timeout.Call, named(proposal, "attempt"))
	}},
	{rule: "G009", says: "idle: off", keys: func(p place) string { return "timeout: {" + timeoutText(p.timeout) + ", idle: off}" }},
	{rule: "G010", says: "attempts: 10, base: 500ms, hold: off", keys: always("retry: {attempts: 10, hold: off, backoff: {base: 500ms}}")},
	{rule: "G010", says: "attempt: half of the call", keys: func(p place) string {
		return fmt.Sprintf("timeout: {call: %v, attempt: %v}", p.timeout.Call, p.timeout.Call/2)
	}, then: func(p place, proposal string) string {
		return fits(strings.Contains(proposal, "timeout.call"), "timeout: {call: %s, attempt: %v}", named(proposal, "timeout.call"), p.timeout.Call/2)
	}},
	{rule: "G013", says: "breaker: off", small: 1, loses: "black-hole layered-retries", keys: always("breaker: off"), about: "load"},
	{rule: "G013", says: "observe: true", loses: "black-hole flap layered-retries", keys: always("breaker: {observe: true}"), then: left("breaker: {}"), words: "leave it out", about: "load"},
	{rule: "G014", says: "bulkhead: off, no attempt timeout", keys: func(p place) string {
		return fits(p.fan == 1 && p.rate > 0, "bulkhead: off, timeout: {call: off, attempt: off}, facts: {rate: %.4f/s}", p.rate)
	}, then: func(p place, proposal string) string {
		return fmt.Sprintf("bulkhead: %s, timeout: {call: off, attempt: off}, facts: {rate: %.4f/s}", named(proposal, "bulkhead"), p.rate)
	}},
	{rule: "G015", says: "slow_call: half of p50, slow_rate: 40%", keys: func(p place) string {
		return fmt.Sprintf("breaker: {slow_call: %v, slow_rate: 40%%}, facts: {p50: %v, p99: %v}", p.p50/2, p.p50, p.p99)
	}, then: func(p place, proposal string) string {
		return fits(p.p99*3 < p.timeout.Attempt, "breaker: {slow_call: %s, slow_rate: 40%%}, bulkhead: %s, facts: {p50: %v, p99: %v}", named(proposal, "slow_call"), named(proposal, "bulkhead"), p.p50, p.p99)
	}},
	{rule: "G016", says: "min_calls: 900, failure_rate: 80%", keys: func(p place) string {
		return fits(p.rate > 0, "breaker: {min_calls: 900, failure_rate: 80%%}, facts: {rate: %.4f/s}", p.rate)
	}, then: func(p place, proposal string) string {
		return fmt.Sprintf("breaker: {window: %s, min_calls: %s, failure_rate: 80%%}, facts: {rate: %.4f/s}", named(proposal, "window"), named(proposal, "min_calls"), p.rate)
	}},
	{rule: "G017", says: "failures: few of many", keys: func(p place) string {
		return fits(p.rate > 0, "breaker: {failures: %d}, facts: {rate: %.4f/s}", max(1, int(p.rate*10/25)), p.rate)
	}, then: sheds, words: "leave it out"},
	{rule: "G018", says: "failures: 1", keys: always("breaker: {failures: 1}"), then: sheds, words: "leave it out"},
	{rule: "G018", says: "failure_rate: 5%", keys: always("breaker: {failure_rate: 5%}"), then: sheds, words: "leave it out for the default, 95%"},
	{rule: "G018", says: "failure_rate: 50%", keys: always("breaker: {failure_rate: 50%}"), then: sheds, words: "leave it out for the default, 95%"},
	{rule: "G018", says: "consecutive: 3, consecutive_for: 100ms", keys: always("breaker: {consecutive: 3, consecutive_for: 100ms}"), then: sheds, words: "leave it out for the default, 20 over 10s"},
	{rule: "G018", says: "min_calls: 4, failure_rate: 90%", keys: always("breaker: {min_calls: 4, failure_rate: 90%}"), then: left("breaker: {failure_rate: 90%}"), words: "leave it out for the default, 30"},
	{rule: "G018", says: "throttled: true", keys: always("breaker: {throttled: true}"), then: left("breaker: {}"), words: "leave it out: pace slows"},
	{rule: "G019", says: "open: 5ms", keys: always("breaker: {open: 5ms}"), about: "load"},
	{rule: "G019", says: "open: 30s, open_max: 10m", keys: always("breaker: {open: 30s, open_max: 10m}"), then: func(_ place, proposal string) string {
		return "breaker: {open: 30s, open_max: " + named(proposal, "open_max") + "}"
	}},
	{rule: "G020", says: "budget: off", small: 4, loses: "cron-burst error-storm short-lived-clients", keys: always("retry: {budget: off}"), about: "load"},
	{rule: "G021", says: "ratio: off", keys: always("retry: {budget: {ratio: off}}"), then: left("retry: {}"), words: "leave it out for the default"},
	{rule: "G022", says: "ratio: 80%", small: 1.5, keys: always("retry: {budget: {ratio: 80%}}"), then: left("retry: {}"), words: "leave it out for the default", about: "load"},
	{rule: "G023", library: true, says: "less spare capacity than 30 %", keys: func(p place) string { return fits(p.rate > 0, "facts: {%s}", p.fleet()) }, then: func(p place, proposal string) string {
		return "retry: {budget: {ratio: " + named(proposal, "retry.budget.ratio") + "}}, facts: {" + p.fleet() + "}"
	}, about: "load"},
	{rule: "G024", says: "reserve: 100, start: 100", small: 3, loses: "cron-burst error-storm", keys: func(p place) string {
		return fits(p.rate > 0, "retry: {budget: {reserve: 100, start: 100}}, facts: {%s}", p.fleet())
	}, then: func(p place, proposal string) string {
		n := named(proposal, "at most")
		return "retry: {budget: {reserve: " + n + ", start: " + n + "}}, facts: {" + p.fleet() + "}"
	}, about: "load"},
	{rule: "G026", says: "pool: 50", keys: func(p place) string { return fits(p.fan <= 50, "facts: {pool: 50}") }},
	{rule: "G028", says: "queue_timeout: 20s", keys: always("bulkhead: {queue_timeout: 20s}")},
	{rule: "G028", says: "queue: 9000", keys: func(p place) string {
		return fits(p.fan == 1, "bulkhead: {limit: %d, queue: 9000}, facts: {p50: %v}", enough(p), p.p50)
	}},
	{rule: "G029", library: true, says: "limit: less than rate × p50", keys: func(p place) string {
		n := int(p.rate * p.p50.Seconds() * 0.9)
		return fits(n > 0, "bulkhead: {limit: %d}, facts: {rate: %.4f/s, p50: %v}", n, p.rate, p.p50)
	}, then: func(p place, proposal string) string {
		return fmt.Sprintf("bulkhead: {limit: %s}, facts: {rate: %.4f/s, p50: %v}", named(proposal, "bulkhead.limit"), p.rate, p.p50)
	}},
	{rule: "G030", says: "attempt: 50ms", keys: func(p place) string {
		return fits(4*p.p99 < p.timeout.Call, "timeout: {call: %v, attempt: 50ms}", p.timeout.Call)
	}, then: func(p place, proposal string) string {
		return fmt.Sprintf("timeout: {call: %v, attempt: %s}, bulkhead: %s", p.timeout.Call, named(proposal, "attempt"), named(proposal, "bulkhead"))
	}},
	{rule: "G031", says: "attempt: 80 % of p99", keys: func(p place) string {
		return fits(4*p.p99 < p.timeout.Call, "timeout: {call: %v, attempt: %v}, facts: {p50: %v, p99: %v}", p.timeout.Call, (p.p99 * 8 / 10).Round(time.Millisecond), p.p50, p.p99)
	}, then: func(p place, proposal string) string {
		return fmt.Sprintf("timeout: {call: %v, attempt: %s}", p.timeout.Call, named(proposal, "write attempt"))
	}},
	{rule: "G032", says: "call: 30s, attempt: 30s", keys: func(p place) string {
		return fmt.Sprintf("timeout: {call: 30s, attempt: 30s}, facts: {p99: %v, p999: %v}", p.p99, p.p999)
	}, then: func(p place, proposal string) string {
		return fmt.Sprintf("timeout: {call: 30s, attempt: %s}, facts: {p99: %v, p999: %v}", named(proposal, "or"), p.p99, p.p999)
	}},
	{rule: "G034", says: "cap: 5m", keys: always("retry: {backoff: {cap: 5m}}"), then: left("retry: {}"), words: "leave it out"},
	{rule: "G035", says: "max_after: 2m", keys: always("retry: {max_after: 2m}"), then: left("retry: {}"), words: "leave it out"},
	{rule: "G035", says: "max_after: 500ms", keys: always("retry: {max_after: 500ms}"), then: left("retry: {}"), words: "leave it out"},
	{rule: "G036", says: "pace: off", small: 2, keys: always("pace: off"), about: "load"},
	{rule: "G036", says: "pace: {max: 2m}", keys: always("pace: {max: 2m}"), then: left("pace: {max: 30s}"), words: "write at most 30s"},
	{rule: "G039", says: "hedge: {max: 1}, budget: off", small: 5.5, loses: "cron-burst error-storm lost-answers one-bad-replica short-lived-clients", keys: always("hedge: {max: 1}, retry: {budget: off}"), about: "load"},
	{rule: "G040", says: "percentile: 50%", keys: always("hedge: {max: 1, percentile: 50%}"), about: "load"},
	{rule: "G040", says: "max: 3, delay: 1ms", loses: "metastable-collapse", keys: always("hedge: {max: 3, delay: 1ms}"), then: left("hedge: {max: 3}"), words: "leave it out for the measured 95th percentile", about: "load"},
	{rule: "G041", says: "hedge: {max: 1}, facts: {writes: true}", small: 1, loses: "slow-dependency", keys: always("hedge: {max: 1}, facts: {writes: true}"), keyed: true, about: "twice"},
	{rule: "G042", says: "delay: half of p50", loses: "flap", keys: func(p place) string {
		return fmt.Sprintf("hedge: {max: 1, delay: %v}, facts: {p50: %v}", p.p50/2, p.p50)
	}, then: left("hedge: {max: 1}"), words: "leave it out for the measured 95th percentile"},
	{rule: "G045", says: "permanent: [503, 429]", small: 1.5, keys: always("http: {permanent: [503, 429]}"), then: func(_ place, proposal string) string {
		return "http: {permanent: " + named(proposal, "http.permanent") + "}"
	}},
	{rule: "G049", says: "three times the capacity", small: 1.5, loses: "cron-burst expired-work", keys: func(p place) string {
		return fmt.Sprintf("rate_limit: {rate: %.4f/s}, facts: {capacity: %.2f/s, processes: %d}", 3*p.most()/float64(p.processes), p.most(), p.processes)
	}, about: "load"},
	{rule: "G049", says: "half of the rate", keys: func(p place) string {
		return fits(p.rate > 0, "rate_limit: {rate: %.4f/s}, facts: {%s}", p.rate/2, p.fleet())
	}, then: func(p place, proposal string) string {
		return fmt.Sprintf("rate_limit: {rate: %s}, facts: {%s}", named(proposal, "rate"), p.fleet())
	}},
}
