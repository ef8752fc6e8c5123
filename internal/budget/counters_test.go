package budget

import (
	"sync"
	"testing"
)

// A number keeps its sum when it gets shards, and gets them only where two have met.
func TestANumberGetsShardsWhereTwoMeet(t *testing.T) {
	for _, c := range []struct {
		fact         string
		shards, want int
	}{
		{"three are rounded up", 3, 4},
		{"more than most are most", 1000, maxShards},
		{"one word is enough for one", 1, 0},
		{"none means one word", 0, 0},
	} {
		t.Run(c.fact, func(t *testing.T) {
			var n counters
			n.bound(c.shards)
			for shard := range uint32(10) {
				if got := n.add(shard, 1); got != uint64(shard)+1 {
					t.Fatalf("the %d. is number %d of the one word", shard+1, got)
				}
			}
			if n.shards.Load() != nil {
				t.Fatal("there are shards though nobody met")
			}
			n.met(7, 1)
			n.add(8, ^uint64(0))
			got := 0
			if s := n.shards.Load(); s != nil {
				got = len(*s)
			}
			if got != c.want || n.sum() != 10 {
				t.Errorf("%d shards with a sum of %d, want %d and 10", got, n.sum(), c.want)
			}
		})
	}
}

func TestANumberLosesNothingWhileItGetsShards(t *testing.T) {
	const callers, each = 4, 20_000
	var n counters
	n.bound(4)
	var all sync.WaitGroup
	for shard := range uint32(callers) {
		all.Go(func() {
			for i := range each {
				if n.add(shard, 1); i == each/2 {
					n.met(shard, 1)
				}
			}
		})
	}
	all.Wait()
	if got := n.sum(); got != callers*(each+1) {
		t.Errorf("%d were counted of %d", got, callers*(each+1))
	}
}
