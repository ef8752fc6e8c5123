package backoff_test

import (
	"fmt"
	"time"

	"github.com/gabion-go/gabion/backoff"
)

func ExampleBackoff_Delay() {
	b := backoff.Full(100*time.Millisecond, time.Second)
	var prev time.Duration
	for n := range 5 {
		prev = b.Delay(n, prev, 0.5) // every draw lands in the middle
		fmt.Println(prev)
	}
	// Output:
	// 50ms
	// 100ms
	// 200ms
	// 400ms
	// 500ms
}

func ExampleBackoff_Jittered() {
	fmt.Println(backoff.Full(time.Second, time.Minute).Jittered())
	fmt.Println(backoff.Exp(time.Second, time.Minute).Jittered())
	// Output:
	// true
	// false
}

func ExampleKind_UnmarshalText() {
	var k backoff.Kind
	fmt.Println(k.UnmarshalText([]byte("decorrelated")), k)
	fmt.Println(k.UnmarshalText([]byte("random")))
	// Output:
	// <nil> decorrelated
	// backoff: unknown shape "random": want one of full, equal, decorrelated, exponential, linear, constant
}
