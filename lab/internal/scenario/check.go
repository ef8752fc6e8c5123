package scenario

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gabion-go/gabion/internal/suggest"
	"github.com/gabion-go/gabion/internal/yamlstrict"
	"github.com/gabion-go/gabion/lab/internal/sim"
)

// item is an entry of a list or of a table, and where its keys stand.
type item struct {
	r      *reader
	what   string // for findings
	places map[string]yamlstrict.Place
	first  yamlstrict.Place
}

// decode reads a node into a struct.
func (r *reader) decode(what string, node yamlstrict.Node, into any) item {
	places, found := node.Decode(into)
	for _, f := range found {
		f.Reason = what + ": " + f.Reason
		r.found = append(r.found, f)
	}
	it := item{r: r, what: what, places: places, first: node.Key}
	all := make([]yamlstrict.Place, 0, len(places))
	for _, p := range places {
		all = append(all, p)
	}
	if len(all) > 0 && it.inList() {
		it.first = slices.MinFunc(all, func(a, b yamlstrict.Place) int {
			return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col))
		})
	}
	return it
}

// inList reports whether the node is one of a list, whose place is not its own.
func (it item) inList() bool { return strings.Contains(it.what, " ") }

// fail says what is wrong at a key, or where the entry begins.
func (it item) fail(key, reason, proposal string) {
	at, written := it.places[key]
	if at.Wrong {
		return // said already
	}
	if !written {
		at = it.first
	}
	it.r.fail(at, it.what+": "+reason, proposal)
}

func (it item) has(key string) bool { _, ok := it.places[key]; return ok }

// need says that a key is missing.
func (it item) need(key, proposal string) {
	if !it.has(key) {
		it.fail(key, key+" is missing", proposal)
	}
}

// never says that keys mean nothing here.
func (it item) never(why string, keys ...string) {
	for _, key := range keys {
		if it.has(key) {
			it.fail(key, key+" means nothing "+why, "remove it")
		}
	}
}

func (r *reader) service(v *namedService, node yamlstrict.Node) {
	it := r.decode(v.name, node, &v.service)
	v.at = it.first
	if it.has("plan") {
		r.planned(it, v)
	}
	if v.Workers == 0 {
		it.never("without workers", "queue", "order", "refuse_cost")
	}
	if v.Order != orderWord(sim.CoDel) {
		it.never("unless the order is codel", "target", "interval")
	}
	if v.Order != 0 && v.Queue == 0 {
		it.fail("order", "order means nothing without a queue", "write queue: 100 as well")
	}
	if v.Replicas < 2 {
		it.never("with one replica", "balance")
	}
	it.limit(&v.Limit)
	it.quotas(&v.Quotas)
	it.pauses(&v.Pauses)
	it.admission(&v.Admission)
	v.calls = r.edges(it, v.Calls)
	if len(v.Calls) == 0 {
		it.never("without calls", "deadline", "stops_retries")
	}
}

func (it item) limit(l *limit) {
	if !it.has("limit") {
		return
	}
	if l.Rate == 0 {
		it.fail("limit", "limit.rate is missing", "write limit: {rate: 100/s}")
	}
	if l.Exact && l.RetryAfter > 0 {
		it.fail("limit.retry_after", "retry_after contradicts exact", "remove one")
	}
}

func (it item) pauses(p *pauses) {
	if !it.has("pauses") {
		return
	}
	switch {
	case p.Every.Mean() < time.Millisecond:
		it.fail("pauses", "pauses.every is missing, or less than a millisecond on average", "write pauses: {every: exp 10s, for: 100ms}")
	case p.For.Mean() <= 0:
		it.fail("pauses", "pauses.for is missing, or takes no time", "write pauses: {every: exp 10s, for: 100ms}")
	}
}

// edges reads the calls of a service or a fleet.
func (r *reader) edges(of item, nodes []yamlstrict.Node) (edges []namedEdge) {
	if len(nodes) > maxParts {
		of.fail("calls", fmt.Sprintf("%d calls", len(nodes)), fmt.Sprintf("%d are the most", maxParts))
		return nil
	}
	for i, node := range nodes {
		var e namedEdge
		it := r.decode(fmt.Sprintf("%s: call %d", of.what, i+1), node, &e.edge)
		it.need("to", "name the service that is called")
		e.to, e.at = r.serviceNamed(it, "to", e.To), it.first
		e.Policy = cmp.Or(e.Policy, e.To)
		if e.Quorum > max(e.Fan, 1) {
			it.fail("quorum", fmt.Sprintf("quorum %d is more than the fan of %d", e.Quorum, max(e.Fan, 1)), "write at most as many")
		}
		if e.Fan > 1000 {
			it.fail("fan", "fan is more than a thousand", "write less")
		}
		it.cache(&e.Cache)
		it.uses(&e.edge)
		if it.has("connections") && e.Connections.Size == 0 {
			it.fail("connections", "connections.size is missing", "write how many there may be, such as connections: {size: 20}")
		}
		edges = append(edges, e)
	}
	return edges
}

// serviceNamed returns the index of a service, or -1.
func (r *reader) serviceNamed(it item, key, name string) int {
	names := make([]string, len(r.file.services))
	for i, s := range r.file.services {
		names[i] = s.name
	}
	i := slices.Index(names, name)
	if i < 0 && it.has(key) {
		it.fail(key, fmt.Sprintf("there is no service %.60q", name), oneOf(name, names))
	}
	return i
}

// oneOf says which of the names was meant, or which there are.
func oneOf(name string, names []string) string {
	there := ""
	if len(names) > 0 {
		there = "there is " + strings.Join(names[:min(len(names), 10)], ", ")
	}
	return suggest.For(name, names, there)
}

func (r *reader) fleet(name string, node yamlstrict.Node) {
	f := namedFleet{name: name}
	it := r.decode(name, node, &f.fleet)
	f.at = it.first
	it.need("count", "write how many clients there are, such as count: 100")
	it.need("calls", "write calls: [{to: …}]")
	f.calls = r.edges(it, f.Calls)
	if len(f.Calls) == 0 && it.has("calls") {
		it.fail("calls", "nothing is called", "write calls: [{to: …}]")
	}
	switch sim.Loop(f.Loop) {
	case sim.Open:
		it.need("rate", "write how much the fleet does, such as rate: 100/s")
		it.never("in an open loop", "think", "spread", "trace", "replay")
	case sim.Closed:
		it.need("think", "write how long clients wait between calls, such as think: exp 1s")
		it.never("in a closed loop", "rate", "load", "daily", "even", "trace", "replay")
	case sim.Trace:
		r.traced(it, &f)
		it.never("in a trace", "rate", "load", "daily", "even", "think", "spread")
	}
	if f.Shared > 1 {
		it.never("for clients that share what they know", "session")
	}
	if !slices.IsSorted(f.Trace) {
		it.fail("trace", "trace does not rise", "write times in their order")
	}
	if it.has("daily") && f.Daily.Swing == 0 {
		it.fail("daily", "daily.swing is missing", "write daily: {swing: 50%}")
	}
	if period := time.Duration(f.Daily.Period); period > 0 && period < time.Minute {
		it.fail("daily.period", "period is shorter than a minute", "write more, or a spike with every")
	}
	r.queue(it, &f)
	it.sharing(&f)
	r.uncached(it, &f)
	r.steps(it, &f)
	r.file.fleets = append(r.file.fleets, f)
}

// traced checks a fleet whose calls were recorded.
func (r *reader) traced(it item, f *namedFleet) {
	switch {
	case it.has("replay") && it.has("trace"):
		it.fail("replay", "replay contradicts trace", "remove one")
	case !it.has("replay"):
		it.need("trace", "write when calls are made, such as trace: [0s, 10ms], or replay: from calls.csv, at time s")
	case f.Replay.Took != nil && (len(f.calls) != 1 || f.calls[0].Fan > 1):
		it.fail("replay", "how long calls took is of one call, and not of several", "leave took and status out, or call one service")
	case len(f.Replay.At) > 0 && f.Replay.At[0] >= r.file.duration && r.file.duration > 0:
		it.fail("replay", "no call is made before the load ends", "begin earlier, or make the duration longer")
	}
}

// steps reads the load, whose changes come one after the other.
func (r *reader) steps(of item, f *namedFleet) {
	if len(f.Load) > 1000 {
		of.fail("load", "load has more than a thousand changes", "write less")
		return
	}
	free := time.Duration(0)
	for i, node := range f.Load {
		var s loadStep
		it := r.decode(fmt.Sprintf("%s: load %d", of.what, i+1), node, &s)
		it.need("at", "write when it begins")
		if it.has("rate") == it.has("times") {
			it.fail("times", "wants either rate or times", "write rate: 200/s, or times: 2")
		}
		r.again(it, time.Duration(s.At), time.Duration(s.For), time.Duration(s.Every), time.Duration(s.Until))
		lasts := max(time.Duration(s.For), time.Duration(s.Ramp))
		switch {
		case time.Duration(s.At) < free:
			it.fail("at", fmt.Sprintf("it begins before %s, when the change above it is over", free), "write it later")
		case s.For > 0 && 2*s.Ramp > s.For:
			it.fail("ramp", "rising and falling take longer than it lasts", "write less")
		case time.Duration(s.At)+lasts > r.file.duration && r.file.duration > 0:
			it.fail("at", "it ends after the load", "write it earlier, or make the duration longer")
		}
		free = time.Duration(s.At) + lasts
		if s.Every > 0 {
			free = s.last(r.file.duration) + lasts
		}
		f.steps = append(f.steps, s)
	}
}

// again checks what comes again.
func (r *reader) again(it item, at, lasts, every, until time.Duration) {
	switch {
	case every == 0:
		it.never("without every", "until")
	case lasts == 0:
		it.fail("every", "every means nothing without for", "write how long it lasts")
	case every <= lasts:
		it.fail("every", fmt.Sprintf("it comes again after %s, before it is over", every), "write a longer every, or a shorter for")
	case until > 0 && until < at:
		it.fail("until", "it may last come before it first does", "write it later")
	case r.plan && until == 0 && r.file.duration == 0:
		it.fail("every", "nothing says how long it comes again", "write until: 10m, or a duration of the plan")
	case until > r.file.duration && r.file.duration > 0:
		it.fail("until", "it may come after the load has ended", "write it earlier")
	case max(r.file.duration, until)/every > 10_000:
		it.fail("every", "it comes more than ten thousand times", "write a longer every")
	}
}

// last returns when a change begins for the last time.
func (s *loadStep) last(end time.Duration) time.Duration {
	return lastOf(time.Duration(s.At), time.Duration(s.For), time.Duration(s.Every), time.Duration(s.Until), end)
}

func lastOf(at, lasts, every, until, end time.Duration) time.Duration {
	if every == 0 {
		return at
	}
	until = cmp.Or(until, end-lasts)
	return at + max(until-at, 0)/every*every
}

// keysOf says which keys a kind of fault has besides at and for, in the order of
