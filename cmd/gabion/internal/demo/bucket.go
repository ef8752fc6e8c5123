package demo

import (
	"math"
	"sync"
	"time"
)

// bucket is the provider's rate limit: a token bucket that starts full. Time is
// an argument. Safe for concurrent use.
type bucket struct {
	rate  float64 // tokens per second
	burst float64

	mu     sync.Mutex // guards tokens, at, begun
	tokens float64
	at     time.Duration
	begun  bool
}

// take takes a token, or tells how long until there is one.
func (b *bucket) take(now time.Duration) (ok bool, wait time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refill(now)
	if b.tokens >= 1 {
		b.tokens--
		return true, 0
	}
	return false, time.Duration((1 - b.tokens) / b.rate * float64(time.Second))
}

func (b *bucket) refill(now time.Duration) {
	if !b.begun {
		b.begun, b.tokens, b.at = true, b.burst, now
	}
	if now <= b.at {
		return
	}
	b.tokens = min(b.burst, b.tokens+(now-b.at).Seconds()*b.rate)
	b.at = now
}

// retryAfter is a wait as the header says it: whole seconds, rounded up, since a
// client that comes back early is refused again.
func retryAfter(wait time.Duration) int { return max(1, int(math.Ceil(wait.Seconds()))) }
