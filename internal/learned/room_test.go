package learned

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
)

// A dependency answers 1,000 calls a second in 30 ms, and some of the answers say "no room", whatever the limit is. Windows are short there, and a
// few such answers in one of them are chance: they do not make the limit less than what is needed.
func TestRefusalsThatFewerCallsDoNotCureBoundNothing(t *testing.T) {
	for _, c := range []struct {
		fact  string
		share float64
		most  float64 // part of the time in which less than what is needed is allowed
	}{
		{"one in a hundred", 0.01, 0},
		{"one in twenty", 0.05, 0.04},
		{"one in ten", 0.1, 0.04},
		{"one in three", 1.0 / 3, 0.04},
	} {
		const needed, games, looks = 30, 20, 6000
		low := 0
		for seed := range uint64(games) {
			rng := rand.New(rand.NewPCG(seed, 1))
			r := NewRule(Bounds{Min: 1, Max: 1000}, 100)
			w, now := Window{Limit: 100}, clock.Instant(0)
			for range looks {
				now = now.Add(100 * time.Millisecond)
				w.Span += 100 * time.Millisecond
				for range 80 + rng.IntN(41) {
					if rng.Float64() < c.share {
						w.Busy++
					} else {
						w.Good++
						w.Time += 30 * time.Millisecond
					}
				}
				limit, verdict, _ := r.Judge(now, &w)
				if limit < needed {
					low++
				}
				if verdict == Anew || limit != w.Limit {
					w = Window{Limit: limit}
				}
			}
		}
		if part := float64(low) / (games * looks); part > c.most {
			t.Errorf("%s: less is allowed than is needed in %.1f %% of the time, want %.1f at most", c.fact, 100*part, 100*c.most)
		}
	}
}

// Fewer calls cure the refusals at once: then the limit has fallen once, and what was refused before is no reason to lower it again.
func TestRefusalsThatAreCuredBoundTheLimitOnce(t *testing.T) {
	r := NewRule(Bounds{Min: 1, Max: 1000}, 100)
	w, now, falls := Window{Limit: 100}, clock.Instant(0), 0
	for range 40 {
		now = now.Add(100 * time.Millisecond)
		w.Span += 100 * time.Millisecond
		if w.Limit == 100 {
			w.Busy, w.Good, w.Time = w.Busy+33, w.Good+67, w.Time+67*60*time.Millisecond
		} else {
			w.Good, w.Time = w.Good+45, w.Time+45*60*time.Millisecond
		}
		limit, verdict, _ := r.Judge(now, &w)
		if limit < w.Limit {
			falls++
		}
		if verdict == Anew || limit != w.Limit {
			w = Window{Limit: limit}
		}
	}
	if falls != 1 {
		t.Errorf("the limit fell %d times, want once", falls)
	}
}
