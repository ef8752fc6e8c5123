package budget

import (
	"math/bits"
	"sync/atomic"
)

// maxShards is the most that a number is counted on; more processors share.
const maxShards = 256

// counters is one number. It is counted on one word, until two that count it meet there, and from then on for each
// shard on a cache line of its own: of a registry's names few are that busy.
type counters struct {
	one    atomic.Uint64
	shards atomic.Pointer[[]padded] // nil until two have met
	most   uint16                   // how many shards are made then; up to 1 means none
}

type padded struct {
	n atomic.Uint64
	_ [56]byte
}

// bound sets how many shards there may be, rounded up to a power of two.
func (c *counters) bound(shards int) {
	c.most = 1 << bits.Len(uint(min(max(shards, 1), maxShards)-1))
}

// add adds n, and returns what the word has with it on which it was counted.
func (c *counters) add(shard uint32, n uint64) uint64 {
	if s := c.shards.Load(); s != nil {
		return (*s)[int(shard)&(len(*s)-1)].n.Add(n)
	}
	if old := c.one.Load(); c.one.CompareAndSwap(old, old+n) {
		return old + n
	}
	return c.met(shard, n)
}

// met is add where another was quicker.
func (c *counters) met(shard uint32, n uint64) uint64 {
	if c.most <= 1 {
		return c.one.Add(n)
	}
	if c.shards.Load() == nil {
		s := make([]padded, c.most)
		c.shards.CompareAndSwap(nil, &s)
	}
	return c.add(shard, n)
}

func (c *counters) sum() (n uint64) {
	n = c.one.Load()
	if s := c.shards.Load(); s != nil {
		for i := range *s {
			n += (*s)[i].n.Load()
		}
	}
	return n
}
