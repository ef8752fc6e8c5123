// Package engine is the heart of a simulation: what happens next.
//
// A [Queue] is a monotone radix heap (Ahuja, Mehlhorn, Orlin, Tarjan, "Faster
// algorithms for the shortest path problem", JACM 37, 1990). A simulator never
// schedules into the past, so an entry only ever moves to lower buckets, at most
// once for each bit of its distance, and the price of an entry hardly grows with
// how many are pending. Times are whole nanoseconds, and entries of one instant
// come out in the order in which they went in, so that the same run gives the same
// order on every machine.
package engine

import (
	"math/bits"

	"github.com/gabion-go/gabion/internal/clock"
)

// Entry is something that happens at a time.
type Entry[T any] struct {
	At   clock.Instant
	What T
}

// Queue holds what will happen. The zero Queue is empty and its time is the
// earliest there is. It is not safe for concurrent use.
//
// Only Pop takes entries out. An entry that may grow stale carries a generation, and its scheduler
// ignores it when it comes.
type Queue[T any] struct {
	now     uint64         // of the entry that came out last, as a key
	next    int            // the first entry of buckets[0] that has not come out
	filled  [2]uint64      // which buckets hold anything
	buckets [65][]Entry[T] // by the highest bit in which the time differs from now
	n       int
}

// key orders instants as unsigned numbers: the earliest is zero.
func key(t clock.Instant) uint64 { return uint64(t) ^ 1<<63 }

func instant(k uint64) clock.Instant { return clock.Instant(k ^ 1<<63) }

// Len returns how many entries are pending.
func (q *Queue[T]) Len() int { return q.n }

// Now returns the time of the entry that came out last.
func (q *Queue[T]) Now() clock.Instant { return instant(q.now) }

// Push schedules an entry. One in the past happens now.
func (q *Queue[T]) Push(at clock.Instant, what T) {
	k := max(key(at), q.now)
	q.put(bits.Len64(k^q.now), Entry[T]{instant(k), what})
	q.n++
}

func (q *Queue[T]) put(bucket int, e Entry[T]) {
	q.buckets[bucket] = append(q.buckets[bucket], e)
	q.filled[bucket>>6] |= 1 << (bucket & 63)
}

// Peek returns when the next entry is due; false when nothing is pending.
func (q *Queue[T]) Peek() (clock.Instant, bool) {
	if q.n == 0 {
		return 0, false
	}
	if q.next == len(q.buckets[0]) {
		q.refill()
	}
	return q.buckets[0][q.next].At, true
}

// Due is Peek for those who may still push what comes before that: it moves no time on,
// and looks at many entries.
func (q *Queue[T]) Due() (clock.Instant, bool) {
	switch {
	case q.n == 0:
		return 0, false
	case q.next < len(q.buckets[0]):
		return q.buckets[0][q.next].At, true
	}
	q.buckets[0], q.next = q.buckets[0][:0], 0
	q.filled[0] &^= 1
	from := q.buckets[q.lowest()]
	least := from[0].At
	for _, e := range from[1:] {
		least = min(least, e.At)
	}
	return least, true
}

// Pop returns the next entry; false when nothing is pending.
func (q *Queue[T]) Pop() (Entry[T], bool) {
	if q.n == 0 {
		return Entry[T]{}, false
	}
	if q.next == len(q.buckets[0]) {
		q.refill()
	}
	e := q.buckets[0][q.next]
	q.next++
	q.n--
	return e, true
}

// refill moves time on to the earliest entry, and spreads its bucket over the
// lower ones. All entries of one instant are always in one bucket, in order, and
// are moved in order.
func (q *Queue[T]) refill() {
	q.buckets[0] = q.buckets[0][:0]
	q.next = 0
	q.filled[0] &^= 1
	b := q.lowest()
	from := q.buckets[b]
	least := key(from[0].At)
	for i := 1; i < len(from); i++ {
		least = min(least, key(from[i].At))
	}
	q.now = least
	q.filled[b>>6] &^= 1 << (b & 63)
	for i := range from {
		q.put(bits.Len64(key(from[i].At)^least), from[i])
	}
	q.buckets[b] = from[:0]
}

// lowest returns the lowest bucket that holds anything.
func (q *Queue[T]) lowest() int {
	if q.filled[0] != 0 {
		return bits.TrailingZeros64(q.filled[0])
	}
	return 64
}
