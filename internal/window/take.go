package window

import "github.com/gabion-go/gabion/internal/clock"

// Take takes back calls and failures that were added at an earlier time. It
// reports false, and changes nothing, when that bucket is forgotten or does not
// hold so much. Pass the shard that was added to; others are tried after it.
func (w *Window) Take(at, now clock.Instant, shard uint32, calls, failures uint32) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.turnLocked(now)
	last := clock.Instant(w.end.Load() - 1)
	age := int64(last.Sub(at)) / w.width.Load()
	if at > last || age >= int64(w.n) {
		return false
	}
	then := place(w.cur.Load()).back(int(age), int(w.step), w.row())
	for i := range uint32(w.mask) + 1 {
		if w.take(then, w.cell(then, shard+i), calls, failures) {
			return true
		}
	}
	return false
}

// takeCall takes a call that did not fail, and was slow or not, out of the bucket at
// that place.
func (w *Window) takeCall(at place, now clock.Instant, shard uint32, slow bool) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.turnLocked(now)
	for i := range uint32(w.mask) + 1 {
		if w.takeGood(at, w.cell(at, shard+i)) {
			if slow && w.step == 2 {
				w.takeSlow(at, shard)
			}
			return true
		}
	}
	return false
}

func (w *Window) takeSlow(at place, shard uint32) {
	for i := range uint32(w.mask) + 1 {
		if w.take(at, w.cell(at, shard+i)+1, 1, 0) {
			return
		}
	}
}

// takeGood takes one call out of a cell that holds one that did not fail.
func (w *Window) takeGood(at place, cell int) bool {
	both := word(w.cells[cell].Load())
	return both.tag() == at.tag() && both.first() > both.second() && w.take(at, cell, 1, 0)
}

func (w *Window) take(at place, cell int, first, second uint32) bool {
	c := &w.cells[cell]
	for {
		old := word(c.Load())
		rest, ok := old.minus(first, second)
		if !ok || old.tag() != at.tag() {
			return false
		}
		if c.CompareAndSwap(uint64(old), uint64(rest)) {
			return true
		}
	}
}
