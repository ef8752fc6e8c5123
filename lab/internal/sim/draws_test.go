package sim

import (
	"slices"
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/lab/internal/draw"
	"github.com/gabion-go/gabion/policy"
)

// TestDrawsAreThoseOfARun watches a client of a world without queues, so that what its attempts
// took is their work, and what they brought is luck.
func TestDrawsAreThoseOfARun(t *testing.T) {
	w := &World{
		Duration: 20 * time.Second,
		Fleets: []Fleet{{Clients: 3, Load: Load{{0, 5}, {10 * time.Second, 40}}, Plan: Plan{
			Steps: []Step{{Edge: Edge{Rules: rules(t, policy.Policy{Safe: true, Breaker: policy.Breaker{Off: true}})}}},
		}}},
		Services: []Service{{Time: draw.LogNormal(20*time.Millisecond, 100*time.Millisecond)}},
		Faults:   []Fault{{Kind: Errors, Status: 503, Share: 0.4, For: time.Hour}},
	}
	const seed, client = 5, 2
	draws := Draws{w, seed}
	began := map[uint64]time.Duration{}
	for _, a := range draws.Arrivals(0) {
		if a.Client == client {
			began[a.Call] = a.At
		}
	}
	if len(began) < 100 {
		t.Fatalf("%d calls: too few to say anything", len(began))
	}
	ended, struckOnes := 0, 0
	RunWatched(w, seed, &Watch{
		Client: client,
		Tell: func(call uint64, _ int, e policy.Event) {
			if e.Kind != policy.KindReturned {
				return
			}
			ended++
			if at, ok := began[call]; !ok || clock.Instant(at) != e.At.Add(-e.Took) {
				t.Errorf("call %x began at %s, and was to begin at %s", call, time.Duration(e.At)-e.Took, at)
			}
		},
		Heard: func(call uint64, _, try int, took time.Duration, o policy.Outcome) {
			want, strikes := draws.Work(0, call, try), draws.Strikes(0, call, try)
			if strikes {
				struckOnes++
				want = 0
			}
			if took != want || strikes == (o.Class == policy.ClassSuccess) {
				t.Errorf("call %x, try %d: took %s and brought %s, want %s, struck %v", call, try, took, o.Class, want, strikes)
			}
		},
	})
	if ended != len(began) || struckOnes == 0 {
		t.Errorf("%d calls ended of %d, %d attempts struck", ended, len(began), struckOnes)
	}
}

// first returns what the first tries of a client's calls took, by the place of the
// call among those of its client.
func first(t testing.TB, w *World, client uint32) (took []time.Duration) {
	t.Helper()
	RunWatched(w, 5, &Watch{
		Client: client,
		Tell:   func(uint64, int, policy.Event) {},
		Heard: func(_ uint64, _, try int, d time.Duration, _ policy.Outcome) {
			if try == 1 {
				took = append(took, d)
			}
		},
	})
	return took
}

// Two policies are compared with the same random numbers: what one of them does more of must
// not shift what the other calls meet.
func TestRetriesChangeNobodysDraws(t *testing.T) {
	for _, c := range []struct {
		fact string
		edit func(w *World)
	}{
		{"open, at random replicas", func(w *World) {
			w.Services[0].Replicas = 2
			w.Faults = append(w.Faults, always(Fault{Kind: Slow, Factor: 100, Replicas: 1}))
		}},
		{"closed", func(w *World) {
			w.Fleets[0].Loop, w.Fleets[0].Think = Closed, draw.Exponential(20*ms)
		}},
	} {
		t.Run(c.fact, func(t *testing.T) {
			world := func(n int) *World {
				w := steady(tries(t, n), 100, 20*time.Second, Service{Time: draw.Exponential(10 * ms)}, always(Fault{Kind: Errors, Status: 500, Share: 0.4}))
				w.Fleets[0].Clients = 4
				c.edit(w)
				return w
			}
			once, thrice := first(t, world(1), 2), first(t, world(3), 2)
			if n := min(len(once), len(thrice)); n < 100 || !slices.Equal(once[:n], thrice[:n]) {
				t.Errorf("of %d and %d calls the first tries took something else:\n%v\n%v", len(once), len(thrice), once[:10], thrice[:10])
			}
		})
	}
}
