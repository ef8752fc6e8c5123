package lint

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/gabion-go/gabion/internal/formulas"
	"github.com/gabion-go/gabion/policy"
)

// bulkheadRules are about slots, and what is behind them.
var bulkheadRules = []Rule{
	{
		ID: "G026", Name: "bulkhead-above-pool", Severity: Warning, Needs: []string{"facts.pool"},
		Title: "more attempts get a slot than there are connections",
		reads: []string{"bulkhead"},
		check: (*subject).bulkheadAbovePool,
	},
	{
		ID: "G027", Name: "idle-connections", Severity: Warning, Needs: []string{"facts.idle_per_host"},
		Title: "connections are opened and closed again for lack of places to keep them",
		reads: []string{"bulkhead"},
		check: (*subject).idleConnections,
	},
	{
		ID: "G028", Name: "bulkhead-queue", Severity: Warning,
		Title: "calls wait in a queue from which they are not served in time",
		reads: []string{"bulkhead", "timeout.call"},
		when:  func(s *subject) bool { return !s.p.Bulkhead.Off && s.p.Bulkhead.Queue > 0 },
		check: (*subject).bulkheadQueue,
	},
	{
		ID: "G029", Name: "bulkhead-too-small", Severity: Warning, Needs: []string{"facts.rate", "facts.p50"},
		Title: "the calls of a usual second need more slots than there are",
		reads: []string{"bulkhead", "rate_limit"},
		when:  func(s *subject) bool { return !s.p.Bulkhead.Off },
		check: (*subject).bulkheadTooSmall,
	},
}

// slots is the most attempts that the bulkhead lets out at once, and the key that says so.
func (s *subject) slots() (n int, path string) {
	b := s.p.Bulkhead
	switch {
	case b.Off:
		return math.MaxInt32, "bulkhead"
	case b.Limit == policy.Learned:
		return b.Max, "bulkhead.max"
	}
	return b.Limit, "bulkhead.limit"
}

func (s *subject) slotsText() string {
	n, path := s.slots()
	if s.p.Bulkhead.Off {
		return "bulkhead: off"
	}
	return path + " " + s.mark(path, strconv.Itoa(n))
}

func (s *subject) bulkheadAbovePool() {
	n, path := s.slots()
	pool := s.facts.Pool
	if n <= pool {
		return
	}
	if s.p.Bulkhead.Off {
		path = "bulkhead.limit"
	}
	text := fmt.Sprintf("up to %d of them wait for a connection, where no queue timeout counts, and look like a slow dependency", n-pool)
	if s.p.Bulkhead.Off {
		text = "all others wait for a connection, where no queue timeout counts, and look like a slow dependency"
	}
	s.find(path, fmt.Sprintf("%s > facts.pool %d: %s", s.slotsText(), pool, text),
		fmt.Sprintf("write %s: %d", path, pool), s.set(path, strconv.Itoa(pool)))
}

func (s *subject) idleConnections() {
	n, path := s.slots()
	idle := s.facts.IdlePerHost
	if n <= idle {
		return
	}
	how, why := Note, ""
	if s.has("facts.rate") && s.has("facts.p50") {
		usual := formulas.Slots(s.rate(), s.facts.P50)
		if s.has("facts.p99") && formulas.Slots(s.rate(), s.facts.P99) <= float64(idle) {
			return
		}
		if usual > float64(idle) {
			how, why = Warning, fmt.Sprintf("facts.rate %s × facts.p50 %s = %s at once", s.rateText(), policy.FormatDuration(s.facts.P50), digits(usual))
		}
	}
	if why == "" {
		why = s.slotsText()
	}
	s.findAs(how, path, fmt.Sprintf("%s > facts.idle_per_host %d: each attempt beyond that opens a connection and closes it when it is done", why, idle),
		fmt.Sprintf("set http.Transport.MaxIdleConnsPerHost to %d, and MaxIdleConns to no less", min(n, 1000)))
}

// farQueue is a queue of many times the slots. The usual range is 2 to 5 times.
const farQueue = 20

func (s *subject) bulkheadQueue() {
	b := s.p.Bulkhead
	if call := s.p.Timeout.Call; call > 0 && b.QueueTimeout >= call && s.written("bulkhead.queue_timeout") {
		s.find("bulkhead.queue_timeout", fmt.Sprintf("queue_timeout %s ≥ call timeout %s: a call that waits for a slot can spend all its time there", s.time("bulkhead.queue_timeout", b.QueueTimeout), s.time("timeout.call", call)),
			"write at most "+span(call/4), s.set("bulkhead.queue_timeout", policy.FormatDuration(max(call/4, time.Millisecond).Round(time.Millisecond))))
	}
	if b.Limit <= 0 {
		return
	}
	if wait := time.Duration(min(float64(b.Queue)/float64(b.Limit)*float64(s.facts.P50), math.MaxInt64/2)); s.has("facts.p50") && b.QueueTimeout > 0 && wait > 2*b.QueueTimeout {
		served := int(float64(b.Limit) * float64(b.QueueTimeout) / float64(s.facts.P50))
		queue := strconv.Itoa(min(max(served, 1), farQueue*b.Limit)) // more would be a note of its own
		s.find("bulkhead.queue", fmt.Sprintf("queue %s behind %d slots × facts.p50 %s = %s > queue_timeout %s: all but the first %d wait in vain", s.mark("bulkhead.queue", strconv.Itoa(b.Queue)), b.Limit,
			policy.FormatDuration(s.facts.P50), span(wait), s.time("bulkhead.queue_timeout", b.QueueTimeout), served), "write queue: "+queue, s.set("bulkhead.queue", queue))
		return
	}
	if float64(b.Queue) > farQueue*float64(b.Limit) {
		s.findAs(Note, "bulkhead.queue", fmt.Sprintf("queue %d is %s times limit %s: 2 to 5 times is usual, since a call further back is refused after a wait", b.Queue, digits(float64(b.Queue)/float64(b.Limit)),
			s.mark("bulkhead.limit", strconv.Itoa(b.Limit))), fmt.Sprintf("write queue: %d, or leave it out for twice the limit", 2*b.Limit))
	}
}

func (s *subject) bulkheadTooSmall() {
	n, path := s.slots()
	usual := formulas.Slots(s.rate(), s.facts.P50)
	switch {
	case usual > float64(n):
		s.find(path, fmt.Sprintf("facts.rate %s × facts.p50 %s = %s slots > %s: calls are refused when all is well", s.rateText(), policy.FormatDuration(s.facts.P50), digits(usual), s.slotsText()),
			fmt.Sprintf("write %s: %.0f", path, math.Ceil(2*usual)))
	case s.has("facts.p99") && formulas.Slots(s.rate(), s.facts.P99) > float64(n) && usual > float64(n)/2:
		s.findAs(Note, path, fmt.Sprintf("facts.rate %s × facts.p99 %s = %s slots > %s: calls queue when answers are a little slower", s.rateText(), policy.FormatDuration(s.facts.P99), digits(formulas.Slots(s.rate(), s.facts.P99)), s.slotsText()),
			fmt.Sprintf("write %s: %.0f", path, math.Ceil(2*usual)))
	}
}
