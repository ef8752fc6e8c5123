package limits

import (
	"fmt"
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/learned"
	"github.com/gabion-go/gabion/internal/machine"
	"github.com/gabion-go/gabion/lab/internal/draw"
	"github.com/gabion-go/gabion/lab/internal/sim"
	"github.com/gabion-go/gabion/policy"
)

// A fleet of many clients, each with few attempts out, overruns a service without any of them
// coming near its limit. A limit that is learned is bound to what is out then. Where fewer calls
// would cure nothing it stays.
func TestALimitFarAboveWhatIsOutIsBound(t *testing.T) {
	const ms = time.Millisecond
	work := draw.Exponential(50 * ms)
	for _, c := range []struct {
		fact    string
		service sim.Service
		rate    float64
		fault   sim.Fault
		better  float64 // than with a limit of 100, at least, in shares of the calls in the trouble
		same    bool    // as with it
		long    bool    // it takes more than a second
	}{
		{"a slow leak of half of the capacity", sim.Service{Workers: 20, Queue: 600, Time: work}, 300, sim.Fault{Kind: sim.BrownOut, Factor: 0.3, Ramp: time.Minute}, 0.04, false, false},
		{"one of three replicas swallows", sim.Service{Replicas: 3, Workers: 8, Queue: 600, Time: work}, 240, sim.Fault{Kind: sim.BlackHole, Replicas: 1}, 0, true, false},
		{"half of the answers are errors", sim.Service{Workers: 30, Queue: 500, Time: work}, 300, sim.Fault{Kind: sim.Errors, Status: 503, Share: 0.5}, 0, true, true},
		{"all is ten times slower, and in time", sim.Service{Workers: 400, Queue: 500, Time: draw.Exponential(20 * ms)}, 300, sim.Fault{Kind: sim.Slow, Factor: 10}, 0, true, true},
	} {
		t.Run(c.fact, func(t *testing.T) {
			if testing.Short() && c.long {
				t.Skip("long: two runs of a busy fleet")
			}
			t.Parallel()
			fixed, bound := inTrouble(t, c.service, c.rate, c.fault, 100, 1), inTrouble(t, c.service, c.rate, c.fault, policy.Learned, 1)
			t.Logf("answered in the trouble: %.1f %%, with a limit of 100 %.1f %%", 100*bound, 100*fixed)
			if c.same && bound != fixed || bound < fixed+c.better {
				t.Errorf("answered %.2f %%, with a limit of 100 %.2f %%", 100*bound, 100*fixed)
			}
		})
	}
}

// With half of the capacity gone and latencies in two humps, the defaults waste little with a limit of 100
// either, since what would come too late is not sent again (ADR 100), and since retries earn nothing in a queue
// (ADR 135), which brings them to 98.9 % of the best fixed limit, known in hindsight. That is the bar, too.
func TestALimitInAnOverloadComesNearTheBestFixedOne(t *testing.T) {
	if testing.Short() {
		t.Skip("long: eighteen runs of a busy fleet")
	}
	const ms, runs, best = time.Millisecond, 6, 3
	service := sim.Service{Workers: 40, Queue: 400, Time: draw.Mixture(draw.Part{Share: 0.9, Dist: draw.LogNormal(20*ms, 40*ms)}, draw.Part{Share: 0.1, Dist: draw.LogNormal(300*ms, 600*ms)})}
	mean := func(limit int) (sum float64) {
		for seed := range uint64(runs) {
			sum += inTrouble(t, service, 500, sim.Fault{Kind: sim.BrownOut, Factor: 0.5}, limit, seed+1) / runs
		}
		return sum
	}
	least, usual, bound := mean(best), mean(100), mean(policy.Learned)
	t.Logf("answered in the trouble: %.1f %%, with a limit of 100 %.1f %%, with the best fixed limit %.1f %%", 100*bound, 100*usual, 100*least)
	if bound < 0.96*least || bound < 0.98*usual {
		t.Errorf("answered %.2f %%, with a limit of 100 %.2f %%, with one of %d %.2f %%", 100*bound, 100*usual, best, 100*least)
	}
}

// inTrouble is the share of calls that are answered during a fault of two minutes, with the
// defaults but for the limit.
func inTrouble(t *testing.T, v sim.Service, rate float64, f sim.Fault, limit int, seed uint64) float64 {
	t.Helper()
	r, err := machine.Compile(policy.Policy{
		Safe: true, Timeout: policy.Timeout{Call: 3 * time.Second, Attempt: time.Second}, Bulkhead: policy.Bulkhead{Limit: limit},
	})
	if err != nil {
		t.Fatal(err)
	}
	v.Name, f.At, f.For = "service", time.Minute, 2*time.Minute
	w := &sim.World{
		Duration: 4 * time.Minute, Drain: 10 * time.Second, Cuts: []time.Duration{f.At, f.At + f.For}, Services: []sim.Service{v}, Faults: []sim.Fault{f},
		Fleets: []sim.Fleet{{Name: "clients", Clients: 30, Load: sim.Steady(rate),
			Plan: sim.Plan{Deadline: 3 * time.Second, Steps: []sim.Step{{Edge: sim.Edge{Rules: r, Network: draw.Constant(time.Millisecond)}}}}}},
	}
	res := sim.Run(w, seed)
	if len(res.Broken) > 0 {
		t.Fatal(res.Broken)
	}
	during := &res.Phases[1].Fleets[0]
	return float64(during.Good) / float64(during.Offered)
}

// answers is what a fleet got from a server with an Admission.
type answers struct {
	during, after float64       // the share of calls; after is from five seconds after the trouble on
	p99           time.Duration // of answers in the trouble
}

// overAdmission is three times the load that a server with an Admission can do, for two minutes.
func overAdmission(t *testing.T, clients int, a sim.Admission, p policy.Policy) answers {
	t.Helper()
	p.Safe, p.Timeout = true, policy.Timeout{Call: 3 * time.Second, Attempt: time.Second}
	r, err := machine.Compile(p)
	if err != nil {
		t.Fatal(err)
	}
	const start, end = time.Minute, 3 * time.Minute
	load := sim.Load{{PerSecond: 320}, {At: start, PerSecond: 320}, {At: start + 1, PerSecond: 1200}, {At: end, PerSecond: 1200}, {At: end + 1, PerSecond: 320}}
	res := sim.Run(&sim.World{
		Duration: 4 * time.Minute, Drain: 10 * time.Second, Cuts: []time.Duration{start, end, end + 5*time.Second},
		Services: []sim.Service{{Name: "service", Workers: 20, Queue: 1000, Time: draw.Exponential(50 * time.Millisecond), RefuseCost: 0.01, Admission: &a}},
		Fleets: []sim.Fleet{{Name: "clients", Clients: clients, Load: load,
			Plan: sim.Plan{Deadline: 3 * time.Second, Steps: []sim.Step{{Edge: sim.Edge{Rules: r, Network: draw.Exponential(2 * time.Millisecond)}}}}}},
	}, 1)
	if len(res.Broken) > 0 {
		t.Fatal(res.Broken)
	}
	during, after := &res.Phases[1].Fleets[0], &res.Phases[3].Fleets[0]
	return answers{
		float64(during.Good) / float64(during.Offered), float64(after.Good) / float64(after.Offered), during.Answered.Quantile(0.99),
	}
}

// Before a server that refuses what it cannot do, calls with the defaults are answered about as
// soon as those of a client that tries once, and soon after the trouble as many. With a learned
// limit at the client as well, both limits come back.
func TestTheDefaultsDoNotQueueBeforeAFullServer(t *testing.T) {
	if testing.Short() {
		t.Skip("long: eighteen runs of 1,200 calls a second; TestHowLongACallWaitsForItsStart is short")
	}
	once := policy.Policy{
		Retry:   policy.Retry{Attempts: 1, Budget: policy.Budget{Off: true}},
		Breaker: policy.Breaker{Off: true}, Pace: policy.Pace{Off: true}, Bulkhead: policy.Bulkhead{Off: true},
	}
	for _, c := range []struct {
		fact  string
		limit sim.Admission
	}{
		{"as many as workers", sim.Admission{Limit: 20}},
		{"a learned limit", sim.Admission{Limit: 100, Learn: &learned.Bounds{Min: 1, Max: 1000}}},
	} {
		for _, n := range []int{4, 20, 100} {
			t.Run(fmt.Sprintf("%s, %d clients", c.fact, n), func(t *testing.T) {
				t.Parallel()
				one, ours := overAdmission(t, n, c.limit, once), overAdmission(t, n, c.limit, policy.Policy{})
				taught := overAdmission(t, n, c.limit, policy.Policy{Bulkhead: policy.Bulkhead{Limit: policy.Learned}})
				if taught.during < 0.98*one.during || taught.after < 0.99 {
					t.Errorf("with a learned limit at the client, too: answered %.2f %%; from five seconds after the trouble on %.2f %%", 100*taught.during, 100*taught.after)
				}
				t.Logf("p99 %v, of one try %v; answered %.2f %%, %.2f %%; afterwards %.2f %%", ours.p99, one.p99, 100*ours.during, 100*one.during, 100*ours.after)
				if ours.p99.Seconds() > 1.5*one.p99.Seconds() {
					t.Errorf("p99 %v, of one try %v", ours.p99, one.p99)
				}
				if ours.during < 0.995*one.during || ours.after < 0.998 {
					t.Errorf("answered %.2f %%, with one try %.2f %%; from five seconds after the trouble on %.2f %%", 100*ours.during, 100*one.during, 100*ours.after)
				}
			})
		}
	}
}
