package gabionprom

import (
	"context"
	"math/bits"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gabion-go/gabion/internal/adapter"
	"github.com/gabion-go/gabion/policy"
)

// maxPiles bounds the shards of an operation.
const maxPiles = 64

// numPiles is how many shards there are: at least as many as goroutines run at once.
var numPiles = min(1<<bits.Len(uint(runtime.GOMAXPROCS(0)-1)), maxPiles)

// piles count the plain successes of an operation. Each of them is made when it is first needed.
type piles []atomic.Pointer[pile]

// A pile is one shard. Its lock is mostly free, and taking it and giving it back locks a cache line
// twice: to add to three numbers without it would do so three times.
type pile struct {
	mu   sync.Mutex
	took tallied // attempts, and so calls
	left tallied
	slow uint64
	_    [64]byte // the next in memory may be another's
}

// tallied is a histogram for one goroutine at a time. The zero value is ready.
type tallied struct {
	place  [numBlocks]uint8 // of each block among blocks, from 1; zero before there is one
	blocks [][blockSize]uint64
	nanos  int64 // less than wrap
	wraps  uint64
}

func (c *tallied) observe(d time.Duration) {
	d = max(d, 0)
	if c.nanos += min(int64(d), longest); c.nanos >= wrap {
		c.wraps++
		c.nanos -= wrap
	}
	cell := cells.find(d)
	at := &c.place[cell/blockSize]
	if *at == 0 {
		c.blocks = append(c.blocks, [blockSize]uint64{})
		*at = uint8(len(c.blocks))
	}
	c.blocks[*at-1][cell%blockSize]++
}

// into adds what was counted to a histogram that no other goroutine has.
func (c *tallied) into(h *histogram) {
	for i, at := range c.place {
		if at == 0 {
			continue
		}
		b := h.blocks[i].Load()
		if b == nil {
			b = new(block)
			h.blocks[i].Store(b)
		}
		for cell, n := range c.blocks[at-1] {
			b[cell].Add(n)
		}
	}
	h.wraps.Add(c.wraps)
	if h.nanos.Add(c.nanos) >= wrap {
		h.wraps.Add(1)
		h.nanos.Add(-wrap)
	}
}

// Tally counts a plain success. It implements adapter.Tallier.
func (m *Metrics) Tally(ctx context.Context, s adapter.PlainSuccess) {
	o := m.operation(s.Dependency, s.Operation)
	at := &o.plain[int(s.Shard)&(len(o.plain)-1)]
	p := at.Load()
	if p == nil {
		at.CompareAndSwap(nil, new(pile))
		p = at.Load()
	}
	p.mu.Lock()
	p.took.observe(s.Took)
	if s.Left != policy.NoDeadline {
		p.left.observe(s.Left)
	}
	if s.Slow {
		p.slow++
	}
	p.mu.Unlock()
	if m.config.Exemplar != nil {
		m.exemplify(ctx, o.took[success][0].get(), s.Took)
		m.exemplify(ctx, o.done[kindFirst].get(), s.Took)
	}
}

// sum adds up what was counted. Took is nil where nothing was. Left is added to.
func (p piles) sum(left *histogram) (took *histogram, slow uint64) {
	for i := range p {
		one := p[i].Load()
		if one == nil {
			continue
		}
		if took == nil {
			took = new(histogram)
		}
		one.add(took, left, &slow)
	}
	return took, slow
}

func (p *pile) add(took, left *histogram, slow *uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.took.into(took)
	p.left.into(left)
	*slow += p.slow
}

// unused reports whether nothing was counted.
func (p piles) unused() bool {
	for i := range p {
		if p[i].Load() != nil {
			return false
		}
	}
	return true
}
