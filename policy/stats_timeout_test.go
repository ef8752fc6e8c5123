package policy

import (
	"testing"
	"time"
)

func TestTheLongestTimeoutOfPartitionsIsTheDependencys(t *testing.T) {
	one := func(d time.Duration, n int64) PartitionStats {
		return PartitionStats{Timeout: TimeoutStats{Attempt: d, Samples: n}}
	}
	for _, c := range []struct {
		s    Stats
		want time.Duration
	}{
		{Stats{Main: one(4, 0)}, 4},
		{Stats{Main: one(4, 0), Partitions: []PartitionStats{one(1, 9), one(2, 9)}}, 2},
		{Stats{Main: one(4, 9), Partitions: []PartitionStats{one(1, 9)}}, 4},
	} {
		if got := c.s.AttemptTimeout(); got.Attempt != c.want {
			t.Errorf("%v, want %v", got.Attempt, c.want)
		}
	}
}
