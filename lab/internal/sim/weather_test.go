package sim

import (
	"testing"
	"time"

	"github.com/gabion-go/gabion/clock"
	"github.com/gabion-go/gabion/lab/internal/draw"
	"github.com/gabion-go/gabion/policy"
)

// TestWeatherIsWhatARunMeets watches a client of a world in which nobody waits, so
// that what its attempts took is their work, and what they brought is luck.
func TestWeatherIsWhatARunMeets(t *testing.T) {
	w := &World{
		Duration: 20 * time.Second,
		Fleets: []Fleet{{Clients: 3, Load: Load{{0, 5}, {10 * time.Second, 40}}, Plan: Plan{
			Steps: []Step{{Edge: Edge{Rules: rules(t, policy.Policy{Safe: true, Breaker: policy.Breaker{Off: true}})}}},
		}}},
		Services: []Service{{Time: draw.LogNormal(20*time.Millisecond, 100*time.Millisecond)}},
		Faults:   []Fault{{Kind: Errors, Status: 503, Share: 0.4, For: time.Hour}},
	}
	const seed, client = 5, 2
	weather := Weather{w, seed}
	began := map[uint64]time.Duration{}
	for _, a := range weather.Arrivals(0) {
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
			if e.Kind != policy.Returned {
				return
			}
			ended++
			if at, ok := began[call]; !ok || clock.Instant(at) != e.At.Add(-e.Took) {
				t.Errorf("call %x began at %s, and was to begin at %s", call, time.Duration(e.At)-e.Took, at)
			}
		},
		Heard: func(call uint64, _, try int, took time.Duration, o policy.Outcome) {
			want, strikes := weather.Work(0, call, try), weather.Strikes(0, call, try)
			if strikes {
				struckOnes++
				want = 0
			}
			if took != want || strikes == (o.Class == policy.Success) {
				t.Errorf("call %x, try %d: took %s and brought %s, want %s, struck %v", call, try, took, o.Class, want, strikes)
			}
		},
	})
	if ended != len(began) || struckOnes == 0 {
		t.Errorf("%d calls ended of %d, %d attempts struck", ended, len(began), struckOnes)
	}
}
