package ratelimit_test

import (
	"fmt"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/internal/ratelimit"
)

func ExampleLimiter_Reserve() {
	var l ratelimit.Limiter
	tenPerSecond := ratelimit.Every(10, 2)
	now := clock.Instant(0)
	for range 5 {
		at, ok := l.Reserve(now, tenPerSecond, 150*time.Millisecond)
		fmt.Println(ok, "in", at.Sub(now))
	}
	// Output:
	// true in 0s
	// true in 0s
	// true in 100ms
	// false in 200ms
	// false in 200ms
}

func ExampleLimiter_Cancel() {
	var l ratelimit.Limiter
	r := ratelimit.Rules{Interval: time.Second, Burst: 1}
	l.Reserve(0, r, 0)
	at, _ := l.Reserve(0, r, time.Minute)
	fmt.Println("reserved in", at.Sub(0))
	fmt.Println("given back:", l.Cancel(0, at, r))
	at, _ = l.Reserve(0, r, time.Minute)
	fmt.Println("reserved in", at.Sub(0))
	// Output:
	// reserved in 1s
	// given back: true
	// reserved in 1s
}
