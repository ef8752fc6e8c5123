package sim

import (
	"reflect"
	"testing"
	"time"

	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/internal/bulkhead"
	"github.com/gabion-go/gabion/internal/learned"
	"github.com/gabion-go/gabion/internal/machine"
	"github.com/gabion-go/gabion/lab/internal/draw"
	"github.com/gabion-go/gabion/policy"
)

// dice makes worlds of every feature there is.
type dice struct {
	testing.TB
	draw.Stream
	joined bool // fleets have stores
}

func (d *dice) upTo(t time.Duration) time.Duration { return time.Duration(d.U() * float64(t)) }

func one[T any](d *dice, of ...T) T { return of[d.N(len(of))] }

func (d *dice) time() draw.Dist {
	return one(d,
		draw.Dist{}, draw.Constant(d.upTo(50*ms)), draw.Exponential(d.upTo(50*ms)+1), draw.LogNormal(10*ms, 300*ms),
		draw.Mixture(draw.Part{Share: 0.9, Dist: draw.Constant(ms)}, draw.Part{Share: 0.1, Dist: draw.Constant(2 * time.Second)}))
}

func (d *dice) rules() *machine.Rules {
	p := policy.Policy{
		Timeout:  policy.Timeout{Call: one(d, 0, policy.Off, 2*time.Second), Attempt: one(d, 0, 100*ms, time.Second)},
		Retry:    policy.Retry{Attempts: 1 + d.N(4), Backoff: one(d, backoff.Backoff{}, backoff.Const(10*ms), backoff.Backoff{Kind: backoff.DecorrelatedJitter, Base: ms, Cap: time.Second})},
		Breaker:  policy.Breaker{Off: d.Yes(0.5), Open: time.Second},
		Bulkhead: policy.Bulkhead{Off: d.Yes(0.5), Limit: 1 + d.N(20), Per: one(d, policy.PerAttempt, policy.PerCall)},
	}
	p.Retry.Budget = one(d, policy.Budget{}, policy.Budget{Off: true}, policy.Budget{Shape: policy.BudgetTokens}, policy.Budget{Floor: policy.Off, Window: time.Second},
		policy.Budget{Shape: policy.BudgetGRPC}, policy.Budget{Shape: policy.BudgetShare, Ratio: 0.5, MinInFlight: 1}, policy.Budget{Shape: policy.BudgetQuota, Capacity: 20})
	p.Safe, p.Key = d.Yes(0.7), one(d, policy.KeyDeclared, policy.KeyDeclared, policy.KeyMade, policy.KeyRequired)
	if d.Yes(0.3) {
		p.Hedge = policy.Hedge{Max: 1 + d.N(3), Delay: max(d.upTo(100*ms), ms)}
	}
	if d.Yes(0.3) {
		p.Throttle.K = 1.2 + d.U()
	}
	if d.Yes(0.2) {
		p.RateLimit = policy.RateLimit{Rate: 50, Burst: 1 + d.N(5)}
	}
	if d.Yes(0.2) {
		p.RateLimit.MaxWait = one(d, 0, policy.Off, time.Second)
		p.RateLimit.Quotas = []policy.Quota{{Unit: "tokens", Amount: 1 + 100*d.U(), Span: time.Second + d.upTo(5*time.Second), Window: d.Yes(0.3)}, {Unit: policy.Requests, Amount: 30}}
	}
	if d.joined {
		b := p.Retry.Budget
		p.Fleet = policy.Fleet{Rate: p.RateLimit.Rate > 0, Slots: !p.Bulkhead.Off, Quotas: len(p.RateLimit.Quotas) > 0, Budget: !b.Off && b.Shape != policy.BudgetShare}
	}
	return rules(d, p)
}

func (d *dice) limit() Limit {
	return Limit{Rate: 20 + 100*d.U(), Burst: d.N(10), After: d.upTo(2 * time.Second), Honest: d.Yes(0.5), PerCaller: d.Yes(0.5)}
}

func (d *dice) steps(from, services int) (steps []Step) {
	for range 1 + d.N(2) {
		steps = append(steps, Step{
			Edge: Edge{
				To: from + d.N(services-from), Rules: d.rules(), Network: d.time(), Loss: one(d, 0, 0, 0.05),
				Method: one(d, "", "GET", "POST"), Keyed: d.Yes(0.3), Deadline: d.Yes(0.5), Priority: one(d, bulkhead.Low, bulkhead.Normal, bulkhead.High),
			},
			Fan: d.N(4), Quorum: d.N(2), Chance: one(d, 0, 0, 0.5),
		})
		e := &steps[len(steps)-1].Edge
		if d.Yes(0.3) {
			e.Cache = &Cache{Keys: draw.NewZipf(1+d.N(100), d.U()), Size: d.N(50), TTL: one(d, 0, time.Second), Cold: d.Yes(0.5), Collapse: d.Yes(0.5)}
		}
		if d.Yes(0.5) {
			e.Uses = []Use{{Unit: "tokens", Amount: d.time(), Says: one(d, 0, 0.3, 1, 3)}}
		}
		if d.Yes(0.3) {
			e.Conns = &Conns{Size: 1 + d.N(5), Wait: one(d, 0, d.upTo(time.Second)), Open: d.time(), Idle: one(d, 0, d.upTo(time.Second)), Life: one(d, 0, d.upTo(time.Second))}
		}
	}
	return steps
}

func (d *dice) service(i, n int) Service {
	v := Service{
		Replicas: d.N(4), Balance: Balance(d.N(4)), Workers: d.N(5), Discipline: Discipline(d.N(4)), Queue: d.N(30),
		DropExpired: d.Yes(0.5), Time: d.time(), ByCall: d.Yes(0.5), Crowd: one(d, 0, 0.01), RefuseCost: one(d, 0, 0.1),
		Honours: d.Yes(0.5), Marks: d.Yes(0.5),
	}
	if d.Yes(0.2) {
		v.Limit = d.limit()
	}
	if d.Yes(0.3) {
		v.Quotas = &Quotas{PerCaller: d.Yes(0.3), Tells: Tells(d.N(4)), After: one(d, 0, time.Second), Honest: d.Yes(0.3)}
		for _, unit := range []string{policy.Requests, "tokens", "usd"} {
			v.Quotas.List = append(v.Quotas.List, Quota{Unit: unit, Amount: 20 + 100*d.U(), Span: time.Second + d.upTo(5*time.Second), Window: d.Yes(0.3)})
		}
	}
	if d.Yes(0.3) {
		v.Pauses = Pauses{draw.Exponential(ms + d.upTo(time.Second)), d.time()}
	}
	if d.Yes(0.4) {
		v.Admission = d.admission()
	}
	if i+1 < n && d.Yes(0.7) {
		v.Plan = Plan{Steps: d.steps(i+1, n), Deadline: one(d, 0, time.Second)}
	}
	return v
}

func (d *dice) admission() *Admission {
	a := &Admission{
		Limit: 1 + d.N(8), Queue: d.N(20) - 1, Target: one(d, 0, d.upTo(20*ms)), Interval: one(d, 0, d.upTo(300*ms)),
		NewestFirst: d.Yes(0.5), Fair: d.Yes(0.5), RetryAfter: one(d, 0, time.Second),
	}
	if d.Yes(0.3) {
		a.Learn = &learned.Bounds{Min: 1, Max: 10}
	}
	if a.Fair {
		a.TenantShare = one(d, 0, d.U())
	}
	return a
}

func (d *dice) fleet(n int) Fleet {
	f := Fleet{
		Clients: 1 + d.N(20), Loop: Loop(d.N(3)), Even: d.Yes(0.3), Think: d.time(), Spread: d.upTo(time.Second),
		Load:    Load{{0, 50 * d.U()}, {3 * time.Second, 100 * d.U()}, {3 * time.Second, 100 * d.U()}, {5 * time.Second, 0}},
		Session: one(d, 0, 1, 5), Shared: one(d, 0, 1, 3),
		Plan: Plan{Steps: d.steps(0, n), Deadline: one(d, 0, 0, time.Second)},
	}
	for at := time.Duration(0); at < 8*time.Second; at += d.upTo(100*ms) + 1 {
		f.At = append(f.At, at)
	}
	return f
}

func (d *dice) fault(w *World) Fault {
	f := Fault{
		Kind: Kind(d.N(int(CacheDown) + 1)), Service: d.N(len(w.Services)), Fleet: d.N(len(w.Fleets)),
		At: d.upTo(w.Duration), For: one(d, d.upTo(3*time.Second), time.Hour), Ramp: one(d, 0, time.Second), Period: one(d, 0, 0, 4*time.Second),
		Replicas: d.N(3), Share: one(d, 0, d.U()), Factor: 0.1 + d.U(), Add: d.upTo(300 * ms),
		Status: one(d, 429, 500, 503, 529), After: one(d, 0, time.Second), Late: d.Yes(0.3), Limit: d.limit(), Rules: d.rules(),
	}
	if f.Period > 0 {
		f.For = min(f.For, f.Period)
	}
	if f.At%3 == 0 { // no draw, so that worlds stay what they were
		f.Ways = []Way{{Status: 500, Share: 0.5}, {Status: Broke, Share: 0.3}, {Status: Unsent, Share: 0.2}}
		w.Ways = true
	}
	return f
}

func (d *dice) world() *World {
	w := &World{Duration: time.Second + d.upTo(9*time.Second), Drain: one(d, 0, time.Second), Warmup: one(d, 0, time.Second)}
	n := 1 + d.N(3)
	for i := range n {
		w.Services = append(w.Services, d.service(i, n))
	}
	for range 1 + d.N(2) {
		w.Fleets = append(w.Fleets, d.fleet(n))
	}
	for range d.N(5) {
		w.Faults = append(w.Faults, d.fault(w))
	}
	if d.Yes(0.3) {
		w.Cuts = []time.Duration{w.Duration / 3, w.Duration / 2}
	}
	return w
}

// holds runs a random world: its invariants hold, and the same seed gives the same.
func holds(t testing.TB, seed uint64) *Result {
	d := &dice{TB: t, Stream: draw.New(seed, 1, 1)}
	return d.holds(d.world(), seed)
}

func (d *dice) holds(w *World, seed uint64) *Result {
	t := d.TB
	r := Run(w, seed)
	for _, b := range r.Broken {
		t.Errorf("world %d: %s", seed, b)
	}
	if again := Run(w, seed); again.Hash != r.Hash || !reflect.DeepEqual(again, r) {
		t.Errorf("world %d: the same seed gave another run", seed)
	}
	return r
}

func FuzzWorld(f *testing.F) {
	f.Add(uint64(1))
	f.Fuzz(func(t *testing.T, seed uint64) { holds(t, seed) })
}

func TestInvariantsHoldInRandomWorlds(t *testing.T) {
	var calls, lost, dropped, expired, replays, silent int64
	for seed := range uint64(60) {
		r := holds(t, seed)
		for i := range r.Edges {
			calls += r.Edges[i].Calls
		}
		for i := range r.Services {
			n := &r.Services[i]
			lost, dropped, expired = lost+n.Lost, dropped+n.Dropped, expired+n.Expired
			replays, silent = replays+n.Replays, silent+n.Silent
		}
	}
	t.Logf("%d calls, %d lost, %d dropped, %d expired, %d replays, %d silent", calls, lost, dropped, expired, replays, silent)
	if calls < 20_000 || min(lost, dropped, expired, replays, silent) == 0 {
		t.Error("the worlds are too quiet to show anything")
	}
}

// The budget's promise, for one client, from what its machine says: when a re-send
// is granted, those of the window that ends there are at most the ratio of the
// calls in it and in the slice before, plus the floor.
func TestBudgetsKeepTheirPromiseInEveryWindow(t *testing.T) {
	const window, ratio, floor = 10 * time.Second, 0.2, 5
	r := tries(t, 3, func(p *policy.Policy) {
		p.Retry.Backoff = backoff.Const(ms) // a re-send goes a millisecond after its grant
		p.Retry.Budget = policy.Budget{Ratio: ratio, Window: window, Floor: floor / 10.}
	})
	w := steady(r, 100, 5*time.Minute, Service{},
		Fault{Kind: Errors, Status: 503, Share: 0.5, At: 30 * time.Second, For: 20 * time.Second, Period: 65 * time.Second})
	var calls, resends []time.Duration
	RunWatched(w, 1, &Watch{Client: 3, Tell: func(_ uint64, _ int, e policy.Event) {
		switch {
		case e.Kind != policy.KindAttemptSent:
		case e.Attempt == 1:
			calls = append(calls, time.Duration(e.At))
		default:
			resends = append(resends, time.Duration(e.At)-ms)
		}
	}})
	if len(resends) < 100 {
		t.Fatalf("only %d re-sends", len(resends))
	}
	in := func(all []time.Duration, from, to time.Duration) (n float64) {
		for _, at := range all {
			if at > from && at <= to {
				n++
			}
		}
		return n
	}
	closest := 0.0
	for _, at := range resends {
		sent, most := in(resends, at-window, at), ratio*in(calls, at-window-window/7-time.Second, at)+floor
		closest = max(closest, sent/most)
		if sent > most {
			t.Fatalf("at %v: %.0f re-sends, want at most %.1f", at, sent, most)
		}
	}
	if closest < 0.8 {
		t.Errorf("the budget was used to %.2f at most: nothing was shown", closest)
	}
}
