package sim

import (
	"time"

	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/lab/internal/draw"
)

// Cache is beside a call: the caller looks there first, calls if there is nothing, and puts
// there what a call brought that succeeded. All instances of the caller share it. To look
// takes no time.
type Cache struct {
	Keys     *draw.Zipf    // what is asked for
	Size     int           // how many answers there is room for: the one not used for longest makes room. 0 means for all
	TTL      time.Duration // how long an answer may be used; 0 means for ever
	Cold     bool          // it is empty at first, and not full of what is asked for most
	Collapse bool          // who misses what another one is calling for waits for that call
}

// cache is a Cache at work.
type cache struct {
	*Cache
	sim     *sim
	edge    int
	entries []entry // for each key, and at the end the head of the list of those held
	held    int
	calling map[int][]follower // Collapse: who waits, for each key that is being called for
}

// entry is what is known of a key. Those held are in a ring, by their last use.
type entry struct {
	newer, older int32
	held         bool
	until        clock.Instant
}

// follower is a step of a job that waits for the call of another one.
type follower struct {
	job, gen uint32
	step     int
}

func newCache(s *sim, index int, of *Cache) *cache {
	if of == nil {
		return nil
	}
	n := of.Keys.Len()
	c := &cache{Cache: of, sim: s, edge: index, entries: make([]entry, n+1), calling: map[int][]follower{}}
	c.entries[n] = entry{newer: int32(n), older: int32(n)}
	if of.Cold {
		return c
	}
	ages := draw.New(s.seed, forKeys, uint64(index))
	for key := c.room() - 1; key >= 0; key-- {
		until := clock.Never
		if of.TTL > 0 {
			until = s.now.Add(time.Duration(float64(ages.U() * float64(of.TTL))))
		}
		c.put(key, until)
	}
	return c
}

func (c *cache) room() int {
	if c.Size > 0 {
		return min(c.Size, c.Keys.Len())
	}
	return c.Keys.Len()
}

// put keeps an answer, which is the newest then.
func (c *cache) put(key int, until clock.Instant) {
	head := &c.entries[len(c.entries)-1]
	if c.drop(key); c.held == c.room() {
		c.drop(int(head.newer)) // the ring's end is the oldest
	}
	e := &c.entries[key]
	*e = entry{newer: int32(len(c.entries) - 1), older: head.older, held: true, until: until}
	c.entries[head.older].newer = int32(key)
	head.older = int32(key)
	c.held++
}

func (c *cache) drop(key int) {
	e := &c.entries[key]
	if !e.held {
		return
	}
	c.entries[e.newer].older, c.entries[e.older].newer = e.older, e.newer
	e.held = false
	c.held--
}

// has reports whether a key's answer can be used now, which is a use of it.
func (c *cache) has(key int, now clock.Instant) bool {
	e := c.entries[key]
	if !e.held || now >= e.until {
		return false
	}
	c.put(key, e.until)
	return true
}

// look looks for the answer to a call. It reports false if the call has to be made, and
// returns what that is for.
func (c *cache) look(j *job, call uint64) (key int, found bool) {
	s := c.sim
	draws := draw.New(s.seed, forKeys, call)
	key = c.Keys.Draw(&draws)
	n := &s.rec.of(s, j.root).Edges[c.edge]
	if c.has(key, s.now) {
		n.Hits++
		s.called(j, j.step, true)
		return key, true
	}
	if !c.Collapse {
		return key, false
	}
	waiting, asked := c.calling[key]
	if asked {
		n.Joined++
		waiting = append(waiting, follower{j.self, j.gen, j.step})
	}
	c.calling[key] = waiting
	return key, asked
}

// fetched is the end of a call for a key.
func (c *cache) fetched(key int, ok bool) {
	s := c.sim
	if ok && !c.isDown(key) {
		until := clock.Never
		if c.TTL > 0 {
			until = s.now.Add(c.TTL)
		}
		c.put(key, until)
	}
	waiting := c.calling[key]
	delete(c.calling, key)
	for _, f := range waiting {
		if j := s.jobs.get(f.job, f.gen); j != nil {
			s.called(j, f.step, ok)
		}
	}
}

// flush empties the cache of what a CacheDown takes. Nothing comes back while it lasts.
func (c *cache) flush(f *activeFault) {
	for key := range c.Keys.Len() {
		if f.takes(c.sim.seed, key) {
			c.drop(key)
		}
	}
}

// isDown reports whether a key's answer cannot be kept now.
func (c *cache) isDown(key int) bool {
	active := c.sim.services[c.sim.edges[c.edge].To].active
	for i := range active {
		if f := &active[i]; f.Kind == CacheDown && f.takes(c.sim.seed, key) {
			return true
		}
	}
	return false
}

// takes reports whether a CacheDown is for a key: the same ones each time.
func (a *activeFault) takes(seed uint64, key int) bool {
	d := draw.New(seed, forFaults, uint64(a.index)<<56^uint64(key))
	return a.Share <= 0 || d.Yes(a.Share)
}
