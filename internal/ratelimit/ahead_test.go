package ratelimit

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
)

// What Ahead says is what the turns that were handed out come to, and what Reserve gives.
func TestAheadIsWhatWasHandedOut(t *testing.T) {
	for seed := range uint64(300) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		r := Rules{time.Millisecond, 1 + rnd.IntN(4)}
		l, now := new(Limiter), clock.Instant(0)
		var taken []clock.Instant
		for step := range 60 {
			switch rnd.IntN(5) {
			case 0:
				now += clock.Instant(rnd.IntN(3000)) * 1000
			case 1:
				if i := len(taken) - 1; i >= 0 && taken[i] > now {
					i -= rnd.IntN(min(len(taken), 2))
					if l.Cancel(now, taken[i], r) {
						taken = append(taken[:i], taken[i+1:]...)
					}
				}
			default:
				if at, ok := l.Reserve(now, r, time.Second); ok {
					taken = append(taken, at)
				}
			}
			var want int64
			for _, at := range taken {
				if at > now {
					want++
				}
			}
			turns, next := l.Ahead(now, r)
			at, _ := l.Reserve(now, r, -1)
			if at == now {
				taken = append(taken, at)
			}
			if turns != want || next != at.Sub(now) {
				t.Fatalf("seed %d, step %d: %d ahead and the next in %s, want %d and %s", seed, step, turns, next, want, at.Sub(now))
			}
		}
	}
}

func TestNothingIsAheadWithoutALimit(t *testing.T) {
	if turns, next := new(Limiter).Ahead(5, Rules{}); turns != 0 || next != 0 {
		t.Errorf("%d turns, the next in %s", turns, next)
	}
}
