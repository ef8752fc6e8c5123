package budget

import (
	"math"
	"sync/atomic"
)

// BucketRules are the rules of a [Bucket], in thousandths of a token. Negative
// fields count as 0, and the zero BucketRules grant every re-send, because it
// costs nothing.
type BucketRules struct {
	Capacity int64 // the most that the bucket holds, and what it starts with
	Cost     int64 // what one re-send takes
	Refill   int64 // what one success brings
}

// NewBucketRules rounds whole tokens, and a part of a token for each success, to
// [BucketRules].
func NewBucketRules(capacity, cost int, refill float64) BucketRules {
	const limit = math.MaxInt64 / 4
	return BucketRules{
		Capacity: rounded(float64(capacity), 1000, limit),
		Cost:     rounded(float64(cost), 1000, limit),
		Refill:   rounded(refill, 1000, limit),
	}
}

// Bucket is a budget of tokens: re-sends take them, successes bring them back, time does
// nothing. An idle client has as many later as now.
//
// The zero Bucket is full. All methods are safe for concurrent use and take no
// lock. A Bucket must not be copied after first use.
type Bucket struct {
	// spent is how far the level is below the capacity. So zero means full, whatever the
	// capacity. It is never negative.
	spent atomic.Int64
}

// TryWithdraw takes the cost of one re-send if the bucket holds so much. Re-sends
// of different costs pass rules that differ in Cost.
func (b *Bucket) TryWithdraw(r BucketRules) bool {
	cost := max(r.Cost, 0)
	for {
		spent := b.spent.Load()
		if cost > max(r.Capacity, 0)-spent && cost > 0 {
			return false
		}
		if b.spent.CompareAndSwap(spent, spent+cost) {
			return true
		}
	}
}

// Refund brings back the cost of a re-send that was not made, or that succeeded
// where the rules say so.
func (b *Bucket) Refund(r BucketRules) { b.fill(r.Capacity, r.Cost) }

// Refill brings what one success is worth. The bucket never holds more than its
// capacity.
func (b *Bucket) Refill(r BucketRules) { b.fill(r.Capacity, r.Refill) }

// fill first forgets what was spent beyond the capacity: a reload may have made it
// smaller than what was spent before.
func (b *Bucket) fill(capacity, tokens int64) {
	for {
		spent := b.spent.Load()
		if spent == 0 || tokens <= 0 {
			return
		}
		left := max(min(spent, max(capacity, 0))-tokens, 0)
		if b.spent.CompareAndSwap(spent, left) {
			return
		}
	}
}

// Level returns what the bucket holds, in thousandths of a token.
func (b *Bucket) Level(r BucketRules) int64 {
	return max(max(r.Capacity, 0)-b.spent.Load(), 0)
}

// Drain takes the cost of one failure, or what is left if that is less. It is for
// budgets that failures spend, as the retry throttling of gRPC.
func (b *Bucket) Drain(r BucketRules) {
	capacity := max(r.Capacity, 0)
	for {
		spent := b.spent.Load()
		after := capacity
		if cost := max(r.Cost, 0); cost < capacity-spent {
			after = spent + cost
		}
		if after <= spent || b.spent.CompareAndSwap(spent, after) {
			return
		}
	}
}

// OverHalf reports whether the bucket holds more than half of its capacity.
func (b *Bucket) OverHalf(r BucketRules) bool { return b.Level(r) > max(r.Capacity, 0)/2 }
