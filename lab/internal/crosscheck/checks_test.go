package crosscheck

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/lint"
	"github.com/gabion-go/gabion/policy"
)

// calm switches off what would stand between a policy and the failure that a rule is about.
const calm = "breaker: off, bulkhead: off, pace: off"

// checks are the rules that the lab can show.
var checks = []check{
	{rule: "G001", draw: repeatedWrites, shows: func(t *testing.T, o *outcome) bool { return o.metric(t, "duplicates", "", "") > 0 }},
	{rule: "G003", draw: togetherAgain, shows: func(_ *testing.T, o *outcome) bool { return spread(o) < 5*time.Millisecond }},
	{rule: "G004", least: lint.Warning, draw: atOnce, shows: func(_ *testing.T, o *outcome) bool { return spread(o) < time.Millisecond }},
	{rule: "G006", least: lint.Warning, draw: manyTries, shows: func(t *testing.T, o *outcome) bool { return o.metric(t, "amplification", "db", "during") > 6.2 }},
	{rule: "G010", draw: attemptsThatFit, shows: func(_ *testing.T, o *outcome) bool { return lacking(o) }},
	{rule: "G012", draw: fleets, shows: func(t *testing.T, o *outcome) bool { return o.metric(t, "goodput", "", "") < 0.97 }},
	{rule: "G013", draw: deadOnes, shows: func(_ *testing.T, o *outcome) bool { return stillCalled(o) }},
	{rule: "G015", least: lint.Error, draw: slowRules, shows: func(_ *testing.T, o *outcome) bool { return o.count(opened) > 0 }},
	{rule: "G016", draw: breakersThatWait, shows: func(_ *testing.T, o *outcome) bool { return o.count(opened) == 0 }},
	{rule: "G017", least: lint.Warning, draw: countedFailures, shows: func(_ *testing.T, o *outcome) bool { return o.count(opened) > 0 }},
	{rule: "G020", draw: budgets, shows: func(t *testing.T, o *outcome) bool { return o.metric(t, "amplification", "db", "during") > 1.7 }},
	{rule: "G029", least: lint.Warning, draw: bulkheads, shows: func(t *testing.T, o *outcome) bool { return o.metric(t, "refused", "", "") > 0.02 }},
	{rule: "G031", least: lint.Warning, draw: timeouts, shows: func(_ *testing.T, o *outcome) bool { return cutOff(o) >= 0.01 }},
	{rule: "G036", least: lint.Warning, draw: askedForTime, shows: func(_ *testing.T, o *outcome) bool {
		return float64(o.count(sent)) > 0.75*float64(o.count(ended))
	}},
	{rule: "G042", draw: earlyHedges, shows: func(_ *testing.T, o *outcome) bool {
		return float64(o.count(func(e *policy.Event) bool { return sent(e) && e.Hedge })) > 0.5*float64(o.count(ended))
	}},
	{rule: "G033", least: lint.Warning, draw: blips, shows: func(t *testing.T, o *outcome) bool { return o.metric(t, "goodput", "", "") == 0 }},
}

// world is a scenario of one fleet and one service.
func world(duration time.Duration, shop, db string, faults ...string) string {
	text := fmt.Sprintf("duration: %v\nreplications: 1\nclients:\n  shop: {%s, calls: [{to: db, network: 0.1ms}]}\nservices:\n  db: {%s}\n", duration, shop, db)
	if len(faults) > 0 {
		text += "faults:\n  - {service: db, " + strings.Join(faults, "}\n  - {service: db, ") + "}\n"
	}
	return text
}

// Answers are lost after the work was done, and calls are writes without keys.
func repeatedWrites(r *rand.Rand) trial {
	hedge := one(r, "", "", ", hedge: {max: 1, delay: 5ms}")
	attempts := between(r, 1, 4)
	safe, key := r.IntN(2) == 0, one(r, "declared", "declared", "required")
	try := trial{
		policy: fmt.Sprintf("safe: %v, key: %s, retry: {attempts: %d, backoff: {base: %v}}%s, timeout: {call: 5s, attempt: 300ms}", safe, key, attempts, millis(r, 10, 300), hedge),
		facts:  "writes: true",
		world:  world(30*time.Second, "count: 2, rate: 20/s", "time: 10ms", "kind: lost_answers, at: 5s, for: 15s, share: 40%"),
	}
	if key == "required" { // its caller has one, and the service looks at it
		try.world = strings.NewReplacer("to: db,", "to: db, keyed: true,", "time: 10ms", "time: 10ms, honours_keys: true").Replace(try.world)
	}
	return try
}

// Thirty calls fail in one moment.
func together(policy string) trial {
	at := ""
	for range 30 {
		at += "10s, "
	}
	return trial{
		policy: policy,
		world:  world(time.Minute, "count: 1, loop: trace, trace: ["+at+"10s]", "time: 1ms", "kind: errors, at: 5s, for: 50s, status: 503"),
	}
}

func togetherAgain(r *rand.Rand) trial {
	return together(fmt.Sprintf("safe: true, %s, retry: {attempts: %d, hold: off, budget: off, contention: {backoff: {kind: full}}, backoff: {kind: %s, base: %v}}", calm, between(r, 2, 4),
		one(r, "full", "equal", "decorrelated", "exponential", "linear", "constant"), millis(r, 100, 3000)))
}

func atOnce(r *rand.Rand) trial {
	return together(fmt.Sprintf("safe: true, %s, retry: {attempts: %d, hold: off, budget: off, backoff: {base: %s}}", calm, between(r, 2, 4),
		one(r, "off", "10us", "900us", "20ms", "200ms", "1s")))
}

// spread is how far apart the second attempts are.
func spread(o *outcome) time.Duration {
	first, last := policy.Instant(0), policy.Instant(0)
	for i := range o.events {
		if e := &o.events[i]; sent(e) && e.Attempt == 2 {
			if first == 0 {
				first = e.At
			}
			last = e.At
		}
	}
	return last.Sub(first)
}

// Every attempt hangs until its timeout.
func attemptsThatFit(r *rand.Rand) trial {
	n, attempt, base := between(r, 2, 4), millis(r, 100, 2000), millis(r, 50, 1000)
	call := attempt + millis(r, 100, 9000)
	waits := time.Duration(1<<(n-1)-1) * base
	least, margin := attempt, "" // what the last needs
	if r.IntN(3) == 0 {
		d := millis(r, 10, int(call/time.Millisecond)-1)
		least, margin = max(attempt, d), fmt.Sprintf(", margin: %v", d)
	}
	longest := time.Duration(n-1)*attempt + waits + least
	return trial{
		policy: fmt.Sprintf("safe: true, %s, retry: {attempts: %d, hold: off, budget: off, backoff: {base: %v}}, timeout: {call: %v, attempt: %v%s, strict: true}", calm, n, base, call, attempt, margin),
		world:  world(time.Minute, "count: 1, rate: 5/s", "time: 1ms", "kind: black_hole, at: 0s, for: 1m"),
		// A wait is hardly ever as long as it can be: above the bound by a part of the waits
		// no call of six hundred may show it.
		near: call < longest && longest-call < waits/2,
	}
}

// lacking reports whether some call did not make all its attempts, or not for their full
// time.
func lacking(o *outcome) bool {
	most, full := uint8(0), time.Duration(0)
	for i := range o.events {
		if e := &o.events[i]; sent(e) {
			most, full = max(most, e.Attempt), max(full, e.Until.Sub(e.At))
		}
	}
	short := o.count(func(e *policy.Event) bool {
		return sent(e) && e.Until.Sub(e.At) < full-time.Millisecond
	})
	fewer := o.count(func(e *policy.Event) bool {
		return ended(e) && e.Reason != policy.None && (e.Attempt < most || e.Reason == policy.CallTimeout || e.Reason == policy.DeadlineShort)
	})
	return short+fewer > 0
}

// A fleet calls a service of some capacity, and all is well.
func fleets(r *rand.Rand) trial {
	processes, rate, workers := between(r, 1, 8), between(r, 5, 40), between(r, 1, 5)
	load, capacity := float64(processes*rate), float64(workers)/0.02
	return trial{
		policy:  "retry: off, breaker: off, timeout: {call: 2s, attempt: 1s}",
		facts:   fmt.Sprintf("rate: %d/s, capacity: %v/s", rate, capacity),
		program: fmt.Sprintf(", processes: %d", processes),
		world:   world(15*time.Second, fmt.Sprintf("count: %d, rate: %d/s", processes, processes*rate), fmt.Sprintf("workers: %d, queue: 100, time: 20ms", workers)),
		near:    is(load, 0.12, capacity),
	}
}

// The dependency is dead for a minute.
func deadOnes(r *rand.Rand) trial {
	return trial{
		policy: fmt.Sprintf("safe: true, breaker: %s, retry: {attempts: %d, hold: off}", one(r, "off", "{observe: true}", "{}", "{failure_rate: 50%}", "{consecutive: 5, consecutive_for: off}"), between(r, 1, 3)),
		world:  world(45*time.Second, fmt.Sprintf("count: 1, rate: %d/s", between(r, 10, 30)), "time: 5ms", "kind: down, at: 5s, for: 40s"),
	}
}

// stillCalled reports whether calls of the last 20 s went out in spite of it.
func stillCalled(o *outcome) bool {
	end := o.events[len(o.events)-1].At
	late := func(is func(*policy.Event) bool) int {
		return o.count(func(e *policy.Event) bool { return is(e) && e.At > end.Add(-20*time.Second) })
	}
	return float64(late(sent)) > 0.8*float64(late(ended))
}

// Everything fails, and the breaker looks at rates alone.
func breakersThatWait(r *rand.Rand) trial {
	rate, window, least := between(r, 1, 20), between(r, 2, 30), between(r, 5, 300)
	return trial{
		policy: fmt.Sprintf("retry: off, breaker: {failure_rate: 50%%, min_calls: %d, window: %ds, consecutive: off}", least, window),
		facts:  fmt.Sprintf("rate: %d/s", rate),
		world:  world(time.Duration(4*window+10)*time.Second, fmt.Sprintf("count: 1, rate: %d/s, even: true", rate), "time: 5ms", fmt.Sprintf("kind: errors, at: 1s, for: %ds, status: 500", 4*window+9)),
		near:   is(float64(least), 0.15, float64(rate*window)) || least <= rate*window && least > rate*window-rate,
	}
}

// One call in twenty fails, and nothing else is wrong.
func countedFailures(r *rand.Rand) trial {
	rate, window, failures := between(r, 5, 60), between(r, 5, 20), between(r, 2, 120)
	if r.IntN(2) == 0 {
		failures = between(r, 2, 3+rate*window/40)
	}
	share := float64(failures) / float64(rate*window)
	return trial{
		policy: fmt.Sprintf("retry: off, breaker: {failures: %d, window: %ds, consecutive: off, failure_rate: off}", failures, window),
		facts:  fmt.Sprintf("rate: %d/s", rate),
		world:  world(time.Duration(3*window)*time.Second, fmt.Sprintf("count: 1, rate: %d/s", rate), "time: 5ms", fmt.Sprintf("kind: errors, at: 1s, for: %ds, share: 5%%, status: 500", 3*window-1)),
		near:   share > 0.03 && share < 0.05+6*0.22/math.Sqrt(float64(rate*window)),
	}
}

// Everything fails for half of the time, and only the budget bounds retries.
func budgets(r *rand.Rand) trial {
	return trial{
		policy: fmt.Sprintf("safe: true, %s, retry: {attempts: %d, hold: off, budget: %s, backoff: {base: %v}}", calm, between(r, 1, 5), one(r, "off", "off", "{ratio: 10%}", "{}", "{ratio: 50%}", "{shape: window, ratio: 20%, floor: 1/s}"), millis(r, 20, 400)),
		world:  world(50*time.Second, "count: 3, rate: 30/s", "time: 5ms", "kind: errors, at: 10s, for: 30s, status: 503"),
	}
}

// All is well, and calls need slots.
func bulkheads(r *rand.Rand) trial {
	limit, rate, took := between(r, 1, 12), between(r, 5, 60), between(r, 5, 300)
	usual := float64(rate*took) / 1000
	return trial{
		policy: fmt.Sprintf("retry: off, breaker: off, bulkhead: {limit: %d}", limit),
		facts:  fmt.Sprintf("rate: %d/s, p50: %dms", rate, took),
		world:  world(30*time.Second, fmt.Sprintf("count: 1, rate: %d/s", rate), fmt.Sprintf("time: %dms", took)),
		near:   usual > 0.75*float64(limit)-0.3 && usual < 1.15*float64(limit), // few slots refuse already when they are mostly in use
	}
}

// All is well, and attempts take as long as the facts say.
func timeouts(r *rand.Rand) trial {
	p50 := between(r, 10, 50)
	p99 := p50 * between(r, 3, 8)
	attempt := between(r, p50/2, 3*p99)
	return trial{
		policy: fmt.Sprintf("retry: off, breaker: off, bulkhead: off, timeout: {call: 10s, attempt: %dms, strict: true}", attempt),
		facts:  fmt.Sprintf("p50: %dms, p99: %dms", p50, p99),
		world:  world(30*time.Second, "count: 1, rate: 100/s", fmt.Sprintf("time: lognormal %dms/%dms", p50, p99)),
		near:   is(float64(attempt), 0.25, float64(p99)),
	}
}

// cutOff is the share of attempts that their timeout ended.
func cutOff(o *outcome) float64 {
	settled := func(e *policy.Event) bool { return e.Kind == policy.KindAttemptSettled }
	cut := o.count(func(e *policy.Event) bool { return settled(e) && e.Reason == policy.AttemptTimeout })
	return float64(cut) / float64(max(o.count(settled), 1))
}

// One call meets the beginning of an outage, twenty times.
func blips(r *rand.Rand) trial {
	n, base, blip := between(r, 1, 5), millis(r, 50, 2000), millis(r, 200, 20000)
	kind := one(r, "full", "equal", "exponential")
	longest := time.Duration(1<<(n-1)-1) * base
	usual := map[string]time.Duration{"full": longest / 2, "equal": longest * 3 / 4, "exponential": longest}[kind]
	return trial{
		policy: fmt.Sprintf("safe: true, %s, retry: {attempts: %d, hold: off, budget: off, backoff: {kind: %s, base: %v}}, timeout: {call: 2m, attempt: 1s}", calm, n, kind, base),
		facts:  fmt.Sprintf("blip: %v", blip),
		world:  strings.Replace(world(time.Minute, "count: 1, loop: trace, trace: [10s]", "time: 1ms", fmt.Sprintf("kind: down, at: 9999ms, for: %v", blip+time.Millisecond)), "replications: 1", "replications: 20", 1),
		// Between the two some calls survive and some do not: the linter has a note there.
		near: blip > usual*95/100 && blip <= longest,
	}
}

// Everything fails for a while, and calls try often.
func manyTries(r *rand.Rand) trial {
	return trial{
		policy: fmt.Sprintf("safe: true, %s, timeout: {call: 1m}, retry: {attempts: %d, hold: off, budget: %s, backoff: {base: 10ms, cap: 40ms}}", calm, between(r, 1, 14), one(r, "off", "off", "{}")),
		world:  world(50*time.Second, "count: 3, rate: 20/s", "time: 5ms", "kind: errors, at: 10s, for: 30s, status: 503"),
	}
}

// All is well, and the breaker counts slow calls.
func slowRules(r *rand.Rand) trial {
	p50 := between(r, 20, 60)
	p99 := p50 * between(r, 3, 6)
	slow, rate := between(r, p50/3, 2*p99), between(r, 10, 90)
	if r.IntN(2) == 0 {
		slow, rate = between(r, p50/4, p50), between(r, 10, 55)
	}
	// The share of attempts that are slower, of this distribution. The linter knows two points
	// of it: between them it does not tell whether the share is above slow_rate.
	sigma := math.Log(float64(p99)/float64(p50)) / 2.3263
	share := math.Erfc(math.Log(float64(slow)/float64(p50))/sigma/math.Sqrt2) / 2
	sure := slow < p50 && rate <= 50
	return trial{
		policy: fmt.Sprintf("retry: off, timeout: {call: 10s, attempt: 5s}, breaker: {slow_call: %dms, slow_rate: %d%%, consecutive: off}", slow, rate),
		facts:  fmt.Sprintf("p50: %dms, p99: %dms", p50, p99),
		world:  world(40*time.Second, "count: 1, rate: 50/s", fmt.Sprintf("time: lognormal %dms/%dms", p50, p99)),
		near:   sure && share < 1.1*float64(rate)/100 || !sure && share > 0.5*float64(rate)/100,
	}
}

// The dependency lets a part of the calls through, and says to the others when to come again.
func askedForTime(r *rand.Rand) trial {
	return trial{
		policy: fmt.Sprintf("retry: off, breaker: off, pace: %s", one(r, "off", "{}", "{max: 2s}", "{max: 10s}")),
		world: world(30*time.Second, fmt.Sprintf("count: 1, rate: %d/s", between(r, 20, 60)), "time: 5ms",
			fmt.Sprintf("kind: rate_limit, at: 0s, for: 30s, limit: {rate: %d/s, retry_after: 2s}", between(r, 2, 5))),
	}
}

// All is well, and calls are hedged after a delay.
func earlyHedges(r *rand.Rand) trial {
	p50, delay := between(r, 20, 60), between(r, 5, 150)
	return trial{
		policy: fmt.Sprintf("safe: true, breaker: off, retry: {attempts: 1, budget: off}, hedge: {max: 1, delay: %dms}", delay),
		facts:  fmt.Sprintf("p50: %dms", p50),
		world:  world(20*time.Second, "count: 1, rate: 40/s", fmt.Sprintf("time: lognormal %dms/%dms", p50, 4*p50)),
		near:   is(float64(delay), 0.1, float64(p50)),
	}
}
