package play

import (
	"fmt"
	"strings"
	"time"
)

// Of each run: when it ends, when trouble begins, and what does not count at the beginning.
const (
	length  = 60 * time.Second
	begins  = 15 * time.Second
	warmup  = 5 * time.Second
	service = "dependency" // the last in a row
)

// rows are the services, from the one that clients call to the dependency.
func (w *World) rows() []string {
	return []string{"front", "middle", service}[3-w.Layers:]
}

// scenario is the world as a file that gabion lab run reads.
func (w *World) scenario() string {
	var b strings.Builder
	rows := w.rows()
	fmt.Fprintf(&b, "version: 1\ntitle: From the playground\nseed: %d\nduration: %s\nwarmup: %s\n", w.Seed, length, warmup)
	fmt.Fprintf(&b, "clients:\n  shop:\n    count: %d\n    rate: %d/s\n    deadline: %s\n", w.Clients, w.Rate, w.call(w.Layers))
	if w.Trouble == Crowd {
		fmt.Fprintf(&b, "    load: [{at: %s, for: %s, times: 3}]\n", begins, ms(w.Outage))
	}
	fmt.Fprintf(&b, "    calls: [{to: %s}]\nservices:\n", w.link(rows[0]))
	for i, name := range rows[:len(rows)-1] {
		fmt.Fprintf(&b, "  %s: {time: 1ms, calls: [{to: %s}]}\n", name, w.link(rows[i+1]))
	}
	fmt.Fprintf(&b, "  %s: {%sworkers: %d, queue: %d, time: exp %s}\n", service, w.balance(), w.workers(), w.Queue/w.Replicas, ms(w.Work))
	b.WriteString("policies:\n")
	w.policies(&b)
	b.WriteString("against: naive\n")
	if faults := w.faults(); faults != "" {
		b.WriteString("faults:\n" + faults)
	}
	return b.String()
}

// link is a call to a service. Where a cache is the trouble, there is one before the dependency.
func (w *World) link(to string) string {
	cache := ""
	if w.Trouble == Cold && to == service {
		cache = ", cache: {keys: 5000, zipf: 0.9, ttl: 2m}"
	}
	return to + ", network: 1ms, propagate: true" + cache
}

// policy is the same policies as a file for production.
func (w *World) policy() string {
	var b strings.Builder
	b.WriteString("version: 1\ndependencies:\n")
	w.policies(&b)
	return b.String()
}

// policies are those of all services. The knobs are those of the dependency: the layers
// above have the time that the retries of the layer below need.
func (w *World) policies(b *strings.Builder) {
	for i, name := range w.rows() {
		above := w.Layers - i // 1 is the dependency
		fmt.Fprintf(b, "  %s:\n    safe: true\n    timeout: {call: %s, attempt: %s}\n", name, w.call(above), w.attempt(above))
		fmt.Fprintf(b, "    retry: {attempts: %d, budget: %s}\n", w.Attempts, w.budget())
		if !w.Breaker {
			b.WriteString("    breaker: off\n")
		}
		if w.Hedge > 0 {
			fmt.Fprintf(b, "    hedge: {max: 1, delay: %s}\n", ms(w.Hedge))
		}
	}
}

func (w *World) budget() string {
	if w.Budget == 0 {
		return "off"
	}
	return fmt.Sprintf("{ratio: %d%%}", w.Budget)
}

// call is the timeout of calls to the nth service from the end.
func (w *World) call(n int) time.Duration { return ms(w.Call) << (n - 1) }

// attempt leaves the layer below time for its whole call.
func (w *World) attempt(n int) time.Duration {
	if n == 1 {
		return ms(w.Attempt)
	}
	return w.call(n - 1)
}

// workers are those of one replica: as many as are busy at the capacity.
func (w *World) workers() int {
	return max(1, (w.Capacity*w.Work/w.Replicas+500)/1000)
}

func (w *World) balance() string {
	if w.Replicas == 1 {
		return ""
	}
	return fmt.Sprintf("replicas: %d, balance: round_robin, ", w.Replicas)
}

// faults are the lines of what goes wrong.
func (w *World) faults() string {
	when := fmt.Sprintf("service: %s, at: %s, for: %s", service, begins, ms(w.Outage))
	switch w.Trouble {
	case Errors:
		return fmt.Sprintf("  - {kind: errors, %s, share: %d%%, status: 503, costs_work: true}\n", when, w.Share)
	case Swallow:
		return fmt.Sprintf("  - {kind: black_hole, %s, share: %d%%}\n", when, w.Share)
	case Down:
		return fmt.Sprintf("  - {kind: down, %s}\n", when)
	case Slow:
		return fmt.Sprintf("  - {kind: slow, %s, factor: 10}\n", when)
	case Weak:
		return fmt.Sprintf("  - {kind: brown_out, %s, factor: 0.4}\n", when)
	case Limit:
		return fmt.Sprintf("  - {kind: rate_limit, %s, limit: {rate: %d/s, burst: 20, retry_after: 2s}}\n", when, max(1, w.Rate/2))
	case Replica:
		return fmt.Sprintf("  - {kind: slow, %s, factor: 10, replicas: 1}\n", when)
	case Cold:
		return fmt.Sprintf("  - {kind: cache_down, %s}\n", when)
	case Restart:
		return fmt.Sprintf("  - {kind: restart, %s, ramp: 10s}\n  - {kind: restart_clients, clients: shop, at: %s}\n", when, begins)
	}
	return ""
}

func ms(n int) time.Duration { return time.Duration(n) * time.Millisecond }
