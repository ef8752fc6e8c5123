package budget

import (
	"math"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gabion-go/gabion/internal/chance"
)

func TestBucketStartsFullAndStopsAtCapacity(t *testing.T) {
	r := NewBucketRules(100, 1, 0.1)
	var b Bucket
	for i := range 100 {
		if !b.TryWithdraw(r) {
			t.Fatalf("withdrawal %d of 100 refused", i+1)
		}
	}
	if b.TryWithdraw(r) || b.Level(r) != 0 {
		t.Fatal("the 101st was granted")
	}
	for range 5000 {
		b.Refill(r)
		b.Refund(r)
	}
	if got := b.Level(r); got != 100_000 {
		t.Errorf("level %d after many successes", got)
	}
}

// C87: drained, then successes, and there are re-sends again.
func TestBucketRefillsBySuccess(t *testing.T) {
	r := NewBucketRules(3, 1, 0.1)
	var b Bucket
	for b.TryWithdraw(r) {
	}
	for i := range 10 {
		if b.TryWithdraw(r) {
			t.Fatalf("granted after %d successes", i)
		}
		b.Refill(r)
	}
	if !b.TryWithdraw(r) || b.TryWithdraw(r) {
		t.Error("ten successes of 0.1 are one token")
	}
}

// C85 and C86: a quota with costs is the same bucket under rules that differ in
// what a failure costs.
func TestBucketAsQuotaWithCosts(t *testing.T) {
	ordinary, throttled := NewBucketRules(500, 14, 1), NewBucketRules(500, 5, 1)
	var b Bucket
	level := func(want int64) {
		t.Helper()
		if got := b.Level(ordinary); got != want*1000 {
			t.Fatalf("level %d, want %d", got, want*1000)
		}
	}
	for _, want := range []int64{486, 472, 458} {
		b.TryWithdraw(ordinary)
		level(want)
	}
	for range 32 {
		b.TryWithdraw(ordinary)
	}
	level(10)
	if b.TryWithdraw(ordinary) {
		t.Fatal("the 36th was granted")
	}
	if !b.TryWithdraw(throttled) {
		t.Fatal("a cheap one was refused")
	}
	level(5)
	b.Refund(throttled) // a success after a retry returns the last cost
	level(10)
	b.Refill(ordinary) // a success at the first try
	level(11)
}

// C84, and A6 of gRPC: failures take a token each and never more than there are, and half
// of the capacity must be left.
func TestBucketAsRetryThrottling(t *testing.T) {
	r := NewBucketRules(10, 1, 0.1)
	var b Bucket
	for i, want := range []bool{true, true, true, true, false, false, false, false, false, false, false, false} {
		if b.Drain(r); b.OverHalf(r) != want {
			t.Errorf("after %d failures: %v", i+1, !want)
		}
	}
	if got := b.Level(r); got != 0 {
		t.Errorf("level %d after twelve failures", got)
	}
	for range 50 {
		b.Refill(r)
	}
	if b.OverHalf(r) {
		t.Error("half of the tokens is not more than half")
	}
	if b.Refill(r); !b.OverHalf(r) || b.Level(r) != 5100 {
		t.Errorf("level %d after 51 successes", b.Level(r))
	}
	odd := NewBucketRules(5, 1, 0.1)
	var half Bucket
	if half.Drain(odd); !half.OverHalf(odd) {
		t.Error("four of five")
	}
	if half.Drain(odd); !half.OverHalf(odd) {
		t.Error("three of five are more than two and a half")
	}
	if half.Drain(odd); half.OverHalf(odd) {
		t.Error("two of five are less than two and a half")
	}
}

func TestBucketUnderOtherRules(t *testing.T) {
	var b Bucket
	large, small := NewBucketRules(500, 500, 1), NewBucketRules(10, 1, 1)
	b.TryWithdraw(large)
	if b.TryWithdraw(small) || b.Level(small) != 0 {
		t.Error("a smaller bucket is not empty after the large one was drained")
	}
	b.Refill(small)
	if got := b.Level(small); got != 1000 {
		t.Errorf("level %d: debts beyond the capacity are forgotten", got)
	}
	free, nothing := BucketRules{}, BucketRules{Capacity: -5, Cost: 1}
	if !b.TryWithdraw(free) || b.TryWithdraw(nothing) || b.Level(nothing) != 0 {
		t.Error("no cost is granted, no capacity is refused")
	}
	huge := BucketRules{math.MaxInt64, math.MaxInt64, math.MaxInt64}
	var full Bucket
	if !full.TryWithdraw(huge) || full.TryWithdraw(huge) {
		t.Error("the largest bucket holds one of the largest cost")
	}
	full.Refill(huge)
	if full.Level(huge) != math.MaxInt64 {
		t.Error("and is full again")
	}
	negative := BucketRules{1000, -1000, -1000}
	full.TryWithdraw(BucketRules{Capacity: 1000, Cost: 300})
	full.Refill(negative)
	full.Refund(negative)
	full.Drain(negative)
	if !full.TryWithdraw(negative) || full.Level(negative) != 700 {
		t.Error("negative rules took or gave")
	}
	full.Drain(nothing)
	full.Drain(huge)
	if full.Level(huge) != 0 || full.OverHalf(nothing) {
		t.Error("the largest cost leaves something, or no capacity is more than half")
	}
}

func TestGoroutinesShareOneBucket(t *testing.T) {
	r := NewBucketRules(1_000_000, 1, 1)
	var b Bucket
	var granted atomic.Int64
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for b.TryWithdraw(r) {
				granted.Add(1)
			}
		})
	}
	all.Wait()
	if got := granted.Load(); got != 1_000_000 {
		t.Errorf("%d tokens out of a million", got)
	}
}

// Failures and successes of several goroutines leave nothing below zero or above the
// capacity.
func TestGoroutinesDrainOneBucket(t *testing.T) {
	r := NewBucketRules(100, 3, 2)
	var b Bucket
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for n := range 20_000 {
				if chance.Bits(uint64(i), uint64(n), 0, 0)>>63 == 0 {
					b.Drain(r)
				} else {
					b.Refill(r)
				}
				if spent := b.spent.Load(); spent < 0 || spent > r.Capacity {
					t.Errorf("%d of %d are spent", spent, r.Capacity)
					return
				}
			}
		})
	}
	all.Wait()
}

func FuzzBucket(f *testing.F) {
	f.Add([]byte{1, 200, 3, 4, 250, 6})
	f.Fuzz(sameAsLevel)
}

func TestRandomBucketScripts(t *testing.T) {
	for seed := range uint64(200) {
		script := make([]byte, 400)
		for i := range script {
			script[i] = byte(chance.Bits(seed, uint64(i), 0, 0) >> 32)
		}
		sameAsLevel(t, script)
	}
}

// sameAsLevel compares a Bucket with a level kept the obvious way.
func sameAsLevel(t *testing.T, script []byte) {
	r := BucketRules{Capacity: 1000}
	level := r.Capacity
	var b Bucket
	for i, step := range script {
		amount := int64(step>>2) * 7
		if step == 255 {
			r.Cost = 400
			b.Drain(r)
			level = max(level-400, 0)
			continue
		}
		r.Cost, r.Refill = amount, amount
		switch step & 3 {
		case 0:
			b.Refill(r)
			level = min(level+amount, r.Capacity)
		case 1:
			b.Refund(r)
			level = min(level+amount, r.Capacity)
		default:
			if ok := b.TryWithdraw(r); ok != (amount <= level) {
				t.Fatalf("step %d: %d of %d: %v", i, amount, level, ok)
			} else if ok {
				level -= amount
			}
		}
		if b.Level(r) != level || b.OverHalf(r) != (2*level > r.Capacity) {
			t.Fatalf("step %d: level %d, want %d", i, b.Level(r), level)
		}
	}
}
