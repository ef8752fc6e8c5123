package lint

import (
	"fmt"
	"math"
	"strings"

	"github.com/gabion-go/gabion/policy"
)

// shared calls do for each node that several services call.
func (x *look) shared(do func(name string, edges []*Edge)) {
	for v, name := range x.nodes {
		var edges []*Edge
		callers := map[string]bool{}
		for _, i := range x.into[v] {
			edges = append(edges, &x.Edges[i])
			callers[x.Edges[i].From] = true
		}
		if len(callers) > 1 {
			do(name, edges)
		}
	}
}

// known reports whether facts of all edges are said. Where one is not, the rule is unknown.
func (x *look) known(edges []*Edge, facts ...string) bool {
	known := true
	for _, e := range edges {
		for _, path := range facts {
			if !x.reads(e, path) {
				known = false
			} else if !e.Facts.Has(path) {
				x.unknown(e, path, "the file does not say it")
				known = false
			}
		}
	}
	return known
}

// capacityOfAll is rule G078.
func (x *look) capacityOfAll() {
	x.shared(func(name string, edges []*Edge) {
		of := least(edges, func(e *Edge) float64 { return float64(e.Facts.Capacity) })
		if of == nil {
			return
		}
		if !x.known(edges, "facts.rate", "facts.processes") {
			return
		}
		usual, outage := 0.0, 0.0
		var calls, attempts []string
		for _, e := range edges {
			if !x.reads(e, "retry.attempts", "retry.budget") {
				return
			}
			n := float64(e.Facts.Rate) * float64(e.Facts.Processes)
			factor := 1.0
			for _, t := range e.attempts(counting{marks: true, budgets: true}, false) {
				factor *= t.n
			}
			usual, outage = usual+n, outage+n*factor
			calls = append(calls, fmt.Sprintf("%s %s/s × %d", e.From, number(float64(e.Facts.Rate)), e.Facts.Processes))
			attempts = append(attempts, fmt.Sprintf("%s/s × %s", number(n), number(factor)))
		}
		capacity := float64(of.Facts.Capacity)
		sum := fmt.Sprintf("%s: %s = %s/s", name, list(calls), number(usual))
		switch {
		case usual > capacity:
			x.find(x.rule.Severity, of, "facts.capacity", fmt.Sprintf("%s at a usual time > capacity %s/s", sum, number(capacity)), "call less, or let it grow")
		case outage > capacity:
			x.find(x.rule.Severity, of, "facts.capacity", fmt.Sprintf("%s at a usual time, and %s = %s/s with the retries of an outage that lasts > capacity %s/s",
				sum, list(attempts), number(outage), number(capacity)), "lower retry.budget.ratio or retry.attempts, so that it can recover")
		}
	})
}

// connectionsOfAll is rule G079.
func (x *look) connectionsOfAll() {
	x.shared(func(name string, edges []*Edge) {
		of := least(edges, func(e *Edge) float64 { return float64(e.Facts.Connections) })
		if of == nil || !x.known(edges, "facts.processes") {
			return
		}
		sum := 0.0
		var texts []string
		for _, e := range edges {
			slots := e.slots()
			if !x.reads(e, "bulkhead", "bulkhead.limit") {
				return
			}
			if slots == 0 {
				x.unknown(e, "facts.pool", "the bulkhead is off, and the file does not say it")
				return
			}
			sum += slots * float64(e.Facts.Processes)
			texts = append(texts, fmt.Sprintf("%s %s × %d", e.From, number(slots), e.Facts.Processes))
		}
		if most := of.Facts.Connections; sum > float64(most) {
			share := math.Floor(float64(most) / sum * 100)
			x.find(x.rule.Severity, of, "facts.connections", fmt.Sprintf("%s: %s = %s connections > %d: in trouble, when all slots are full, callers are refused by it instead of by their own bulkheads",
				name, list(texts), number(sum), most), fmt.Sprintf("lower the bulkheads or pools to %d%% of that", int(share)))
		}
	})
}

// slots is how many connections one process may have open; zero if nothing bounds it.
func (e *Edge) slots() float64 {
	b, n := e.Policy.Bulkhead, 0
	switch {
	case b.Off:
	case b.Limit == policy.Learned:
		n = b.Max
	default:
		n = max(b.Limit, 0)
	}
	if pool := e.Facts.Pool; pool > 0 && (n == 0 || pool < n) {
		n = pool
	}
	return float64(n)
}

// least returns the edge with the smallest number that is said, or nil.
func least(edges []*Edge, of func(*Edge) float64) (found *Edge) {
	for _, e := range edges {
		if n := of(e); n > 0 && (found == nil || n < of(found)) {
			found = e
		}
	}
	return found
}

func list(texts []string) string {
	if len(texts) > 6 {
		texts = append(texts[:5:5], "…")
	}
	return strings.Join(texts, " + ")
}
