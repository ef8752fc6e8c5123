package policy

import (
	"testing"
	"time"

	"github.com/gabion-go/gabion/clock"
)

// A client of a hundred calls a second, of which the dependency takes half for ten
// seconds and asks for a second with every other: nobody waits for long, as many are
// answered as it takes, and soon after the trouble nobody waits at all.
func TestPacingEndsWithTheTrouble(t *testing.T) {
	const s = clock.Instant(time.Second)
	p, room, answered, sent := new(pacer), 0, 0, 0
	last := clock.Instant(0)
	for i := range 2000 {
		now := clock.Instant(i) * s / 100
		if i%10 == 0 && room < 10 {
			room += 5 // fifty a second
		}
		at, ok := now, true
		if p.active.Load() {
			at, ok = p.turn(now, now+5*s, 0.5)
		}
		if !ok {
			continue
		}
		if at > now+s+1 {
			t.Fatalf("at %v a call waits for %v", time.Duration(now), at.Sub(now))
		}
		if at > now {
			last = now
		}
		switch trouble := at < 10*s; {
		case trouble && room == 0:
			sent++
			p.hold(now, now+s, 50)
		case trouble:
			room--
			sent++
			answered++
			p.accept()
		default:
			p.accept()
		}
	}
	if answered < 400 || sent > 800 {
		t.Errorf("%d of 500 were answered, of %d sent", answered, sent)
	}
	if last > 16*s || p.active.Load() {
		t.Errorf("the last call waited at %v, and calls are still spaced: %v", time.Duration(last), p.active.Load())
	}
}

// Where nothing succeeds nobody goes before the time that was asked for.
func TestNobodyGoesBeforeTheTimeIsOver(t *testing.T) {
	const s = clock.Instant(time.Second)
	p := new(pacer)
	p.hold(0, 4*s, 0)
	for i := range 50 {
		if at, ok := p.turn(s, 7*s, float64(i)/50); !ok || at < 4*s || at > 7*s {
			t.Errorf("call %d goes at %v, %v", i, time.Duration(at), ok)
		}
	}
	if at, ok := p.turn(s, 3*s, 0.5); ok || at < 4*s {
		t.Errorf("a call without that much time goes at %v, %v", time.Duration(at), ok)
	}
}
