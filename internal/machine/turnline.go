package machine

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	"github.com/gabion-go/gabion/internal/bulkhead"
	"github.com/gabion-go/gabion/internal/clock"
)

// This file is who waits for a turn of a share, and moves up when its rate changes.

// turnLine has the calls that wait for a turn of a share. They are woken when its rate changes.
type turnLine struct {
	mu      sync.Mutex
	last    uint64            // place that was given
	waiting map[uint64]inLine // by place, as a call whose address is kept would cost each call an allocation
}

type inLine struct {
	turn  clock.Instant
	place uint64
	waker bulkhead.Waker
}

// wake lets all ask again, those with the earliest turns first. There may be tens of thousands, so it is called under no lock
// that other dependencies need. A nil line has none.
func (l *turnLine) wake() {
	if l == nil {
		return
	}
	l.mu.Lock()
	all := slices.Collect(maps.Values(l.waiting))
	l.mu.Unlock()
	slices.SortFunc(all, func(a, b inLine) int {
		return cmp.Or(cmp.Compare(a.turn, b.turn), cmp.Compare(a.place, b.place))
	})
	for _, one := range all {
		one.waker.Wake()
	}
}

// late returns the line of those who wait for turns of another rate than that of r, which is in force: nil if it is the same.
func (r *Rules) late(old *Rules) *turnLine {
	if old.rate == r.rate {
		return nil
	}
	return r.line
}

// lineUp lets another rate wake the call while it waits for its turn. Without a waker the call notices at its turn.
func (c *Call) lineUp() {
	if c.waker == nil || c.taken.under == nil || c.taken.place != 0 {
		return
	}
	l := c.taken.under.line
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last++
	c.taken.place = l.last
	l.waiting[l.last] = inLine{c.taken.turn, l.last, c.waker}
}

func (c *Call) leaveLine() {
	if c.taken.place == 0 {
		return
	}
	l := c.taken.under.line
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.waiting, c.taken.place)
	c.taken.place = 0
}
