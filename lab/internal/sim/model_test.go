package sim

import (
	"math"
	"testing"
	"time"

	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/internal/bulkhead"
	"github.com/gabion-go/gabion/internal/machine"
	"github.com/gabion-go/gabion/lab/internal/draw"
	"github.com/gabion-go/gabion/policy"
)

const ms = time.Millisecond

// tries is a policy that tries so often, a millisecond after each failure, and has
// no other layers than those that edit adds.
func tries(t testing.TB, n int, edit ...func(*policy.Policy)) *machine.Rules {
	p := policy.Policy{
		Safe:    true,
		Timeout: policy.Timeout{Call: policy.Off, Attempt: policy.Off, Margin: policy.Off},
		Retry:   policy.Retry{Attempts: n, Backoff: backoff.Const(ms), Budget: policy.Budget{Off: true}},
		Pace:    policy.Pace{Off: true}, Breaker: policy.Breaker{Off: true}, Bulkhead: policy.Bulkhead{Off: true},
	}
	for _, e := range edit {
		e(&p)
	}
	return rules(t, p)
}

func attemptTimeout(d time.Duration) func(*policy.Policy) {
	return func(p *policy.Policy) { p.Timeout.Attempt, p.Timeout.Strict = d, true }
}

// steady is ten clients who call one service at random times.
func steady(r *machine.Rules, rate float64, duration time.Duration, v Service, faults ...Fault) *World {
	return &World{
		Duration: duration,
		Fleets:   []Fleet{{Clients: 10, Load: Steady(rate), Plan: Plan{Steps: []Step{{Edge: Edge{Rules: r}}}}}},
		Services: []Service{v},
		Faults:   faults,
	}
}

// at is one client who calls at those times.
func at(r *machine.Rules, v Service, times ...time.Duration) *World {
	w := steady(r, 0, time.Minute, v)
	w.Fleets[0] = Fleet{Clients: 1, Loop: Trace, At: times, Plan: w.Fleets[0].Plan}
	return w
}

func (w *World) edge() *Edge { return &w.Fleets[0].Plan.Steps[0].Edge }

// play runs a world whose invariants must hold.
func play(t testing.TB, w *World) *Result {
	t.Helper()
	r := Run(w, 1)
	for _, b := range r.Broken {
		t.Error(b)
	}
	return r
}

func near(t testing.TB, what string, got, want, tolerance float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tolerance*math.Abs(want)) {
		t.Errorf("%s: %.6g, want %.6g", what, got, want)
	}
}

func is[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

func good(r *Result, fleet int) float64 {
	f := &r.Fleets[fleet]
	return float64(f.Good) / float64(f.Offered)
}

// At twice its capacity a queue of a second answers no request in half a second, and a stack
// answers as many as there is capacity for.
func TestOverloadedQueueAnswersTooLateAndStackInTime(t *testing.T) {
	share := func(d Discipline) float64 {
		v := Service{Workers: 1, Queue: 100, Discipline: d, Time: draw.Constant(10 * ms)}
		w := steady(tries(t, 1, attemptTimeout(500*ms)), 200, 100*time.Second, v)
		w.Warmup = 10 * time.Second
		return good(play(t, w), 0)
	}
	near(t, "first in, first out", share(FIFO), 0, 0)
	near(t, "last in, first out", share(LIFO), 0.5, 0.03)
}

func TestCoDelKeepsTheWaitShort(t *testing.T) {
	p50 := func(d Discipline) time.Duration {
		v := Service{Workers: 1, Queue: 1000, Discipline: d, Time: draw.Constant(10 * ms)}
		w := steady(tries(t, 1), 110, 5*time.Minute, v)
		w.Warmup = time.Minute
		return play(t, w).Fleets[0].Answered.Quantile(0.5)
	}
	if got := p50(FIFO); got < 5*time.Second {
		t.Errorf("without it half stay %v", got)
	}
	if got := p50(CoDel); got > 100*ms {
		t.Errorf("with it half stay %v", got)
	}
}

func TestHigherPrioritiesGoFirst(t *testing.T) {
	v := Service{Workers: 1, Queue: 1 << 20, Discipline: ByPriority, Time: draw.Constant(10 * ms)}
	w := steady(tries(t, 1), 0, 200*time.Second, v)
	w.Drain, w.Fleets = 1, nil
	for _, f := range []struct {
		p    bulkhead.Priority
		rate float64
	}{{bulkhead.Low, 60}, {bulkhead.Normal, 30}, {bulkhead.High, 60}} { // and room for 100
		w.Fleets = append(w.Fleets, Fleet{
			Clients: 1, Load: Steady(f.rate), Plan: Plan{Steps: []Step{{Edge: Edge{Rules: tries(t, 1), Priority: f.p}}}},
		})
	}
	r := play(t, w)
	near(t, "high", good(r, 2), 1, 0.001)
	near(t, "normal", good(r, 1), 1, 0.003)
	near(t, "low", good(r, 0), 10./60, 0.2)
}

// A queue that collapsed goes on doing work for callers who have gone, who come
// again. Dropping the expired ends that while work is short for the time that
// callers wait. When it is a tenth of it, what is begun just in time ends too late,
// and the collapse goes on with less.
func TestDroppingTheExpiredEndsACollapseOfShortWork(t *testing.T) {
	end := func(workers int, drop bool) float64 {
		work := draw.Exponential(time.Duration(workers) * 10 * ms) // 100 pieces a second
		v := Service{Workers: workers, Queue: 2000, DropExpired: drop, Time: work}
		w := steady(tries(t, 4, attemptTimeout(time.Second)), 60, 3*time.Minute, v)
		w.edge().Deadline = true
		w.Fleets[0].Load = Load{{0, 60}, {10 * time.Second, 60}, {10 * time.Second, 400}, {20 * time.Second, 400}, {20 * time.Second, 60}}
		w.Warmup = 2 * time.Minute
		return good(play(t, w), 0)
	}
	if got := end(1, false); got > 0.05 {
		t.Errorf("all work is done, and a share of %.3f is good two minutes later", got)
	}
	if got := end(1, true); got < 0.99 {
		t.Errorf("expired work is dropped, and a share of %.3f is good two minutes later", got)
	}
	if got := end(10, true); got < 0.05 || got > 0.5 {
		t.Errorf("expired work of a tenth of the timeout is dropped, and a share of %.3f is good two minutes later", got)
	}
}

// Fifty replicas at 90 %: the mean stay, in services.
func TestBalancing(t *testing.T) {
	for _, c := range []struct {
		fact      string
		b         Balance
		want      float64
		tolerance float64
	}{
		{"random is fifty of M/M/1: 1/(1-ρ)", Random, 10, 0.08},
		{"in turn is nearly D/M/1: 1/(1-σ), σ = exp(-(1-σ)/ρ)", RoundRobin, 5.2, 0.08},
		{"the better of two is the supermarket model: Σ ρ^(2^i-2)", TwoChoices, 2.615, 0.08},
		{"the best of all hardly waits", LeastBusy, 1.1, 0.1},
	} {
		t.Run(c.fact, func(t *testing.T) {
			v := Service{Replicas: 50, Balance: c.b, Workers: 1, Queue: 1 << 30, Time: draw.Exponential(100 * ms)}
			w := steady(tries(t, 1), 450, 250*time.Second, v)
			w.Warmup = 100 * time.Second
			near(t, "stay", play(t, w).Fleets[0].Latency.Mean().Seconds()/0.1, c.want, c.tolerance)
		})
	}
}

// Two replicas at 90 %, where the shorter of two queues is little worse than one
// queue for both (M/M/2: 1/(1-ρ²) = 5.26) and much better than chance (10).
func TestTheLeastBusyHasTheShortestQueue(t *testing.T) {
	v := Service{Replicas: 2, Balance: LeastBusy, Workers: 1, Queue: 1 << 30, Time: draw.Exponential(100 * ms)}
	w := steady(tries(t, 1), 18, 5000*time.Second, v)
	w.Warmup = 200 * time.Second
	if stay := play(t, w).Fleets[0].Latency.Mean().Seconds() / 0.1; stay < 5 || stay > 6 {
		t.Errorf("stay %.2f", stay)
	}
}

// Brooker's open system (LAB A3): by Little's law work takes 1.01/(1-0.01·40).
func TestCrowdsAreSlow(t *testing.T) {
	w := steady(tries(t, 1), 40, 2000*time.Second, Service{Crowd: 0.01, Time: draw.Constant(time.Second)})
	w.Warmup = 100 * time.Second
	near(t, "mean", play(t, w).Fleets[0].Latency.Mean().Seconds(), 1.01/0.6, 0.02)

	two := at(tries(t, 1), Service{Crowd: 0.1, Time: draw.Constant(time.Second)}, time.Second, time.Second)
	is(t, "mean of one that is alone at first and one that is not", play(t, two).Fleets[0].Latency.Mean(), 1150*ms)
}

func TestSlowCallsAreSlowAtEveryTry(t *testing.T) {
	late := func(byCall bool) int64 {
		v := Service{ByCall: byCall, Time: draw.Mixture(draw.Part{Share: 0.9, Dist: draw.Constant(ms)}, draw.Part{Share: 0.1, Dist: draw.Constant(time.Second)})}
		w := steady(tries(t, 3, attemptTimeout(100*ms)), 100, 100*time.Second, v)
		return play(t, w).Fleets[0].Bad
	}
	near(t, "by call", float64(late(true)), 1000, 0.1)
	near(t, "by attempt", float64(late(false)), 10, 0.9)
}

// A limit of 10/s with bursts of 5, asked 20 times a second for 10 s.
func TestRateLimitsAreExact(t *testing.T) {
	v := Service{Limit: Limit{Rate: 10, Burst: 5}}
	w := steady(tries(t, 1), 20, 10*time.Second, v)
	w.Fleets[0].Even = true
	r := play(t, w)
	is(t, "admitted", r.Services[0].Effects, 5+99)
	is(t, "throttled", r.Services[0].Refused, 199-104)
	is(t, "told so", r.Edges[0].Ended[policy.None], 104)
}

func TestRetryAfterIsKept(t *testing.T) {
	two := func(l Limit) *Result {
		r := tries(t, 4, func(p *policy.Policy) { p.Retry.MaxAfter = time.Minute })
		return play(t, at(r, Service{Limit: l}, time.Second, time.Second))
	}
	honest := two(Limit{Rate: 0.5, Honest: true})
	is(t, "an honest one is asked again once", honest.Edges[0].Attempts, 3)
	is(t, "and both are good", honest.Fleets[0].Good, 2)
	if d := honest.Fleets[0].Latency.Max(); d < 2*time.Second || d > 3*time.Second {
		t.Errorf("it waited %v, was told 2s", d)
	}
	short := two(Limit{Rate: 0.5, After: 100 * ms})
	is(t, "a lie is asked until tries run out", short.Edges[0].Attempts, 5)
	is(t, "and one is good", short.Fleets[0].Good, 1)
}

// A greedy fleet of two and a modest one of one at a limit of 10/s. The greedy one does not wait
// for answers: whom an attempt is from is known when its call is long over.
func TestCallersHaveLimitsOfTheirOwn(t *testing.T) {
	modest := func(each bool) float64 {
		v := Service{Limit: Limit{Rate: 10, Burst: 10, PerCaller: each}}
		w := steady(tries(t, 1, attemptTimeout(50*ms)), 100, 100*time.Second, v)
		w.Fleets[0].Clients = 2
		w.Fleets[0].Plan.Steps[0].Edge.Network = draw.Constant(100 * ms)
		w.Fleets = append(w.Fleets, Fleet{
			Clients: 1, Load: Steady(5), Plan: Plan{Steps: []Step{{Edge: Edge{Rules: tries(t, 1)}}}},
		})
		r := play(t, w)
		if each {
			near(t, "greedy", float64(r.Services[0].Effects-r.Fleets[1].Good), 2*1000, 0.03)
		}
		return good(r, 1)
	}
	is(t, "modest, with a limit of its own", modest(true), 1)
	near(t, "modest, with a limit for all", modest(false), 10./105, 0.25)
}

func TestAFaultsLimitIsNotTheServicesOwn(t *testing.T) {
	v := Service{Limit: Limit{Rate: 1000, Burst: 1000}}
	w := steady(tries(t, 1), 20, 10*time.Second, v, Fault{Kind: RateLimit, Limit: Limit{Rate: 5, Burst: 5}, For: time.Minute})
	w.Fleets[0].Even = true
	is(t, "admitted", play(t, w).Services[0].Effects, 5+49)
}

// All attempts fail, so that every client that may retry does.
func failing(t testing.TB, edit func(*Fleet)) *Result {
	r := tries(t, 3, func(p *policy.Policy) { p.Retry.Budget = policy.Budget{Ratio: 0.1, Floor: 1} })
	w := steady(r, 100, 9*time.Second, Service{}, Fault{Kind: Errors, Status: 503, For: time.Hour})
	edit(&w.Fleets[0])
	return play(t, w)
}

func TestWhoSharesABudget(t *testing.T) {
	for _, c := range []struct {
		fact   string
		edit   func(*Fleet)
		floors float64 // of ten re-sends each, in the one window that the run is
	}{
		{"ten clients have ten floors", func(*Fleet) {}, 10},
		{"ten clients behind a sidecar have one", func(f *Fleet) { f.Shared = 10 }, 1},
		{"and keep it when they are replaced", func(f *Fleet) { f.Shared, f.Session = 10, 5 }, 1},
	} {
		t.Run(c.fact, func(t *testing.T) {
			n := failing(t, c.edit).Edges[0]
			resends := float64(n.Attempts - n.Calls)
			near(t, "re-sends", resends, 0.1*float64(n.Calls)+10*c.floors, 0.05)
		})
	}
	// LAB A2: buckets of those who call once are always full.
	n := failing(t, func(f *Fleet) { f.Session = 1 }).Edges[0]
	is(t, "attempts of clients that live for one call", n.Attempts, 3*n.Calls)
}

// A client of five calls learns from three of them that it should not call, and is
// replaced by one that does not know.
func TestASessionIsSoManyCalls(t *testing.T) {
	r := tries(t, 1, func(p *policy.Policy) { p.Breaker = policy.Breaker{Consecutive: 3, Open: time.Hour} })
	w := steady(r, 0, time.Minute, Service{}, Fault{Kind: Errors, Status: 503, For: time.Hour})
	w.Fleets[0] = Fleet{Clients: 1, Load: Steady(10), Even: true, Session: 5, Plan: w.Fleets[0].Plan}
	n := play(t, w).Edges[0]
	near(t, "attempts", float64(n.Attempts), 3./5*float64(n.Calls), 0.01)
}

// A request that is unanswered when the run ends was not answered fast.
func TestWhatIsUnfinishedCounts(t *testing.T) {
	w := steady(tries(t, 1), 10, 100*time.Second, Service{Time: draw.Constant(10 * ms)}, Fault{Kind: BlackHole, Share: 0.5, For: time.Hour})
	w.Warmup, w.Fleets[0].Even = 10*time.Second, true
	f := play(t, w).Fleets[0]
	is(t, "offered", f.Good+f.Bad+f.Unfinished, f.Offered)
	near(t, "unfinished", float64(f.Unfinished), 450, 0.1)
	is(t, "latencies", f.Latency.N(), f.Offered)
	near(t, "the longest", f.Latency.Max().Seconds(), 90, 0.03)
}

// The response time law: N clients who think for Z and wait for R make N/(Z+R).
func TestClosedLoop(t *testing.T) {
	w := steady(tries(t, 1), 0, 1000*time.Second, Service{Time: draw.Exponential(100 * ms)})
	w.Fleets[0] = Fleet{Clients: 50, Loop: Closed, Think: draw.Exponential(900 * ms), Spread: time.Second, Plan: w.Fleets[0].Plan}
	near(t, "calls", float64(play(t, w).Edges[0].Calls), 50*1000, 0.015)
}

func TestAClosedLoopThatIsRefusedAtOnceDoesNotStopTime(t *testing.T) {
	r := tries(t, 1, func(p *policy.Policy) { p.Breaker = policy.Breaker{Consecutive: 1, Open: time.Hour} })
	w := steady(r, 0, time.Second, Service{}, Fault{Kind: Refuse, For: time.Hour})
	w.Fleets[0] = Fleet{Clients: 1, Loop: Closed, Plan: w.Fleets[0].Plan}
	is(t, "calls", play(t, w).Edges[0].Calls, 1000)
}

func TestTraces(t *testing.T) {
	r := play(t, at(tries(t, 1), Service{Time: draw.Constant(ms)}, 500*ms, 1500*ms, 1600*ms, 2*time.Hour))
	is(t, "calls", r.Edges[0].Calls, 3)
	is(t, "in the first second", r.Bins[0].Offered, 1)
	is(t, "in the second", r.Bins[1].Offered, 2)
}

// The Tail at Scale: one slow or bad leaf in many is nearly always met.
func TestFanOut(t *testing.T) {
	binomial := 0.0 // at least 8 good of 10, at 5 % bad
	for k, c := range []float64{1, 10, 45} {
		binomial += c * math.Pow(0.05, float64(k)) * math.Pow(0.95, float64(10-k))
	}
	for _, c := range []struct {
		fact   string
		quorum int
		want   float64
	}{
		{"all of ten", 0, math.Pow(0.95, 10)},
		{"eight of ten", 8, binomial},
		{"one of ten", 1, 1},
	} {
		t.Run(c.fact, func(t *testing.T) {
			w := steady(tries(t, 1), 100, 60*time.Second, Service{}, Fault{Kind: Errors, Status: 500, Share: 0.05, For: time.Hour})
			w.Fleets[0].Plan.Steps[0].Fan, w.Fleets[0].Plan.Steps[0].Quorum = 10, c.quorum
			near(t, "good", good(play(t, w), 0), c.want, 0.03)
		})
	}
}

func TestStepsAreTakenByChance(t *testing.T) {
	w := steady(tries(t, 1), 100, 200*time.Second, Service{})
	w.Fleets[0].Plan.Steps[0].Chance = 0.3
	r := play(t, w)
	near(t, "calls", float64(r.Edges[0].Calls), 0.3*float64(r.Fleets[0].Offered), 0.04)
	is(t, "good", good(r, 0), 1)
}

func TestACallOfADecidedStepSaysNothingOfTheNext(t *testing.T) {
	w := at(tries(t, 1), Service{Replicas: 2, Balance: RoundRobin, Time: draw.Constant(10 * ms)}, time.Second)
	w.Services = append(w.Services, Service{Time: draw.Constant(2 * time.Second)})
	w.Fleets[0].Plan.Steps[0].Fan, w.Fleets[0].Plan.Steps[0].Quorum = 2, 1
	w.Fleets[0].Plan.Steps = append(w.Fleets[0].Plan.Steps, Step{Edge: Edge{To: 1, Rules: tries(t, 1)}})
	w.Faults = []Fault{{Kind: Slow, Replicas: 1, Add: 500 * ms, For: time.Hour}}
	is(t, "took", play(t, w).Fleets[0].Latency.Max(), 2010*ms)
}

// Two layers of three tries over a service that always fails.
func TestLayersMultiplyUnlessTheyAreToldNotTo(t *testing.T) {
	for _, c := range []struct {
		fact  string
		marks bool
		want  int64
	}{
		{"three times three", false, 9},
		{"only the lower retries when it says that it did", true, 3},
	} {
		t.Run(c.fact, func(t *testing.T) {
			w := at(tries(t, 3), Service{Marks: c.marks, Plan: Plan{Steps: []Step{{Edge: Edge{To: 1, Rules: tries(t, 3)}}}}}, time.Second)
			w.Services = append(w.Services, Service{})
			w.Faults = []Fault{{Kind: Errors, Status: 503, Service: 1, For: time.Hour}}
			is(t, "attempts at the bottom", play(t, w).Services[1].Received, c.want)
		})
	}
}

func TestDeadlinesTravel(t *testing.T) {
	below := func(travels bool) time.Duration {
		v := Service{Plan: Plan{Steps: []Step{{Edge: Edge{To: 1, Rules: tries(t, 5, attemptTimeout(time.Second)), Deadline: travels}}}}}
		w := at(tries(t, 1), v, time.Second)
		w.edge().Deadline = travels
		w.Fleets[0].Plan.Deadline = 1500 * ms
		w.Services = append(w.Services, Service{Time: draw.Constant(time.Hour)})
		r := play(t, w)
		is(t, "took", r.Fleets[0].Latency.Max(), 1500*ms)
		return time.Duration(r.Edges[1].Attempts) * time.Second
	}
	is(t, "a callee that knows tries until then", below(true), 2*time.Second)
	is(t, "one that does not goes on", below(false), 5*time.Second)
}

func TestExpiredRequestsOfIdleServicesAreNotWorkedOnEither(t *testing.T) {
	w := at(tries(t, 1, attemptTimeout(50*ms)), Service{Workers: 1, DropExpired: true, Time: draw.Constant(ms)}, time.Second)
	w.edge().Network, w.edge().Deadline = draw.Constant(100*ms), true
	r := play(t, w)
	is(t, "expired", r.Services[0].Expired, 1)
	is(t, "effects", r.Services[0].Effects, 0)
}

func TestLossIsEachWay(t *testing.T) {
	w := steady(tries(t, 1, attemptTimeout(time.Second)), 100, 200*time.Second, Service{Time: draw.Constant(ms)})
	w.edge().Loss = 0.1
	r := play(t, w)
	near(t, "good", good(r, 0), 0.9*0.9, 0.01)
	near(t, "astray", float64(r.Edges[0].Astray), 0.1*float64(r.Edges[0].Attempts), 0.07)
	near(t, "wasted", float64(r.Fleets[0].Ghosts), 0.09*float64(r.Edges[0].Attempts), 0.07)
}

func TestRefusalsCostWork(t *testing.T) {
	effects := func(cost float64) float64 {
		v := Service{Workers: 1, Queue: 1, RefuseCost: cost, Time: draw.Constant(10 * ms)}
		return float64(play(t, steady(tries(t, 1), 300, 100*time.Second, v)).Services[0].Effects)
	}
	near(t, "free refusals", effects(0), 10_000, 0.02)
	// Of x done and 300-x refused, x·10 ms and (300-x)·1 ms fill the second.
	near(t, "refusals at a tenth", effects(0.1), 100*(1-0.3)/0.009, 0.02)
}
