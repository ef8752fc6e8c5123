package window

import (
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
)

// naive is a window that remembers everything and forgets nothing.
type naive struct {
	n      int64
	newest int64
	begun  bool
	all    map[int64]Counts // by bucket
}

// number returns which bucket an instant belongs to, counted from the origin of time.
func (w *Window) number(at clock.Instant) int64 {
	width := w.width.Load()
	return (int64(at) - floorMod(int64(at), width)) / width
}

func (m *naive) see(bucket int64) {
	if !m.begun || bucket > m.newest {
		m.newest, m.begun = bucket, true
	}
}

func (m *naive) add(bucket int64, calls, failures, slow uint32) {
	m.see(bucket)
	c := m.all[m.newest]
	sum := Counts{c.Calls + int64(calls), c.Failures + int64(failures), c.Slow + int64(slow)}
	if sum.Calls <= counterMax && sum.Failures <= counterMax {
		m.all[m.newest] = sum
	}
}

func (m *naive) take(at, now int64, calls, failures uint32) bool {
	m.see(now)
	c := m.all[at]
	if at > m.newest || at <= m.newest-m.n || c.Calls < int64(calls) || c.Failures < int64(failures) {
		return false
	}
	m.all[at] = Counts{c.Calls - int64(calls), c.Failures - int64(failures), c.Slow}
	return true
}

func (m *naive) sum(now int64) (c Counts) {
	m.see(now)
	for bucket, v := range m.all {
		if bucket > m.newest-m.n && bucket <= m.newest {
			c.Calls += v.Calls
			c.Failures += v.Failures
			c.Slow += v.Slow
		}
	}
	return c
}

func (m *naive) reset(now int64) { m.newest, m.begun, m.all = now, true, map[int64]Counts{} }

// C8, C11, C12: any calls at any times agree with the naive window.
func FuzzWindow(f *testing.F) {
	f.Add([]byte{4, 2, 0, 9, 1, 8, 40, 2, 3, 200, 4, 1, 7, 5, 0, 0})
	f.Fuzz(func(t *testing.T, script []byte) {
		const buckets, width = 5, 10
		w := Make(buckets*width, buckets)
		m := &naive{n: buckets, all: map[int64]Counts{}}
		now := clock.Instant(-35)
		for ; len(script) >= 3; script = script[3:] {
			op, arg, by := script[0], script[1], clock.Instant(int8(script[2]))
			if by == 127 {
				by = clock.Instant(365 * 24 * time.Hour)
			}
			now += by / 4
			idx := w.number(now)
			calls, failures := uint32(arg>>2&3), uint32(arg>>4&1)
			switch op % 8 {
			case 0:
				at := now - clock.Instant(arg)
				got, want := w.Take(at, now, calls, failures), m.take(w.number(at), idx, calls, failures)
				if got != want {
					t.Fatalf("take of %d at %d: %v, want %v", at, now, got, want)
				}
			case 2:
				w.Reset(now)
				m.reset(idx)
			case 3:
				w.Add(now, counterMax/2, failures, 1)
				m.add(idx, counterMax/2, failures, 1)
			default:
				w.Add(now, calls, failures, uint32(arg>>5&1))
				m.add(idx, calls, failures, uint32(arg>>5&1))
			}
			if got, want := w.Sum(now), m.sum(idx); got != want {
				t.Fatalf("sum at %d: %+v, want %+v", now, got, want)
			}
		}
	})
}

// C12: the same for a million random calls.
func TestAMillionCallsAgreeWithNaive(t *testing.T) {
	const buckets, width = 10, 100
	w := Make(buckets*width, buckets)
	m := &naive{n: buckets, all: map[int64]Counts{}}
	now, x := clock.Instant(0), uint64(1)
	for range 1_000_000 {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		now += clock.Instant(x%16) - 5
		w.Add(now, 1, uint32(x>>8&1), uint32(x>>9&1))
		m.add(w.number(now), 1, uint32(x>>8&1), uint32(x>>9&1))
		if x%8 == 0 {
			for k := range m.all { // the naive one would grow for ever
				if k <= m.newest-buckets {
					delete(m.all, k)
				}
			}
			if got, want := w.Sum(now), m.sum(w.number(now)); got != want {
				t.Fatalf("at %d: %+v, want %+v", now, got, want)
			}
		}
	}
}
