package sim

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/gabion-go/gabion/lab/internal/draw"
	"github.com/gabion-go/gabion/policy"
)

// tokens is that many of the unit tokens.
func tokens(n float64) draw.Dist { return draw.Constant(time.Duration(n * float64(ms))) }

// metered is clients that call without a pause, by one policy for every few of them.
func metered(t testing.TB, p policy.Policy, clients, shared int, q Quotas, use Use) *World {
	p.Safe, p.Timeout = true, policy.Timeout{Call: policy.Off, Attempt: 30 * time.Second}
	return &World{
		Duration: 595 * time.Second, Cuts: []time.Duration{2 * time.Minute},
		Fleets: []Fleet{{Clients: clients, Shared: shared, Loop: Closed, Spread: time.Second, Plan: Plan{Steps: []Step{{
			Edge: Edge{Rules: rules(t, p), Network: draw.Uniform(20*ms, 40*ms), Uses: []Use{use}},
		}}}}},
		Services: []Service{{Time: draw.Constant(100 * ms), Quotas: &q}},
	}
}

// unguarded is a client that only calls.
var unguarded = policy.Policy{
	Retry: policy.Retry{Attempts: 1, Budget: policy.Budget{Off: true}}, Pace: policy.Pace{Off: true}, Breaker: policy.Breaker{Off: true}, Bulkhead: policy.Bulkhead{Off: true},
}

// Under more load than it allows, a quota lets through what there was at first and what came back: all of a bucket but
// less than one request, and of a window what whole requests there are in each.
func TestAQuotaLetsThroughWhatThereIs(t *testing.T) {
	for _, c := range []struct {
		fact string
		q    Quota
		size float64
		want float64 // requests in 595 s
	}{
		{"a bucket", Quota{Unit: "tokens", Amount: 1000, Span: time.Minute}, 10, 1000/10 + 595/0.6},
		{"a bucket of large ones", Quota{Unit: "tokens", Amount: 1000, Span: time.Minute}, 300, 1000/300.0 + 595.0/18},
		{"a window", Quota{Unit: "tokens", Amount: 1000, Span: time.Minute, Window: true}, 10, 1000},
		{"a window of large ones", Quota{Unit: "tokens", Amount: 1000, Span: time.Minute, Window: true}, 300, 30},
		{"requests", Quota{Unit: policy.Requests, Amount: 100, Span: time.Minute}, 10, 100 + 595/0.6},
		{"more than there ever is", Quota{Unit: "tokens", Amount: 1000, Span: time.Minute}, 1001, 0},
	} {
		w := metered(t, unguarded, 20, 1, Quotas{List: []Quota{c.q}, After: 100 * ms}, Use{Unit: "tokens", Amount: tokens(c.size)})
		w.Fleets[0].Think = draw.Constant(100 * ms)
		n := play(t, w).Services[0]
		if got := float64(n.Received - n.Refused); math.Abs(got-c.want) > 1 {
			t.Errorf("%s: %.0f are let through, want %.1f", c.fact, got, c.want)
		}
		if n.OverQuota != n.Refused || n.OverQuota == 0 {
			t.Errorf("%s: %d are refused, %d for the quota", c.fact, n.Refused, n.OverQuota)
		}
	}
}

// A request that one quota has not enough for takes nothing of the others. Each caller has its own, if they have.
func TestOfSeveralQuotasAllOrNoneIsTaken(t *testing.T) {
	q := Quotas{List: []Quota{{Unit: policy.Requests, Amount: 10, Span: time.Hour, Window: true}, {Unit: "tokens", Amount: 1e6, Span: time.Hour, Window: true}}}
	for _, each := range []bool{false, true} {
		q.PerCaller = each
		w := metered(t, unguarded, 3, 1, q, Use{Unit: "tokens", Amount: tokens(7)})
		w.Fleets[0].Think = draw.Constant(time.Second)
		n := play(t, w).Services[0]
		want := 10.0
		if each {
			want = 30
		}
		if n.Taken[0] != want || n.Taken[1] != 7*want {
			t.Errorf("per caller %t: %v are taken", each, n.Taken)
		}
	}
}

// The figures of e2e/quota over real HTTP, in virtual time: at least 97 % of the quota are used, and at most 0.5 % of the
// requests refused, whatever estimates say, and whatever answers do.
func TestTheMachineUsesAQuotaWhole(t *testing.T) {
	mixed := draw.Mixture(draw.Part{Share: 0.9, Dist: draw.Uniform(200*ms, 1060*ms)}, draw.Part{Share: 0.1, Dist: draw.Uniform(2000*ms, 6000*ms)})
	for _, c := range []struct {
		processes, each int
		says            float64
		tells           Tells
		among           int
		window          bool
		used            float64
	}{
		{processes: 1, each: 20, says: 1, used: 0.97},
		{processes: 1, each: 20, used: 0.97},
		{processes: 1, each: 20, says: 1, tells: TellsNothing, used: 0.97},
		{processes: 1, each: 20, says: 1, tells: TellsNone, used: 0.8},
		{processes: 1, each: 20, says: 1, tells: TellsAll, used: 0.97},
		{processes: 1, each: 20, says: 1, window: true, used: 0.95}, // a large call waits for the next window, and the others behind it
		{processes: 10, each: 4, says: 1, used: 0.97},
		{processes: 10, each: 4, says: 1. / 3, used: 0.97},
		{processes: 10, each: 4, says: 3, used: 0.97},
		{processes: 10, each: 4, says: 1, tells: TellsNothing, among: 10, used: 0.97},
	} {
		t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) {
			t.Parallel()
			p := policy.Policy{RateLimit: policy.RateLimit{Quotas: []policy.Quota{{Unit: "tokens", Amount: 200_000, Span: time.Minute, Estimate: 1000, Among: c.among, Window: c.window}}}}
			q := Quotas{List: []Quota{{Unit: "tokens", Amount: 200_000, Span: time.Minute, Window: c.window}}, Tells: c.tells, Honest: true}
			r := play(t, metered(t, p, c.processes*c.each, c.each, q, Use{Unit: "tokens", Amount: mixed, Says: c.says}))
			n := &r.Phases[1].Services[0]
			used, refused := n.Taken[0]/n.Back[0], float64(n.OverQuota)/float64(n.Received)
			t.Logf("%.1f %% used, %d of %d refused", 100*used, n.OverQuota, n.Received)
			if used < c.used || refused > 0.005 {
				t.Errorf("%.1f %% of the quota are used, and %.2f %% refused", 100*used, 100*refused)
			}
		})
	}
}

// A policy without quotas goes by the word that nothing is left, as gabionhttp's do.
func TestAnEmptyQuotaIsObeyedWithoutOneOfOnesOwn(t *testing.T) {
	q := Quotas{List: []Quota{{Unit: policy.Requests, Amount: 40, Span: 8 * time.Second, Window: true}}}
	refused := map[Tells]int64{}
	for _, tells := range []Tells{TellsLeft, TellsNothing} {
		q.Tells = tells
		w := steady(rules(t, policy.Policy{Safe: true}), 4, 5*time.Minute, Service{Time: draw.Constant(50 * ms), Quotas: &q})
		w.Fleets[0].Clients = 1
		w.Fleets[0].Load = Steady(6)
		refused[tells] = play(t, w).Services[0].OverQuota
	}
	if refused[TellsNothing] < 3*refused[TellsLeft] || refused[TellsNothing] < 30 {
		t.Errorf("%d are refused where it is said, and %d where it is not", refused[TellsLeft], refused[TellsNothing])
	}
}
