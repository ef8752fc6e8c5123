package scenario

import (
	"slices"
	"time"

	"github.com/gabion-go/gabion/lab/internal/draw"
	"github.com/gabion-go/gabion/lab/internal/sim"
)

// maxKeys is how many keys a cache may have: a run knows something of each.
const maxKeys = 1_000_000

func (it item) cache(c *cache) {
	if !it.has("cache") {
		return
	}
	switch {
	case !it.has("cache.keys"):
		it.fail("cache", "cache.keys is missing", "write how many things are asked for, such as cache: {keys: 10000}")
	case c.Keys > maxKeys:
		it.fail("cache.keys", "keys are more than a million", "write less")
	case c.Size > c.Keys:
		it.fail("cache.size", "size is more than there are keys", "leave it out")
	}
}

// uncached refuses caches where work is not only read.
func (r *reader) uncached(of item, f *namedFleet) {
	if f.queued && slices.ContainsFunc(f.calls, namedEdge.cached) {
		of.fail("queue", "the work of a message is done and not looked up: its calls can't have a cache", "remove the cache")
	}
}

func (e namedEdge) cached() bool { return e.Cache.Keys > 0 }

func (c *cache) lower() *sim.Cache {
	if c.Keys == 0 {
		return nil
	}
	return &sim.Cache{Keys: draw.NewZipf(int(c.Keys), float64(c.Zipf)), Size: int(c.Size), TTL: time.Duration(c.TTL), Cold: c.Cold, Collapse: c.Collapse}
}

// shielded reports for each service whether caches are between it and the load, so that how
// much reaches it is not known before a run.
func shielded(f *File) []bool {
	all := make([]bool, len(f.services))
	reach := func(calls []namedEdge, behind bool) {
		for _, e := range calls {
			all[e.to] = all[e.to] || behind || e.cached()
		}
	}
	for i := range f.fleets {
		reach(f.fleets[i].calls, false)
	}
	for _, i := range f.order { // callers first
		reach(f.services[i].calls, all[i])
	}
	return all
}

// defsOfWay returns what is said of a service that calls reach by caches or connections.
func defsOfWay(f *File, i int, name string) (all []def) {
	counts := func(m *measured) (n sim.Counts) {
		for k, e := range m.world.edges {
			if o := &m.Edges[k]; e.to == i {
				n.Calls, n.Attempts, n.Hits, n.Joined = n.Calls+o.Calls, n.Attempts+o.Attempts, n.Hits+o.Hits, n.Joined+o.Joined
				n.Opened, n.Unconnected, n.Waited = n.Opened+o.Opened, n.Unconnected+o.Unconnected, n.Waited+o.Waited
			}
		}
		return n
	}
	calls := callsTo(f, i)
	if slices.ContainsFunc(calls, namedEdge.cached) {
		all = append(all, def{"hits", name, "answers of " + name + " that were in a cache", Share, true, func(m *measured) float64 {
			n := counts(m)
			return div(n.Hits, n.Hits+n.Joined+n.Calls)
		}})
	}
	if !slices.ContainsFunc(calls, func(e namedEdge) bool { return e.Connections.Size > 0 }) {
		return all
	}
	return append(all,
		def{"opened", name, "connections to " + name + " opened for each request", Ratio, false, func(m *measured) float64 {
			n := counts(m)
			return div(n.Opened, n.Attempts)
		}},
		def{"unconnected", name, "attempts that found no connection to " + name, Share, false, func(m *measured) float64 {
			n := counts(m)
			return div(n.Unconnected, n.Unconnected+n.Attempts)
		}},
		def{"queueing", name, "wait for a connection to " + name + ", for each request", Seconds, false, func(m *measured) float64 {
			n := counts(m)
			return div(int64(n.Waited), n.Attempts) / 1e9
		}})
}

func (c *connections) lower() *sim.Conns {
	if c.Size == 0 {
		return nil
	}
	return &sim.Conns{Size: int(c.Size), Wait: time.Duration(c.Wait), Open: c.Open.Dist, Idle: time.Duration(c.Idle), Life: time.Duration(c.Life)}
}
