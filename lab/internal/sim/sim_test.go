package sim

import (
	"math"
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/machine"
	"github.com/gabion-go/gabion/lab/internal/draw"
	"github.com/gabion-go/gabion/policy"
)

func rules(t testing.TB, p policy.Policy) *machine.Rules {
	t.Helper()
	r, err := machine.Compile(p)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// bare is a policy that only calls.
func bare(t testing.TB) *machine.Rules {
	return rules(t, policy.Policy{
		Timeout: policy.Timeout{Call: policy.Off, Attempt: policy.Off},
		Retry:   policy.Retry{Attempts: 1, Budget: policy.Budget{Off: true}}, Breaker: policy.Breaker{Off: true}, Bulkhead: policy.Bulkhead{Off: true},
	})
}

func station(t testing.TB, rate float64, workers int, service draw.Dist, duration time.Duration) *World {
	return &World{
		Duration: duration, Warmup: duration / 10,
		Fleets: []Fleet{{
			Name: "clients", Clients: 10, Load: Steady(rate),
			Plan: Plan{Steps: []Step{{Edge: Edge{Rules: bare(t)}}}},
		}},
		Services: []Service{{Name: "server", Workers: workers, Queue: 1 << 30, Time: service}},
	}
}

// The textbook's answers (Kleinrock, "Queueing Systems", 1975).
func TestQueueingTheory(t *testing.T) {
	ms := time.Millisecond
	for _, c := range []struct {
		fact      string
		w         *World
		mean      time.Duration
		p99       time.Duration
		tolerance float64
	}{
		{"M/M/1 at 80 % stays 5 services, exponentially", station(t, 8, 1, draw.Exponential(100*ms), 20_000*time.Second), 500 * ms, 2303 * ms, 0.05},
		{"M/D/1 at 80 % waits 2 services", station(t, 8, 1, draw.Constant(100*ms), 10_000*time.Second), 300 * ms, 0, 0.04},
		{"M/M/10 at 80 % waits 0.2046 services", station(t, 80, 10, draw.Exponential(100*ms), 2_000*time.Second), 120*ms + 460*time.Microsecond, 0, 0.02},
	} {
		t.Run(c.fact, func(t *testing.T) {
			r := Run(c.w, 1)
			for _, b := range r.Broken {
				t.Error(b)
			}
			got := r.Fleets[0].Latency.Mean()
			if math.Abs(float64(got-c.mean)) > c.tolerance*float64(c.mean) {
				t.Errorf("stays %v, want %v", got, c.mean)
			}
			if p := r.Fleets[0].Latency.Quantile(0.99); c.p99 > 0 && math.Abs(float64(p-c.p99)) > 2*c.tolerance*float64(c.p99) {
				t.Errorf("99 %% stay %v, want %v", p, c.p99)
			}
		})
	}
}

func outage(t testing.TB, clients int, rate float64, duration time.Duration) *World {
	p := rules(t, policy.Policy{Safe: true, Timeout: policy.Timeout{Call: 5 * time.Second, Attempt: time.Second}})
	return &World{
		Duration: duration,
		Fleets: []Fleet{{
			Name: "clients", Clients: clients, Load: Steady(rate),
			Plan: Plan{Steps: []Step{{Edge: Edge{Rules: p, Network: draw.Exponential(2 * time.Millisecond)}}}},
		}},
		Services: []Service{{Name: "server", Workers: 64, Queue: 256, Time: draw.LogNormal(20*time.Millisecond, 100*time.Millisecond)}},
		Faults:   []Fault{{Kind: Errors, Status: 503, Share: 0.8, At: duration / 3, For: duration / 6}},
	}
}

func TestSameSeedSameRun(t *testing.T) {
	w := outage(t, 100, 500, time.Minute)
	a, b, other := Run(w, 7), Run(w, 7), Run(w, 8)
	if a.Hash != b.Hash || a.Events != b.Events || a.Fleets[0].Good != b.Fleets[0].Good {
		t.Errorf("the same seed gave %x and %x", a.Hash, b.Hash)
	}
	if a.Hash == other.Hash {
		t.Error("another seed gave the same run")
	}
	for _, broken := range a.Broken {
		t.Error(broken)
	}
	t.Logf("%d events, amplification %.3f, %+v", a.Events, float64(a.Edges[0].Attempts)/float64(a.Edges[0].Calls), a.Edges[0].Ended)
}
