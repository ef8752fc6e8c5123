package sim

import (
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/machine"
	"github.com/gabion-go/gabion/lab/internal/draw"
	"github.com/gabion-go/gabion/policy"
)

// always is a fault that lasts from the beginning to the end.
func always(f Fault) Fault {
	f.For = 1000 * time.Hour
	return f
}

// What each way to fail means for the caller: a thousand calls of three tries, each of which takes
// 10 ms of work, with a timeout of a second.
func TestWaysToFail(t *testing.T) {
	const calls = 1000
	for _, c := range []struct {
		fact            string
		fault           Fault
		unsafe          bool
		attempts        int64
		effects, ghosts int64
		took            time.Duration // the longest call
	}{
		{"nothing", Fault{Kind: BrownOut, Factor: 1}, false, calls, calls, 0, 10 * ms},
		{"refused connections never sent anything, so that even unsafe calls are repeated", Fault{Kind: Refuse}, true, 3 * calls, 0, 0, 2 * ms},
		{"resets may have sent it: safe calls are repeated", Fault{Kind: Reset}, false, 3 * calls, 0, 0, 2 * ms},
		{"and unsafe ones are not", Fault{Kind: Reset}, true, calls, 0, 0, 0},
		{"a black hole costs every try its timeout", Fault{Kind: BlackHole}, false, 3 * calls, 0, 0, 3002 * ms},
		{"and an unsafe call one", Fault{Kind: BlackHole}, true, calls, 0, 0, 1000 * ms},
		{"503 is said before the work", Fault{Kind: Errors, Status: 503}, false, 3 * calls, 0, 0, 2 * ms},
		{"429 too", Fault{Kind: Errors, Status: 429}, false, 3 * calls, 0, 0, 2 * ms},
		{"500 is a failure of the work, repeated once", Fault{Kind: Errors, Status: 500}, false, 2 * calls, 0, 0, 21 * ms},
		{"late errors come when the work is done", Fault{Kind: Errors, Status: 503, Late: true}, false, 3 * calls, 3 * calls, calls, 32 * ms},
		{"and unsafe calls that met one are done and failed", Fault{Kind: Errors, Status: 503, Late: true}, true, calls, calls, calls, 10 * ms},
		{"a lost answer is work done", Fault{Kind: LostAnswers}, false, 3 * calls, 3 * calls, calls, 32 * ms},
		{"an answer that breaks off is work done, and nothing that its caller could use", Fault{Kind: CutBody}, false, 3 * calls, 3 * calls, calls, 32 * ms},
		{"a slow body takes its time", Fault{Kind: SlowBody, Add: 7 * ms}, false, calls, calls, 0, 17 * ms},
		{"slow by a factor", Fault{Kind: Slow, Factor: 7}, false, calls, calls, 0, 70 * ms},
		{"slow by a time", Fault{Kind: Slow, Add: 7 * ms}, false, calls, calls, 0, 17 * ms},
		{"a brown-out to a half takes twice as long", Fault{Kind: BrownOut, Factor: 0.5}, false, calls, calls, 0, 20 * ms},
		{"slower than the timeout, all of it is wasted", Fault{Kind: Slow, Add: 2 * time.Second}, false, 3 * calls, 3 * calls, calls, 3002 * ms},
	} {
		t.Run(c.fact, func(t *testing.T) {
			w := steady(tries(t, 3, attemptTimeout(time.Second), safe(!c.unsafe)), 10, 100*time.Second, Service{Time: draw.Constant(10 * ms)}, always(c.fault))
			w.Fleets[0].Even = true
			w.Fleets[0].Load = Load{{0, 10.01}}
			r := play(t, w)
			is(t, "calls", r.Edges[0].Calls, calls)
			is(t, "attempts", r.Edges[0].Attempts, c.attempts)
			is(t, "effects", r.Services[0].Effects, c.effects)
			is(t, "duplicates", r.Services[0].Duplicates, max(c.effects-calls, 0))
			is(t, "ghosts", r.Fleets[0].Ghosts, c.ghosts)
			is(t, "longest", r.Fleets[0].Latency.Max(), c.took)
		})
	}
}

func safe(is bool) func(*policy.Policy) { return func(p *policy.Policy) { p.Safe = is } }

func TestSharesOfRequests(t *testing.T) {
	for _, c := range []struct {
		fact  string
		fault Fault
		mean  time.Duration
		good  float64
	}{
		{"a quarter is three times as slow", Fault{Kind: Slow, Factor: 3, Share: 0.25}, 15 * ms, 1},
		{"one of three replicas is", Fault{Kind: Slow, Factor: 4, Replicas: 1}, 20 * ms, 1},
		{"one of three has a quarter of its capacity", Fault{Kind: BrownOut, Factor: 0.25, Replicas: 1}, 20 * ms, 1},
		{"a quarter fails", Fault{Kind: Errors, Status: 500, Share: 0.25}, 10 * ms, 0.75},
		{"one of three replicas does", Fault{Kind: Errors, Status: 500, Replicas: 1}, 10 * ms, 2. / 3},
		{"half of one of three does", Fault{Kind: Errors, Status: 500, Replicas: 1, Share: 0.5}, 10 * ms, 5. / 6},
	} {
		t.Run(c.fact, func(t *testing.T) {
			w := steady(tries(t, 1), 100, 300*time.Second, Service{Replicas: 3, Time: draw.Constant(10 * ms)}, always(c.fault))
			r := play(t, w)
			near(t, "mean", float64(r.Fleets[0].Latency.Mean()), float64(c.mean), 0.02)
			near(t, "good", good(r, 0), c.good, 0.02)
		})
	}
}

// Two faults strike independently of each other: half of the half that one leaves.
func TestFaultsStrikeOnTheirOwn(t *testing.T) {
	w := steady(tries(t, 1), 100, 300*time.Second, Service{}, always(Fault{Kind: Refuse, Share: 0.5}), always(Fault{Kind: Errors, Status: 503, Share: 0.5}))
	near(t, "good", good(play(t, w), 0), 0.25, 0.03)
}

func TestBrownOutsHalveWhatASaturatedServiceDoes(t *testing.T) {
	v := Service{Workers: 10, Queue: 100, Time: draw.Constant(10 * ms)}
	w := steady(tries(t, 1), 2000, 20*time.Second, v, Fault{Kind: BrownOut, Factor: 0.5, At: 10 * time.Second, For: time.Hour})
	r := play(t, w)
	before, during := 0.0, 0.0
	for i := 2; i < 10; i++ {
		before += float64(r.Bins[i].Good)
		during += float64(r.Bins[i+10].Good)
	}
	near(t, "before", before, 8*1000, 0.002)
	near(t, "during", during, 8*500, 0.002)
}

// A ramp of half its length on each side makes a fault half of what it were.
func TestRampsGrowAndFall(t *testing.T) {
	f := Fault{Kind: Errors, Status: 503, At: 100 * time.Second, For: 200 * time.Second, Ramp: 100 * time.Second}
	r := play(t, steady(tries(t, 1), 100, 400*time.Second, Service{}, f))
	near(t, "failures", float64(r.Fleets[0].Bad), 100*100, 0.03)
	near(t, "in the middle second", float64(r.Bins[199].Bad+r.Bins[200].Bad), float64(r.Bins[199].Offered+r.Bins[200].Offered), 0.03)
	is(t, "before", r.Bins[99].Bad, 0)
	is(t, "after", r.Bins[300].Bad, 0)
}

func TestKeysThatAreHonouredMakeRepeatingHarmless(t *testing.T) {
	for _, c := range []struct {
		fact             string
		keyed, honours   bool
		duplicates, more bool
	}{
		{"no key", false, true, true, false},
		{"a key that the server ignores", true, false, true, false},
		{"a key that is honoured", true, true, false, true},
	} {
		t.Run(c.fact, func(t *testing.T) {
			v := Service{Honours: c.honours, Time: draw.Constant(10 * ms)}
			w := steady(tries(t, 3), 100, 100*time.Second, v, always(Fault{Kind: LostAnswers, Share: 0.2}))
			w.edge().Keyed = c.keyed
			r := play(t, w)
			is(t, "duplicates", r.Services[0].Duplicates > 0, c.duplicates)
			is(t, "replays", r.Services[0].Replays > 0, c.more)
			near(t, "again", float64(r.Services[0].Duplicates+r.Services[0].Replays), 100*100*(0.2+0.04), 0.06)
			near(t, "good", good(r, 0), 1-0.008, 0.003)
		})
	}
}

func TestRestartsLoseWhatIsUnderWayAndWarmUp(t *testing.T) {
	v := Service{Workers: 1, Queue: 10, Time: draw.Constant(100 * ms)}
	// Two come just before, one in between, and then each as slow as it is warm.
	w := at(tries(t, 1), v, 9950*ms, 9960*ms, 11*time.Second, 12*time.Second, 17*time.Second, 22*time.Second)
	w.Faults = []Fault{{Kind: Restart, At: 10 * time.Second, For: 2 * time.Second, Ramp: 10 * time.Second}}
	r := play(t, w)
	is(t, "lost", r.Services[0].Lost, 2)
	is(t, "wasted", r.Services[0].Wasted, 50*ms)
	is(t, "refused", r.Services[0].Refused, 1)
	is(t, "good", r.Fleets[0].Good, 3)
	is(t, "mean of what took three, two and one times as long", r.Fleets[0].Answered.Mean(), 200*ms)
}

func TestARestartOfOneReplicaIsOfOne(t *testing.T) {
	v := Service{Replicas: 2, Balance: RoundRobin, Workers: 1, Queue: 10, Time: draw.Constant(100 * ms)}
	w := at(tries(t, 1), v, 9950*ms, 9960*ms)
	w.Faults = []Fault{{Kind: Restart, At: 10 * time.Second, For: time.Second, Replicas: 1}}
	is(t, "lost", play(t, w).Services[0].Lost, 1)
}

// The service in the middle has retries and a breaker of its own for what is below.
func below(t testing.TB, r *machine.Rules, faults []Fault, times ...time.Duration) *World {
	v := Service{Plan: Plan{Steps: []Step{{Edge: Edge{To: 1, Rules: r}}}}}
	w := at(tries(t, 1), v, times...)
	w.Services = append(w.Services, Service{})
	w.Faults = faults
	return w
}

func TestAReplicaThatRestartsStopsCallingForThoseItLost(t *testing.T) {
	w := below(t, tries(t, 60, attemptTimeout(time.Second)), []Fault{
		always(Fault{Kind: BlackHole, Service: 1}),
		{Kind: Restart, At: 10 * time.Second, For: time.Second},
	}, 4500*ms)
	r := play(t, w)
	is(t, "lost", r.Services[0].Lost, 1)
	is(t, "attempts below", r.Services[1].Received, 6)
	is(t, "calls that it gave up", r.Edges[1].Ended[policy.Canceled], 1)
}

func TestAReplicaThatRestartsForgetsWhatItKnewOfThoseBelow(t *testing.T) {
	r := tries(t, 1, func(p *policy.Policy) { p.Breaker = policy.Breaker{Consecutive: 1, Open: time.Hour} })
	faults := []Fault{{Kind: Refuse, Service: 1, For: 2 * time.Second}}
	is(t, "good while its breaker is open", play(t, below(t, r, faults, time.Second, 20*time.Second)).Fleets[0].Good, 0)
	faults = append(faults, Fault{Kind: Restart, At: 10 * time.Second, For: time.Second})
	is(t, "good after a restart", play(t, below(t, r, faults, time.Second, 20*time.Second)).Fleets[0].Good, 1)
}

func TestClientsThatRestartForget(t *testing.T) {
	r := tries(t, 1, func(p *policy.Policy) { p.Breaker = policy.Breaker{Consecutive: 1, Open: time.Hour} })
	w := steady(r, 100, 30*time.Second, Service{},
		Fault{Kind: Refuse, For: 10 * time.Second}, Fault{Kind: ClientRestart, At: 20 * time.Second})
	res := play(t, w)
	is(t, "one attempt for each breaker, and all after", res.Edges[0].Attempts, 10+res.Fleets[0].Good)
	is(t, "good before", res.Bins[19].Good, 0)
	is(t, "bad after", res.Bins[20].Bad, 0)
}

// Five of ten clients restart, which have one sidecar: the other five have another one, whose breaker is still open.
func TestClientsThatShareAStateRestartTogether(t *testing.T) {
	r := tries(t, 1, func(p *policy.Policy) { p.Breaker = policy.Breaker{Consecutive: 1, Open: time.Hour} })
	w := steady(r, 100, 30*time.Second, Service{},
		Fault{Kind: Refuse, For: 10 * time.Second}, Fault{Kind: ClientRestart, At: 20 * time.Second, Replicas: 5})
	w.Fleets[0].Shared = 5
	res := play(t, w)
	is(t, "good before", res.Bins[19].Good, 0)
	if b := res.Bins[20]; b.Good < 30 || b.Bad < 30 {
		t.Errorf("%d good and %d bad after, and half of them have restarted", b.Good, b.Bad)
	}
}

func TestFlapsComeByTheirPeriod(t *testing.T) {
	f := Fault{Kind: Errors, Status: 503, At: 5 * time.Second, For: 2 * time.Second, Period: 10 * time.Second, Until: 30 * time.Second}
	r := play(t, steady(tries(t, 1), 100, time.Minute, Service{}, f))
	for i := range r.Bins {
		b := &r.Bins[i]
		if down := i < 30 && (i%10 == 5 || i%10 == 6); down && b.Good > 0 || !down && b.Bad > 0 {
			t.Errorf("second %d: %d good, %d bad", i, b.Good, b.Bad)
		}
	}
	is(t, "times", len(r.Faults), 3)
}

func TestSkewOnlyMattersWithDeadlines(t *testing.T) {
	for _, c := range []struct {
		fact            string
		travels, drops  bool
		skew            time.Duration
		expired, wasted bool
	}{
		{"a clock ahead drops what is in time", true, true, time.Second, true, false},
		{"not when no deadline travels", false, true, time.Second, false, false},
		{"nor when the server ignores it", true, false, time.Second, false, false},
		{"a clock behind works for those who have gone", true, true, -time.Second, false, true},
		{"a right one does not", true, true, 0, true, false},
	} {
		t.Run(c.fact, func(t *testing.T) {
			w := at(tries(t, 1, attemptTimeout(500*ms)), Service{DropExpired: c.drops, Time: draw.Constant(ms)}, time.Second)
			w.edge().Deadline = c.travels
			if c.skew <= 0 {
				w.edge().Network = draw.Constant(600 * ms)
			}
			w.Faults = []Fault{always(Fault{Kind: Skew, Add: c.skew})}
			n := play(t, w).Services[0]
			is(t, "expired", n.Expired > 0, c.expired)
			is(t, "wasted", n.Wasted > 0, c.wasted)
		})
	}
}

func TestReloadsChangeTheRulesOfCallsToCome(t *testing.T) {
	w := steady(tries(t, 1), 100, 20*time.Second, Service{}, always(Fault{Kind: Errors, Status: 503}),
		Fault{Kind: Reload, At: 10 * time.Second, Rules: tries(t, 3)})
	r := play(t, w)
	before, after := int64(0), int64(0)
	for i := range r.Bins {
		if i < 10 {
			before += r.Bins[i].Attempts[0] - r.Bins[i].Offered
		} else if i < 20 {
			after += r.Bins[i].Attempts[0] - 3*r.Bins[i].Offered
		}
	}
	is(t, "re-sends before", before, 0)
	if after < -4 || after > 0 {
		t.Errorf("%d re-sends are missing after", -after)
	}
}

func TestTheServerRefusesTheRestOfAFullQueue(t *testing.T) {
	w := at(tries(t, 1), Service{Workers: 2, Queue: 3, Time: draw.Constant(10 * ms)},
		time.Second, time.Second, time.Second, time.Second, time.Second, time.Second, time.Second)
	r := play(t, w)
	is(t, "full", r.Services[0].Full, 2)
	is(t, "waited", r.Services[0].Queued, 3)
	is(t, "longest", r.Fleets[0].Answered.Max(), 30*ms)
}

func TestAFaultThatOutlastsTheLoadDoesNotOutlastTheRun(t *testing.T) {
	w := steady(tries(t, 1, attemptTimeout(5*time.Second)), 10, 10*time.Second, Service{}, always(Fault{Kind: BlackHole}))
	if r := play(t, w); r.Ended > 16*time.Second || r.Under > 0 {
		t.Errorf("ended after %v with %d under way", r.Ended, r.Under)
	}
}

func TestWorkersComeAndGo(t *testing.T) {
	for _, c := range []struct {
		fact   string
		factor float64
		most   int64 // effects in the second of the fault, with 4 workers that take 10 ms
	}{
		{"half of them are gone", 0.5, 200},
		{"one is always left", 0.01, 100},
		{"twice as many", 2, 800},
	} {
		t.Run(c.fact, func(t *testing.T) {
			w := steady(tries(t, 1, attemptTimeout(time.Minute)), 1000, 3*time.Second, Service{Workers: 4, Queue: 10_000, Time: draw.Constant(10 * ms)},
				Fault{Kind: Crew, Factor: c.factor, At: time.Second, For: time.Second})
			w.Cuts = []time.Duration{time.Second, 2 * time.Second}
			n := play(t, w).Phases[1].Services[0].Effects
			if n < c.most-8 || n > c.most+8 {
				t.Errorf("%d pieces of work were done, want about %d", n, c.most)
			}
		})
	}
}
