package window

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
)

// Line is a cache line of words for whoever keeps something beside a [Tally].
type Line [line]atomic.Uint64

// MakeTallyBeside is [MakeTally] with a [Line] for each shard and one that they
// have in common, in the same piece of memory and zero at first. With one shard
// there are none.
func MakeTallyBeside(span time.Duration, buckets, shards int) (t Tally) {
	t.lay(span, buckets, shards, 1)
	if n := t.Shards(); n > 1 {
		t.win.cells = make([]atomic.Uint64, len(t.win.cells)+(n+1)*line)
		t.kept()[stamp].Store(unknown)
	}
	return
}

// Shards returns how many shards there are.
func (t *Tally) Shards() int { return int(t.win.mask) + 1 }

// Beside returns the line of a shard. The Tally must be one of [MakeTallyBeside]
// with more than one shard.
func (t *Tally) Beside(shard uint32) *Line {
	return t.lineOf(int(shard & uint32(t.win.mask)))
}

// Common returns the line that the shards have in common, under the conditions
// of [Tally.Beside].
func (t *Tally) Common() *Line { return t.lineOf(t.Shards()) }

// lineOf returns a line by its number. They lie between the cells and what is
// kept.
func (t *Tally) lineOf(i int) *Line {
	return (*Line)(t.win.cells[(t.Shards()*int(t.win.lines)+i)*line:])
}

// Turn returns a number that changes with the window, as [Window.Turn] does.
func (t *Tally) Turn() uint32 { return t.win.Turn() }

// Begin returns when the newest bucket begins, and the earliest instant there is
// before anything was added.
func (t *Tally) Begin() clock.Instant {
	width := t.win.width.Load()
	return clock.Instant(max(t.win.end.Load(), math.MinInt64+width) - width)
}

// AddIn counts calls and failures at now if the newest bucket is still that of
// turn, now lies in it and all fits in, and returns when that bucket begins and
// ends. Else it changes nothing.
func (t *Tally) AddIn(turn uint32, now clock.Instant, shard uint32, calls, failures uint32) (begin, end clock.Instant, ok bool) {
	w := &t.win
	w.mu.Lock()
	defer w.mu.Unlock()
	end = clock.Instant(w.end.Load())
	begin = end.Add(-time.Duration(w.width.Load()))
	if w.cur.Load() != turn || now < begin || now >= end {
		return 0, 0, false
	}
	at := place(turn)
	how := w.add(at, w.cell(at, shard), calls, failures, 0)
	return begin, end, how == landed || how == pushed
}
