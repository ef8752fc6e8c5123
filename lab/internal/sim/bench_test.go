package sim

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/machine"
	"github.com/gabion-go/gabion/lab/internal/draw"
	"github.com/gabion-go/gabion/policy"
)

// armed is a policy with all that fleets of services have: LAB's S2.
func armed(t testing.TB) *machine.Rules {
	return rules(t, policy.Policy{
		Safe:     true,
		Timeout:  policy.Timeout{Call: 5 * time.Second, Attempt: time.Second},
		Throttle: policy.Throttle{K: 2}, Bulkhead: policy.Bulkhead{Off: true},
	})
}

// thrifty is a policy whose state is the smallest that retries safely: LAB's S3.
func thrifty(t testing.TB) *machine.Rules {
	return rules(t, policy.Policy{
		Safe:    true,
		Timeout: policy.Timeout{Call: 5 * time.Second, Attempt: time.Second},
		Breaker: policy.Breaker{Off: true}, Bulkhead: policy.Bulkhead{Off: true},
	})
}

// crowd is a fleet with an outage of 10 minutes.
func crowd(t testing.TB, clients int, perSecond float64) *World {
	return &World{
		Duration: 10 * time.Minute, Bin: 10 * time.Second,
		Fleets: []Fleet{{
			Name: "clients", Clients: clients, Load: Steady(perSecond),
			Plan: Plan{Steps: []Step{{Edge: Edge{Rules: thrifty(t), Network: draw.Exponential(2 * time.Millisecond)}}}},
		}},
		Services: []Service{{Name: "server", Workers: 1000, Queue: 2000, Time: draw.Exponential(20 * time.Millisecond)}},
		Faults:   []Fault{{Kind: Errors, Status: 503, Share: 0.8, At: 0, For: 10 * time.Minute}},
	}
}

func bench(b *testing.B, w *World) {
	events, calls := uint64(0), int64(0)
	b.ReportAllocs()
	for b.Loop() {
		r := Run(w, 1)
		events += r.Events
		calls += r.Edges[0].Calls
	}
	b.ReportMetric(float64(events)/b.Elapsed().Seconds()/1e6, "Mevents/s")
	b.ReportMetric(float64(calls)/b.Elapsed().Seconds()/1e6, "Mcalls/s")
}

// With the series of every second, and with one bin for all.
func BenchmarkArmed(b *testing.B) {
	for _, bin := range []time.Duration{time.Second, time.Hour} {
		b.Run(bin.String(), func(b *testing.B) {
			w := outage(b, 1000, 1000, time.Minute)
			w.Fleets[0].Plan.Steps[0].Edge.Rules = armed(b)
			w.Bin = bin
			bench(b, w)
		})
	}
}

// A minute of the ten.
func BenchmarkCrowd(b *testing.B) {
	w := crowd(b, 1_000_000, 20_000)
	w.Duration = time.Minute
	bench(b, w)
}

func BenchmarkTwoCores(b *testing.B) {
	w := outage(b, 1000, 1000, time.Minute)
	w.Fleets[0].Plan.Steps[0].Edge.Rules = armed(b)
	for _, workers := range []int{1, 2} {
		b.Run(fmt.Sprint(workers), func(b *testing.B) {
			for b.Loop() {
				replicate(w, workers, 8)
			}
			b.ReportMetric(8*float64(b.N)/b.Elapsed().Seconds(), "runs/s")
		})
	}
}

func replicate(w *World, workers, runs int) {
	var all sync.WaitGroup
	for k := range workers {
		all.Go(func() {
			for i := k; i < runs; i += workers {
				Run(w, uint64(i))
			}
		})
	}
	all.Wait()
}
