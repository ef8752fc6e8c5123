package ratelimit

import (
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
)

var perMs = Rules{time.Millisecond, 1}

// reserved returns a limiter of which the turns at 0, 1, … n-1 ms are taken.
func reserved(t *testing.T, n int) *Limiter {
	t.Helper()
	l := new(Limiter)
	for k := range n {
		if at, ok := l.Reserve(0, perMs, time.Hour); !ok || at != clock.Instant(k)*ms {
			t.Fatalf("turn %d: %d %v", k, at, ok)
		}
	}
	return l
}

func give(t *testing.T, l *Limiter, now clock.Instant, turns ...clock.Instant) {
	t.Helper()
	for _, at := range turns {
		if !l.Cancel(now, at*ms, perMs) {
			t.Fatalf("the turn at %d ms was not given back", at)
		}
	}
}

func TestAGivenBackTurnExactlyMaxWaitAwayIsTaken(t *testing.T) {
	l := reserved(t, 4)
	give(t, l, 0, 2)
	if at, ok := l.Reserve(0, perMs, time.Millisecond); ok || at != 2*ms {
		t.Errorf("one that is further away: %d %v", at, ok)
	}
	if at, ok := l.Reserve(0, perMs, 2*time.Millisecond); !ok || at != 2*ms {
		t.Errorf("exactly as far: %d %v", at, ok)
	}
}

func TestResetForgetsWhatWasGivenBack(t *testing.T) {
	l := reserved(t, 4)
	give(t, l, 0, 1)
	l.Reset()
	for k := range clock.Instant(4) { // the turns are others now
		if at, ok := l.Reserve(0, perMs, time.Hour); !ok || at != k*ms {
			t.Fatalf("turn %d: %d %v", k, at, ok)
		}
	}
	give(t, l, 0, 2)
	if at, ok := l.Reserve(0, perMs, time.Hour); !ok || at != 2*ms {
		t.Errorf("got %d %v, want the turn that was given back since", at, ok)
	}
}

// A turn of before a Reset, given back late, would make all others wait for it.
func TestATurnOfBeforeAResetHoldsUpNobody(t *testing.T) {
	l := reserved(t, 4)
	l.Reset()
	for k := range clock.Instant(3) {
		if l.Cancel(0, 3*ms, perMs) {
			t.Fatalf("the turn at 3 ms was taken back after %d others", k)
		}
		if at, ok := l.Reserve(0, perMs, time.Hour); !ok || at != k*ms {
			t.Fatalf("turn %d: %d %v", k, at, ok)
		}
	}
}

// What can't be kept is lost at the far end: the turns that come first are handed out.
func TestOfMoreTurnsThanAreKeptTheLatestAreLost(t *testing.T) {
	l := reserved(t, maxFree+4)
	for at := clock.Instant(maxFree + 1); at >= 2; at-- {
		give(t, l, 0, at)
	}
	if l.Cancel(0, (maxFree+2)*ms, perMs) {
		t.Error("a later turn than all was kept beyond what fits")
	}
	give(t, l, 0, 1) // the one at maxFree+1 goes
	for want := clock.Instant(1); want <= maxFree; want++ {
		if at, ok := l.Reserve(0, perMs, time.Hour); !ok || at != want*ms {
			t.Fatalf("got %d %v, want the turn at %d ms", at, ok, want)
		}
	}
	if at, ok := l.Reserve(0, perMs, time.Hour); !ok || at != (maxFree+4)*ms {
		t.Errorf("got %d %v, want a new turn", at, ok)
	}
}

// Turns that have passed take no room from those ahead.
func TestTurnsThatHavePassedMakeRoom(t *testing.T) {
	l := reserved(t, maxFree+6)
	for at := clock.Instant(1); at <= maxFree; at++ {
		give(t, l, 0, at)
	}
	now := clock.Instant(maxFree+1) * ms
	give(t, l, now, maxFree+3)
	if at, ok := l.Reserve(now, perMs, time.Hour); !ok || at != (maxFree+3)*ms {
		t.Errorf("got %d %v", at, ok)
	}
}
