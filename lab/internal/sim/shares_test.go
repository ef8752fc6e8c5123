package sim

import (
	"testing"
	"time"

	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/internal/machine"
	"github.com/gabion-go/gabion/lab/internal/draw"
	"github.com/gabion-go/gabion/policy"
)

// calling is a policy with a rate limit, whose calls wait for their turn for a quarter of a second.
func calling(t testing.TB, rate policy.PerSecond) *machine.Rules {
	return rules(t, policy.Policy{
		Timeout: policy.Timeout{Call: policy.Off, Attempt: policy.Off}, Breaker: policy.Breaker{Off: true}, Bulkhead: policy.Bulkhead{Off: true},
		Retry:     policy.Retry{Attempts: 1, Budget: policy.Budget{Off: true}},
		RateLimit: policy.RateLimit{Rate: rate, Burst: 20, MaxWait: 250 * ms},
		Fleet:     policy.Fleet{Rate: true},
	})
}

// A limit of 1,000 a second for fifty clients, whose callers want half as much again.
func TestClientsThatShareKeepOneLimit(t *testing.T) {
	away := func(at, lasts time.Duration) Fault { return Fault{Kind: StoreDown, At: at, For: lasts} }
	waves := Load{}
	for at := time.Duration(0); at < 100*time.Second; at += 6 * time.Second {
		waves = append(waves, Rate{at, 1500}, Rate{at + 3*time.Second, 1500}, Rate{at + 3*time.Second, 0}, Rate{at + 6*time.Second, 0})
	}
	for _, c := range []struct {
		fact    string
		session int
		greedy  float64
		used    float64 // of the limit, in %, after the first four seconds
		least   int64   // attempts in each of these seconds
		load    Load
		faults  []Fault
	}{
		{"as a rule", 0, 0, 99.5, 980, nil, nil},
		{"while the store is away, and when it returns", 0, 0, 99.5, 970, nil, []Fault{away(20*time.Second, time.Minute)}},
		{"while the store comes and goes", 0, 0, 99, 900, nil, []Fault{away(20*time.Second, 2*time.Second), away(23*time.Second, 5*time.Second), away(30*time.Second, time.Second)}},
		{"while all clients are replaced within some seconds", 1500, 0, 99, 850, nil, nil},
		{"while one has four fifths of the work", 0, 0.8, 97, 900, nil, nil},
		{"while one after the other is replaced", 0, 0, 99, 930, nil, []Fault{{Kind: ClientRestart, At: 20 * time.Second, Period: time.Second, Replicas: 1}}},
		{"while calls come in waves of three seconds", 0, 0, 0, 0, waves, nil},
		{"while waves come of which one has four fifths", 0, 0.8, 0, 0, waves, nil},
	} {
		t.Run(c.fact, func(t *testing.T) {
			w := steady(calling(t, 1000), 1500, 100*time.Second, Service{Time: draw.Constant(10 * ms)}, c.faults...)
			f := &w.Fleets[0]
			f.Clients, f.Session, f.Greedy = 50, c.session, c.greedy
			if c.load != nil {
				f.Load = c.load
			}
			f.Shares = &Shares{Lease: 3 * time.Second, Network: draw.Exponential(ms)}
			r := play(t, w)
			sum, worst := int64(0), int64(0)
			for i, b := range r.Bins[4:100] {
				n := b.Attempts[0]
				sum, worst = sum+n, max(worst, n)
				// Each client may have a burst of its share at hand: 20 in all.
				if n < c.least || n > 1020 {
					t.Errorf("%d attempts in second %d", n, i+4)
				}
			}
			used := float64(sum) / 960
			if t.Logf("%.1f %% of the limit, %d in the worst second", used, worst); used < c.used {
				t.Errorf("%.1f %% of the limit is used, want %v", used, c.used)
			}
		})
	}
}

// Fifty clients that call seldom, and all calls fail: with one floor for all, re-sends are those of one client.
func TestSparseClientsThatShareAFloorSendAsOne(t *testing.T) {
	floor := &Shares{Lease: 3 * time.Second, Network: draw.Exponential(ms)}
	for _, c := range []struct {
		fact    string
		shape   policy.BudgetShape
		clients int
		of      *Shares
		least   float64 // attempts for each call
		most    float64
	}{
		{"window, one client", policy.BudgetWindow, 1, nil, 1.09, 1.12},
		{"window, fifty with a floor each", policy.BudgetWindow, 50, nil, 1.5, 1.6},
		{"window, fifty with one floor", policy.BudgetWindow, 50, floor, 1.08, 1.12},
		{"earned, fifty with one reserve", policy.BudgetEarned, 50, floor, 1, 1.002},
	} {
		t.Run(c.fact, func(t *testing.T) {
			p := policy.Policy{
				Timeout: policy.Timeout{Call: policy.Off, Attempt: policy.Off}, Breaker: policy.Breaker{Off: true}, Bulkhead: policy.Bulkhead{Off: true}, Safe: true, Fleet: policy.Fleet{Budget: true},
				Retry: policy.Retry{Attempts: 3, Backoff: backoff.Full(50*ms, time.Second), Budget: policy.Budget{Shape: c.shape}},
			}
			w := steady(rules(t, p), 100, 5*time.Minute, Service{Time: draw.Constant(10 * ms)}, Fault{Kind: Errors, Status: 500, At: time.Minute, For: 3 * time.Minute})
			w.Fleets[0].Clients, w.Fleets[0].Shares = c.clients, c.of
			w.Cuts = []time.Duration{time.Minute, 4 * time.Minute}
			e := play(t, w).Phases[1].Edges[0]
			if got := float64(e.Attempts) / float64(e.Calls); got < c.least || got > c.most {
				t.Errorf("%.4f attempts for each call, want %v to %v", got, c.least, c.most)
			}
		})
	}
}

// What each client declares for a lost store adds up (rule G084).
func TestWhatLostComesTo(t *testing.T) {
	for lost, want := range map[policy.Ratio]float64{0: 1000, 0.02: 1000, 0.05: 2500, policy.Off: 0} {
		r := calling(t, 1000).Policy
		r.Fleet.Lost = lost
		w := steady(rules(t, r), 5000, 40*time.Second, Service{Time: draw.Constant(10 * ms)}, Fault{Kind: StoreDown, At: 10 * time.Second, For: 30 * time.Second})
		w.Fleets[0].Clients, w.Fleets[0].Shares = 50, &Shares{Lease: 3 * time.Second, Network: draw.Exponential(ms)}
		sum := int64(0)
		for _, b := range play(t, w).Bins[20:40] {
			sum += b.Attempts[0]
		}
		if got := float64(sum) / 20; got < want*0.95 || got > want*1.02 {
			t.Errorf("lost %v: %.0f attempts a second, want %.0f", lost, got, want)
		}
	}
}

// Worlds of every feature there is, whose fleets share over stores that are away now and then.
func TestInvariantsHoldWhereClientsShare(t *testing.T) {
	seeds := []uint64{102} // calls that may wait for ever, and a share without a turn
	for seed := range uint64(40) {
		seeds = append(seeds, seed)
	}
	for _, seed := range seeds {
		d := &dice{TB: t, Stream: draw.New(seed, 3, 1), joined: true}
		w := d.world()
		for i := range w.Fleets {
			f := &w.Fleets[i]
			f.Shares = &Shares{Lease: time.Second + d.upTo(3*time.Second), Network: draw.Exponential(ms)}
			f.Greedy = one(d, 0, 0, d.U())
			f.Think = draw.Constant(10 * ms) // who is refused at once and does not think calls without end
			w.Faults = append(w.Faults, Fault{Kind: StoreDown, Fleet: i, At: d.upTo(w.Duration), For: d.upTo(3 * time.Second), Period: one(d, 0, 4*time.Second)})
		}
		for i := range w.Faults {
			w.Faults[i].Callers = d.N(3)
		}
		d.holds(w, seed)
	}
}

// A call asks no store, and what was held last stays in force: so the slowest calls are as slow as with a store.
func TestTheSlowestCallsAreNoSlowerWithoutTheStore(t *testing.T) {
	p := calling(t, 1000).Policy
	p.RateLimit.MaxWait = 5 * time.Second // else it is what the slowest wait for
	in := func(faults ...Fault) FleetCounts {
		w := steady(rules(t, p), 700, 2*time.Minute, Service{Time: draw.Exponential(10 * ms)}, faults...)
		w.Fleets[0].Clients, w.Fleets[0].Shares = 50, &Shares{Lease: 3 * time.Second, Network: draw.Exponential(ms)}
		w.Cuts = []time.Duration{time.Minute}
		return play(t, w).Phases[1].Fleets[0]
	}
	with, without := in(), in(Fault{Kind: StoreDown, At: time.Minute, For: time.Minute})
	a, b := with.Answered.Quantile(0.999), without.Answered.Quantile(0.999)
	t.Logf("of %d calls p99.9 is %s with a store, and %s without; %.3f and %.3f %% are answered", with.Offered, a, b, share(with), share(without))
	if float64(b) > 1.01*float64(a) || share(without) < share(with)-0.05 {
		t.Error("it may be 1 % more, and 0.05 points fewer")
	}
}

func share(c FleetCounts) float64 { return 100 * float64(c.Good) / float64(c.Offered) }
