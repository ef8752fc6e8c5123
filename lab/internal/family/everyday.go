package family

import (
	"fmt"
	"time"
)

// Everyday is the group of the worlds in which now and then a call fails, for ever.
const Everyday = "everyday errors"

// usualDays are fleets and how long their everyday is played: from one client that calls
// every five seconds to one that calls a thousand times a second, and to ten thousand
// clients.
var usualDays = []struct {
	fleet fleet
	lasts time.Duration
}{
	{fleet{1, 0.2}, 3 * time.Hour},
	{fleet{1, 20}, 10 * time.Minute},
	{fleet{1, 1000}, 90 * time.Second},
	{fleet{60, 4}, 3 * time.Minute},
	{fleet{10000, 0.02}, 4 * time.Minute},
}

// everyday are few errors from the beginning to the end, each by chance.
func everyday() (made []World) {
	for _, d := range usualDays {
		for _, share := range []int{1, 2, 5, 10, 20} {
			made = append(made, plan{
				name: fmt.Sprintf("everyday-%s-%v", percent(share), d.fleet), group: Everyday, title: fmt.Sprintf("%d %% errors every day, %d clients", share, d.fleet.clients),
				fleet: d.fleet, duration: d.lasts, fault: fmt.Sprintf("kind: errors, service: db, at: 1s, for: %s, share: %d%%, status: 503", length(d.lasts-time.Second), share),
			}.world())
		}
	}
	return made
}

// sparse are fleets of which each client knows next to nothing, in an outage of ten
// seconds.
func sparse() (made []World) {
	for _, f := range []fleet{{1000, 0.02}, {10000, 0.02}} {
		for _, k := range []struct{ name, says, fault string }{
			{"down", "connections are refused", "kind: down"},
			{"black-hole", "requests vanish", "kind: black_hole"},
			{"errors-100pct", "all answers are errors", "kind: errors, status: 503"},
		} {
			made = append(made, plan{
				name: fmt.Sprintf("%s-10s-%v", k.name, f), group: f.trouble(), title: fmt.Sprintf("For 10s, %s; %d clients", k.says, f.clients),
				fleet: f, duration: 3 * time.Minute, fault: k.fault + ", service: db, at: 2m, for: 10s",
			}.world())
		}
	}
	return made
}

// above is the policy of an SDK that sends again what failed, and keeps nothing else.
func above(attempts int, base, most time.Duration, budget string) string {
	return fmt.Sprintf("{safe: true, timeout: {call: 10s, attempt: off, last: off, margin: off}, breaker: off, bulkhead: off, pace: off, "+
		"retry: {attempts: %d, hold: off, backoff: {kind: full, base: %s, cap: %s}, budget: %s}}", attempts, length(base), length(most), budget)
}

// sdks are calls of an SDK that tries again by itself, each of its attempts a call of
// the policy below. The SDKs are AWS' until November 2026 and from then on, and go-redis
// v9.
func sdks() (made []World) {
	standard := above(3, 2*time.Second, 20*time.Second, "{shape: quota, capacity: 500, cost: 5, throttled_cost: 5, timeout_cost: 10}")
	newest := above(3, 50*time.Millisecond, 20*time.Second, "{shape: quota, capacity: 500, cost: 14, throttled_cost: 5}")
	redis := above(4, 8*time.Millisecond, 512*time.Millisecond, "off")
	one, many := fleet{1, 20}, fleet{100, 2}
	for _, k := range []struct {
		name, says, sdk, fault string
		fleets                 []fleet
	}{
		{"aws-standard-outage-3s", "AWS' SDK of before above, and 3 s of errors every 20 s", standard, "kind: errors, status: 500, for: 3s, every: 20s, until: 3m59s", []fleet{one, many}},
		{"aws-2026-outage-3s", "AWS' SDK above, and 3 s of errors every 20 s", newest, "kind: errors, status: 500, for: 3s, every: 20s, until: 3m59s", []fleet{one, many}},
		{"aws-2026-errors-30pct", "AWS' SDK above, and 30 % errors", newest, "kind: errors, status: 500, share: 30%, for: 3m", []fleet{one, many}},
		{"aws-2026-limit-80pct", "AWS' SDK above, and a limit of 80 % of the load", newest, "kind: rate_limit, for: 3m, limit: {rate: 160/s, burst: 20}", []fleet{many}},
		{"redis-cuts-30pct", "go-redis above, and three of ten connections are cut", redis, "kind: reset, share: 30%, for: 3m", []fleet{one, many}},
	} {
		for _, f := range k.fleets {
			made = append(made, plan{
				name: fmt.Sprintf("sdk-%s-%v", k.name, f), group: "an SDK above", title: fmt.Sprintf("%s; %d clients", k.says, f.clients),
				fleet: f, duration: 5 * time.Minute, fault: k.fault + ", service: db, at: 1m", sdk: k.sdk,
			}.world())
		}
	}
	return made
}
