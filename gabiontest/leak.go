package gabiontest

import (
	"runtime"
	"testing"
	"time"

	"github.com/gabion-go/gabion"
)

// NoLeaks fails the test if at its end more goroutines run than now. It looks
// again for a few seconds before it says so, since goroutines need a moment to go.
func NoLeaks(t testing.TB) {
	t.Helper()
	before := runtime.NumGoroutine()
	t.Cleanup(func() {
		if left := settle(before); left > before {
			stacks := make([]byte, 1<<20)
			t.Errorf("%d goroutines at the start, %d at the end\n%s", before, left, stacks[:runtime.Stack(stacks, true)])
		}
	})
}

// settle waits until no more goroutines run than before, for up to five seconds.
func settle(before int) int {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for range 500 {
		if runtime.NumGoroutine() <= before {
			break
		}
		<-tick.C
	}
	return runtime.NumGoroutine()
}

// NothingHeld fails the test if d holds anything for calls that are over: slots,
// places in the queue, probes.
func NothingHeld(t testing.TB, d *gabion.Dependency) {
	t.Helper()
	s := d.Stats()
	if b := s.Bulkhead; b.InUse != 0 || b.Queued != 0 {
		t.Errorf("%s: %d slots in use and %d calls queued, with no call under way", s.Name, b.InUse, b.Queued)
	}
	for _, lane := range append(s.Partitions, s.Main) {
		if p := lane.Breaker.Probes; p != 0 {
			t.Errorf("%s %s: %d probes out, with no call under way", s.Name, lane.Name, p)
		}
	}
}
