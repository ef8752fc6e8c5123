package gabiontest

import (
	"maps"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gabion-go/gabion"
)

// NoLeaks fails the test if at its end goroutines run that were started since. It
// looks again for a few seconds before it says so, since goroutines need a moment
// to go. Those of tests that run in parallel are not told apart.
func NoLeaks(t testing.TB) {
	t.Helper()
	before := goroutines()
	t.Cleanup(func() {
		if left := settle(before); len(left) > 0 {
			t.Errorf("%d goroutines were started and are left\n%s", len(left), strings.Join(left, "\n\n"))
		}
	})
}

// settle waits until only goroutines of before are left, for up to five seconds, and
// returns the stacks of the others.
func settle(before map[string]string) []string {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	left := others(before)
	for n := 0; n < 500 && len(left) > 0; n++ {
		<-tick.C
		left = others(before)
	}
	return left
}

func others(than map[string]string) []string {
	now := goroutines()
	maps.DeleteFunc(now, func(id, _ string) bool { return than[id] != "" })
	return slices.Collect(maps.Values(now))
}

// goroutines returns the stacks of all goroutines by their numbers, none of which is
// given twice. To count them is not enough: one that is about to end, as that of the
// test before is, would make room for one that stays.
func goroutines() map[string]string {
	buf := make([]byte, 1<<16)
	n := runtime.Stack(buf, true)
	for n == len(buf) {
		buf = make([]byte, 2*len(buf))
		n = runtime.Stack(buf, true)
	}
	stacks := map[string]string{}
	for stack := range strings.SplitSeq(string(buf[:n]), "\n\n") {
		_, rest, _ := strings.Cut(stack, " ") // goroutine 7 [running]:
		id, _, _ := strings.Cut(rest, " ")
		stacks[id] = stack
	}
	return stacks
}

// NothingHeld fails the test if d holds anything for calls that are over: slots,
// places in the queue, probes.
func NothingHeld(t testing.TB, d *gabion.Dependency) {
	t.Helper()
	s := d.Stats()
	if b := s.Bulkhead; b.InUse != 0 || b.Queued != 0 {
		t.Errorf("%s: %d slots in use and %d calls queued, with no call under way", s.Name, b.InUse, b.Queued)
	}
	if s.Streams != 0 {
		t.Errorf("%s: %d results are still open, such as unclosed response bodies", s.Name, s.Streams)
	}
	for _, part := range append(s.Partitions, s.Main) {
		if p := part.Breaker.Probes; p != 0 {
			t.Errorf("%s %s: %d probes out, with no call under way", s.Name, part.Name, p)
		}
		for i := range part.Quotas {
			if q := &part.Quotas[i]; q.Waiting != 0 {
				t.Errorf("%s %s: %d calls wait for %s, with no call under way", s.Name, part.Name, q.Waiting, q.Name())
			}
		}
	}
}
