package overload

import (
	"fmt"
	"testing"
	"time"

	"github.com/gabion-go/gabion/gabiontest"
)

// brief is a world for a test in real time: a quarter of a minute.
func brief() *World {
	w := Small
	w.Before, w.Trigger, w.After = 2*time.Second, 4*time.Second, 6*time.Second
	return &w
}

// TestOverTCPTheServerCollapses is the same over loopback in real time.
func TestOverTCPTheServerCollapses(t *testing.T) {
	overTCP(t, brief(), Case{Bare, Naive}, func(_ *Run, f Figures) (wrong []string) {
		if f.Trigger.Goodput > 0.4 || f.After.Goodput > 0.1 { // in the first of four seconds the queue is short
			wrong = append(wrong, fmt.Sprintf("goodput was %.2f of the capacity under overload and %.2f afterwards: that is no collapse", f.Trigger.Goodput, f.After.Goodput))
		}
		if f.Recovery != Never {
			wrong = append(wrong, fmt.Sprintf("it recovered in %g s", f.Recovery))
		}
		return wrong
	})
}

// TestOverTCPAdmissionKeepsTheServerAtItsCapacity is the other side of it.
func TestOverTCPAdmissionKeepsTheServerAtItsCapacity(t *testing.T) {
	overTCP(t, brief(), Case{Fixed, Naive}, func(_ *Run, f Figures) (wrong []string) {
		if f.Trigger.Goodput < 0.8 { // a worker that is free waits for a goroutine to be scheduled
			wrong = append(wrong, fmt.Sprintf("goodput was %.2f of the capacity under overload", f.Trigger.Goodput))
		}
		if f.Recovery == Never || f.Recovery > 5 {
			wrong = append(wrong, fmt.Sprintf("recovery took %g s", f.Recovery))
		}
		return wrong
	})
}

// overTCP runs a case and judges it. What a machine that is late does to calls of 100 ms is
// no fault of the server's: when it was, and something is wrong, it runs once more, and then
// nothing is judged. The tests in a bubble always judge.
func overTCP(t *testing.T, w *World, c Case, judge func(*Run, Figures) (wrong []string)) {
	t.Helper()
	gabiontest.NoLeaks(t)
	for try := 1; ; try++ {
		r, err := w.Run(c, Loopback{})
		if err != nil {
			t.Fatal(err)
		}
		wrong := judge(r, r.Figures())
		t.Logf("%s: a request takes %s when the server is idle, p99 %s; the machine was %s", c, r.Ping.Median, r.Ping.P99, r.Late)
		if len(wrong) > 0 && r.Late.TooMuch() {
			if try == 1 {
				continue
			}
			t.Skipf("not judged: this machine was too late twice, and then %s", wrong)
		}
		for _, text := range wrong {
			t.Error(text)
		}
		return
	}
}
