package conformance

import (
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/breaker"
	"github.com/gabion-go/gabion/internal/clock"
)

// A probe that began later than it was asked for expires later, too: what a slow observer
// took of its time is not the dependency's.
func TestADelayedProbeExpiresLater(t *testing.T) {
	const s = clock.Instant(time.Second)
	rules := breaker.Rules{Window: 10 * time.Second, Consecutive: 1, Open: 5 * time.Second, Probes: 1, ProbeTimeout: time.Second}
	for _, c := range []struct {
		name  string
		delay time.Duration
		at    clock.Instant
		want  breaker.State
	}{
		{"just before its time", 0, 6*s - 1, breaker.HalfOpen},
		{"at its time", 0, 6 * s, breaker.Open},
		{"delayed, at the time that it had", 2 * time.Second, 6 * s, breaker.HalfOpen},
		{"delayed, just before its time", 2 * time.Second, 8*s - 1, breaker.HalfOpen},
		{"delayed, at its time", 2 * time.Second, 8 * s, breaker.Open},
	} {
		b := breaker.New(&rules, 1, 1, nil)
		b.By("").Trip(0)
		probe, _, ok := b.Acquire(5*s, 0)
		if !ok || !probe.Probe() {
			t.Fatalf("%s: no probe", c.name)
		}
		b.Delay(probe, c.delay)
		b.Acquire(c.at, 0)
		if got := b.State(); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
