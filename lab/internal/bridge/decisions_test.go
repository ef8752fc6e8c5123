package bridge

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/machine"
	"github.com/gabion-go/gabion/internal/testrace"
	"github.com/gabion-go/gabion/lab/internal/draw"
	"github.com/gabion-go/gabion/lab/internal/sim"
	"github.com/gabion-go/gabion/policy"
)

// trace is calls of one dependency, with what their attempts took and brought.
type trace struct {
	policy policy.Policy
	seed   uint64 // of the dependency's draws
	calls  []sim.Recorded

	reloaded time.Duration // when the policy is replaced by next; 0 means never
	next     policy.Policy
}

// line is one decision. Call counts from 1; 0 is the dependency.
type line struct {
	at   time.Duration
	call int
	text string
}

// lineOf is everything about a decision that both drivers know.
func lineOf(call int, e policy.Event) line {
	if e.Seq != 0 {
		call = 0
	} else {
		e.Partition = "" // the front door adds it
	}
	if e.Kind == policy.KindLoserSettled && e.Reason == policy.CallTimeout {
		e.Kind = policy.KindAttemptSettled // of two that are out at the deadline either is home first
	}
	e.Dependency, e.Operation, e.Call, e.Seq = "", "", 0, 0
	return line{time.Duration(e.At), call, fmt.Sprintf("%s %+v", e, e)}
}

func (l line) String() string { return fmt.Sprintf("%s c%d %s", l.at, l.call, l.text) }

// difference is where two logs part.
type difference struct {
	at  time.Duration
	tie bool // several calls acted in that instant, which a live program does in any order
	is  string
}

// differ returns the first difference of two logs, or nil. What is decided in one
// instant is compared as a set.
func differ(lab, live []line) *difference {
	order := func(a, b line) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.call, b.call), strings.Compare(a.text, b.text))
	}
	lab, live = slices.SortedFunc(slices.Values(lab), order), slices.SortedFunc(slices.Values(live), order)
	n := 0
	for n < len(lab) && n < len(live) && lab[n] == live[n] {
		n++
	}
	if n == len(lab) && n == len(live) {
		return nil
	}
	end := line{at: 1 << 62, text: "nothing more"}
	a, b := append(lab, end)[n], append(live, end)[n]
	at := min(a.at, b.at)
	return &difference{at, callsAt(at, lab, live) > 1, fmt.Sprintf("decision %d:\n lab  %s\n live %s", n+1, a, b)}
}

// callsAt counts the calls of which something was decided in an instant.
func callsAt(at time.Duration, logs ...[]line) int {
	calls := map[int]bool{}
	for _, l := range slices.Concat(logs...) {
		if l.at == at && l.call != 0 {
			calls[l.call] = true
		}
	}
	return len(calls)
}

// inLab plays a trace in the lab.
func (tr *trace) inLab(t testing.TB, bin time.Duration) []line {
	t.Helper()
	rules := compiled(t, tr.policy)
	w := &sim.World{
		Duration: tr.calls[len(tr.calls)-1].At + 1, Bin: bin,
		Fleets: []sim.Fleet{{Clients: 1, Loop: sim.Trace, Calls: tr.calls, Plan: sim.Plan{
			Steps: []sim.Step{{Edge: sim.Edge{Rules: rules}}},
		}}},
		Services: []sim.Service{{}},
	}
	if tr.reloaded > 0 {
		w.Faults = []sim.Fault{{Kind: sim.Reload, At: tr.reloaded, Rules: compiled(t, tr.next)}}
	}
	watched := newWatched()
	r := sim.RunWatched(w, tr.seed, &sim.Watch{Tell: watched.tell})
	for _, b := range r.Broken {
		t.Error(b)
	}
	return watched.log
}

func compiled(t testing.TB, p policy.Policy) *machine.Rules {
	t.Helper()
	rules, err := machine.Compile(p)
	if err != nil {
		t.Fatal(err)
	}
	return rules
}

// draws is the seed of the dependency in the lab.
func (tr *trace) draws() uint64 { return sim.Draws{Seed: tr.seed}.PolicySeed(0, 0) }

// watched numbers the calls of a client in the order in which they began.
type watched struct {
	log     []line
	numbers map[uint64]int
	calls   []sim.Recorded
}

func newWatched() *watched { return &watched{numbers: map[uint64]int{}} }

func (w *watched) number(call uint64) int {
	if w.numbers[call] == 0 {
		w.numbers[call] = len(w.numbers) + 1
		w.calls = append(w.calls, sim.Recorded{})
	}
	return w.numbers[call]
}

func (w *watched) tell(call uint64, _ int, e policy.Event) {
	n := w.number(call)
	w.log = append(w.log, lineOf(n, e))
	if e.Kind == policy.KindReturned {
		w.calls[n-1].At = time.Duration(e.At) - e.Took
	}
}

func (w *watched) heard(call uint64, _, try int, took time.Duration, o policy.Outcome) {
	c := &w.calls[w.number(call)-1]
	for len(c.Answers) < try {
		c.Answers = append(c.Answers, sim.Answer{Never: true})
	}
	c.Answers[try-1] = sim.Answer{Took: took, Outcome: o}
}

// TestC119_OneTraceTheSameDecisions plays traces of everything that can happen to
// a call in the lab and through the front door (C119 of the conformance list). After
// an instant in which several calls wait for the same thing, such as the end of a
// pause that the dependency asked for, the two may go different ways: such traces are
// compared until then.
func TestC119_OneTraceTheSameDecisions(t *testing.T) {
	n := uint64(100)
	if os.Getenv("GABION_SOAK") != "" {
		n = 10_000
	}
	kinds := map[string]int{}
	decisions, ties := 0, uint64(0)
	for seed := range n {
		tr := randomTrace(seed)
		lab, live := tr.inLab(t, time.Hour), tr.throughFrontDoor(t)
		if d := differ(lab, live); d != nil {
			if !d.tie {
				t.Fatalf("trace %d: %s", seed, d.is)
			}
			ties++
		}
		decisions += len(lab)
		for _, l := range lab {
			kind, _, _ := strings.Cut(l.text, " ")
			kinds[kind]++
		}
	}
	for _, kind := range []policy.Kind{
		policy.KindAttemptSent, policy.KindAttemptSettled, policy.KindWaiting, policy.KindAttemptRefused, policy.KindHedgeSkipped,
		policy.KindReturned, policy.KindLoserSettled, policy.KindBreakerMoved, policy.KindBreakerExceeded, policy.KindPaceSet,
		policy.KindReloaded,
	} {
		if kinds[kind.String()] == 0 {
			t.Errorf("no trace has %s: the comparison shows nothing about it", kind)
		}
	}
	if ties > n/100+1 {
		t.Errorf("%d of %d traces part where several calls act at once: that is no coincidence", ties, n)
	}
	t.Logf("%d traces, of which %d part at a tie, %d decisions: %v", n, ties, decisions, kinds)
}

// TestLookingDecidesNothing plays traces with and without the looks that the lab
// takes at breakers and budgets at the end of each bin of its series. A breaker that ages calls
// under way into slow ones is left out: each look lets it see how late it is, in production too.
func TestLookingDecidesNothing(t *testing.T) {
	testrace.Serial(t)
	for seed := range uint64(100) {
		tr := randomTrace(seed)
		tr.policy.Breaker.InFlight = false
		blind, seeing := ofCalls(tr.inLab(t, time.Hour)), ofCalls(tr.inLab(t, 50*time.Millisecond))
		if d := differ(blind, seeing); d != nil {
			t.Fatalf("trace %d: %s", seed, d.is)
		}
	}
}

// ofCalls leaves out what is decided of the dependency: a breaker whose time is
// over is found so at the first look.
func ofCalls(all []line) []line {
	return slices.DeleteFunc(slices.Clone(all), func(l line) bool { return l.call == 0 })
}

// TestC119_ARunOfTheLabIsDecidedAlike watches one of many clients through an
// outage, records what its attempts took and brought, and has the front door make
// the same calls.
func TestC119_ARunOfTheLabIsDecidedAlike(t *testing.T) {
	testrace.Serial(t)
	for _, c := range fleets() {
		t.Run(c.fact, func(t *testing.T) {
			shown := false
			for seed := range uint64(2) {
				seen := newWatched()
				sim.RunWatched(c.world(t), seed, &sim.Watch{Client: 1, Tell: seen.tell, Heard: seen.heard})
				tr := trace{policy: c.policy, seed: seed, calls: seen.calls}
				for i := range tr.calls {
					tr.calls[i].Params.Safe = true
				}
				live := tr.play(t, sim.Draws{Seed: seed}.PolicySeed(0, 1))
				if d := differ(seen.log, live); d != nil {
					t.Fatalf("seed %d, %d calls: %s", seed, len(tr.calls), d.is)
				}
				shown = shown || slices.ContainsFunc(seen.log, func(l line) bool { return strings.HasPrefix(l.text, c.shows) })
			}
			if !shown {
				t.Errorf("no decision was %q: the comparison shows nothing about it", c.shows)
			}
		})
	}
}

// fleet is a policy in an outage.
type fleet struct {
	fact   string
	policy policy.Policy
	shows  string // what must be decided at least once
}

func fleets() []fleet {
	short := policy.Timeout{Call: 3 * time.Second, Attempt: 400 * time.Millisecond}
	return []fleet{
		{"the default policy", policy.Policy{Safe: true}, "waiting for success"},
		{"the default breaker", policy.Policy{Safe: true}, "breaker_moved open→half_open by calls_refused"},
		{"pacing", policy.Policy{Safe: true, Breaker: policy.Breaker{Off: true}}, "waiting for pace"},
		{"what was earned", policy.Policy{Safe: true, Breaker: policy.Breaker{Off: true}}, "returned after 1 budget_exhausted"},
		{"short timeouts", policy.Policy{Safe: true, Timeout: short}, "attempt_settled #1 timeout"},
		{"hedges", policy.Policy{Safe: true, Timeout: short, Hedge: policy.Hedge{Max: 1, Delay: 30 * time.Millisecond}}, "loser_settled"},
		{"hedges at a percentile", policy.Policy{Safe: true, Timeout: short, Hedge: policy.Hedge{Max: 1, Percentile: 0.9}}, "loser_settled"},
		{"a throttle", policy.Policy{Safe: true, Breaker: policy.Breaker{Off: true}, Throttle: policy.Throttle{K: 1.5}}, "attempt_refused throttled_locally"},
		{"a bulkhead with a queue", policy.Policy{Safe: true, Timeout: short, Breaker: policy.Breaker{Off: true}, Bulkhead: policy.Bulkhead{Limit: 2, Queue: 10}}, "waiting for slot"},
		{"a rate limit", policy.Policy{Safe: true, RateLimit: policy.RateLimit{Rate: 15, Burst: 2}}, "waiting for rate"},
		{"a breaker around calls", policy.Policy{Safe: true, Breaker: policy.Breaker{Per: policy.PerCall, FailureRate: 0.5, Open: 2 * time.Second}}, "breaker_moved"},
		{"a budget of tokens", policy.Policy{Safe: true, Breaker: policy.Breaker{Off: true}, Retry: policy.Retry{Attempts: 6, Budget: policy.Budget{Shape: policy.BudgetTokens, Capacity: 5}}}, "returned after 1 budget_exhausted"},
	}
}

// world is ten such clients and an outage of many kinds.
func (c *fleet) world(t testing.TB) *sim.World {
	t.Helper()
	rules := compiled(t, c.policy)
	const s = time.Second
	return &sim.World{
		Duration: 75 * s, Bin: time.Hour,
		Fleets: []sim.Fleet{{
			Clients: 10, Load: sim.Steady(150),
			Plan: sim.Plan{Steps: []sim.Step{{Edge: sim.Edge{Rules: rules, Network: draw.Exponential(2 * time.Millisecond)}}}},
		}},
		Services: []sim.Service{{Workers: 8, Queue: 40, Time: draw.LogNormal(20*time.Millisecond, 200*time.Millisecond)}},
		Faults: []sim.Fault{
			{Kind: sim.Errors, Status: 503, Share: 0.8, At: 5 * s, For: 10 * s},
			{Kind: sim.Errors, Status: 429, Share: 0.3, After: 2 * s, At: 18 * s, For: 3 * s},
			{Kind: sim.Slow, Factor: 5, Share: 0.5, At: 23 * s, For: 5 * s},
			{Kind: sim.BlackHole, Share: 0.5, At: 30 * s, For: 4 * s},
			{Kind: sim.Errors, Status: 500, Share: 0.5, At: 36 * s, For: 3 * s},
			{Kind: sim.Refuse, At: 41 * s, For: 2 * s},
			{Kind: sim.Reset, Share: 0.6, At: 45 * s, For: 3 * s},
			{Kind: sim.LostAnswers, Share: 0.5, At: 50 * s, For: 3 * s},
			{Kind: sim.Refuse, At: 57 * s, For: 12 * s},
		},
	}
}
