package policy

import (
	"runtime"
	"strconv"
	"sync"
	"testing"

	"github.com/gabion-go/gabion/clock"
)

// A hundred thousand partitions with a breaker each take less than 100 MiB on
// however many processors: their counters are divided only where calls meet.
func TestHundredThousandPartitionsFitInAHundredMiB(t *testing.T) {
	const partitions = 100_000
	names := make([]string, partitions)
	for i := range names {
		names[i] = strconv.Itoa(i)
	}
	for _, processors := range []int{2, 128} {
		got := bytesOf(func() any {
			s := keyedState(t, processors, partitions)
			for _, name := range names {
				callOnce(s, name, 0, 0)
			}
			if n := len(s.partitions().byName); n != partitions {
				t.Fatalf("%d partitions", n)
			}
			return s
		})
		t.Logf("%3d processors: %d bytes a partition, its place in the map included", processors, got/partitions)
		if got > 100<<20 || got/partitions > 700 {
			t.Errorf("%d processors: %d MiB, %d bytes a partition", processors, got>>20, got/partitions)
		}
	}
}

// bytesOf returns what make holds on to in the end.
func bytesOf(make func() any) int {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	kept := make()
	runtime.GC()
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(kept)
	return int(after.HeapAlloc) - int(before.HeapAlloc)
}

// keyedState sets the processors for as long as the test runs, and as many shards
// as the front door asks for.
func keyedState(t *testing.T, processors, partitions int) *State {
	before := runtime.GOMAXPROCS(processors)
	t.Cleanup(func() { runtime.GOMAXPROCS(before) })
	r, err := Compile(Policy{Breaker: Breaker{Partitions: partitions}})
	if err != nil {
		t.Fatal(err)
	}
	return NewState(0, r, Setup{Shards: 2 * processors, Seed: 1})
}

func callOnce(s *State, name string, now clock.Instant, shard uint32) {
	var c Call
	c.Begin(s, now, &Params{Partition: name, Safe: true, Shard: shard})
	c.Settle(now, c.Next(now).Ticket, Outcome{})
	c.Next(now)
}

// Every call through a partition that is divided meanwhile is in its counts.
func TestBusyPartitionCountsEveryCall(t *testing.T) {
	const callers, each = 8, 5000
	s := keyedState(t, callers, 10)
	var wg sync.WaitGroup
	for shard := range uint32(callers) {
		wg.Go(func() {
			for range each {
				callOnce(s, "busy", 1, shard)
			}
		})
	}
	wg.Wait()
	if got := s.Breaker("busy").Snapshot(1).Counts.Calls; got != callers*each {
		t.Errorf("%d calls, want %d", got, callers*each)
	}
}
