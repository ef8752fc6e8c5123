package breaker_test

import (
	"fmt"
	"time"

	"github.com/gabion-go/gabion/internal/breaker"
	"github.com/gabion-go/gabion/internal/clock"
)

func ExampleBreaker() {
	b := breaker.New(&breaker.Rules{
		Window:      10 * time.Second,
		MinCalls:    4,
		FailureRate: 0.5,
		Open:        30 * time.Second,
		Probes:      1,
	}, 1, 1, nil)
	now := clock.Instant(0)

	for _, v := range []breaker.Result{breaker.Good, breaker.Good, breaker.Bad, breaker.Bad} {
		permit, _, _ := b.Acquire(now, 0)
		b.Settle(now, 0, permit, v, 0)
	}
	_, retryAfter, ok := b.Acquire(now.Add(10*time.Second), 0)
	fmt.Println(b.State(), ok, retryAfter)

	now = now.Add(30 * time.Second)
	probe, _, ok := b.Acquire(now, 0)
	fmt.Println(b.State(), ok)
	b.Settle(now, 0, probe, breaker.Good, 0)
	fmt.Println(b.State())
	// Output:
	// open false 20s
	// half_open true
	// closed
}

// An operator takes a dependency out, and two do so independently.
func ExampleHand_Isolate() {
	b := breaker.New(&breaker.Rules{Window: time.Second}, 1, 1, nil)
	deploy, incident := b.By("").Isolate(0), b.By("").Isolate(0)
	b.By("").Release(1, deploy)
	fmt.Println(b.State())
	b.By("").Release(2, incident)
	fmt.Println(b.State())
	// Output:
	// forced_open
	// closed
}

// What a breaker would do can be watched before it is let do it.
func ExampleHand_Observe() {
	b := breaker.New(&breaker.Rules{Window: time.Second, Consecutive: 2}, 1, 1, printer{})
	b.By("").Observe(0, clock.Never)
	for now := range clock.Instant(3) {
		permit, _, _ := b.Acquire(now, 0)
		b.Settle(now, 0, permit, breaker.Bad, 0)
	}
	// Output:
	// closed to observe_only: forced
	// observe_only to observe_only: consecutive
}

type printer struct{}

func (printer) BreakerMoved(c breaker.Change) {
	fmt.Printf("%v to %v: %v\n", c.From, c.To, c.Cause)
}
