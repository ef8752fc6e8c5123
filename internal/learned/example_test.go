package learned_test

import (
	"fmt"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/internal/learned"
)

// A server that works on ten at a time, under a client that always has more to send.
func Example() {
	limit := learned.New(0, learned.NewRule(learned.Bounds{Min: 1, Max: 1000}, 100), 1)
	now := clock.Instant(0)
	for now < clock.Instant(time.Minute) {
		out := limit.Limit()
		took := 50 * time.Millisecond // and longer if more are out than are worked on
		if out > 10 {
			took = took * time.Duration(out) / 10
		}
		now = now.Add(took / time.Duration(out))
		limit.Done(now, 0, took, learned.Worked)
	}
	fmt.Println(limit.Limit() >= 10 && limit.Limit() < 20)
	// Output: true
}
