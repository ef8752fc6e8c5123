package machine

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/internal/chance"
	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/internal/testrace"
	"github.com/gabion-go/gabion/policy"
)

// unhurried is a policy in which nothing but the budget and the attempts end a call.
func unhurried(b policy.Budget, attempts int) policy.Policy {
	return policy.Policy{
		Safe: true, Pace: policy.Pace{Off: true}, Breaker: policy.Breaker{Off: true}, Bulkhead: policy.Bulkhead{Off: true},
		Timeout: policy.Timeout{Call: policy.Off, Attempt: policy.Off},
		Retry: policy.Retry{Attempts: attempts, Backoff: backoff.Const(0), Hold: policy.Off, Budget: b,
			Contention: policy.ContentionRetry{Attempts: 1}},
	}
}

// oneByOne makes calls to something that fails each attempt with probability x, and returns
// what came of a call: attempts, and successes.
func oneByOne(t *testing.T, p policy.Policy, x float64, calls int) (load, success float64) {
	tr := newTrial(t, p)
	attempts, good := 0, 0
	for i := range calls {
		now := clock.Instant(i) * 10 * ms
		var c Call
		c.Begin(tr.state, now, &Params{})
		for {
			s := c.Next(now)
			if s.Verb == Return {
				break
			}
			if s.Verb == Wait {
				now = s.Again
				continue
			}
			attempts++
			class := policy.ClassSuccess
			if chance.U(9, uint64(i), uint64(s.Ticket.Attempt), 0) < x {
				class = policy.ClassServer
			}
			c.Settle(now, s.Ticket, policy.Outcome{Class: class})
		}
		if c.Succeeded() {
			good++
		}
	}
	return float64(attempts) / float64(calls), float64(good) / float64(calls)
}

// LAB A2: what a budget comes to where each attempt fails with probability x and nothing
// else ends a call. The source fills its bucket with every call and has 1+min(x/(1−x), 0.1);
// here successes fill it, those of retries too, and so a failing dependency gets less.
func TestTheLoadOfEachShapeInTheSteadyState(t *testing.T) {
	testrace.Serial(t)
	tokens := policy.Budget{Shape: policy.BudgetTokens, Capacity: 5}
	grpc := policy.Budget{Shape: policy.BudgetGRPC, Capacity: 100}
	quota := policy.Budget{Shape: policy.BudgetQuota}
	for _, c := range []struct {
		budget policy.Budget
		x      []float64
		load   func(x float64) float64 // but for the most attempts
	}{
		{tokens, []float64{0.05, 0.1, 0.2, 0.5, 0.75, 1}, func(x float64) float64 { return min(1/(1-x), 1/(1-0.1*(1-x))) }},
		{grpc, []float64{0.02, 0.05, 0.2, 0.5, 0.75, 1}, func(x float64) float64 {
			if x < 0.1/1.1 {
				return 1 / (1 - x)
			}
			return 1
		}},
		{quota, []float64{0.05, 0.1, 0.3, 0.5, 0.75, 1}, func(x float64) float64 { return 1 + min(x/(1-x), (1-x)/(14*x)) }},
	} {
		for _, x := range c.x {
			load, success := oneByOne(t, unhurried(c.budget, 50), x, 40_000)
			want := c.load(x)
			if math.Abs(load-want) > 0.015 || math.Abs(success-(1-x)*want) > 0.015 {
				t.Errorf("%s, %g fail: load %.4f, success %.4f; want %.4f, %.4f", c.budget.Shape, x, load, success, want, (1-x)*want)
			}
		}
	}
}

// SPEC D3: the most attempts of a call do not matter in an outage.
func TestThreeAndEightAttemptsSendTheSameLoadInAnOutage(t *testing.T) {
	for _, shape := range []policy.BudgetShape{policy.BudgetEarned, policy.BudgetWindow, policy.BudgetTokens, policy.BudgetGRPC, policy.BudgetQuota} {
		for _, x := range []float64{1, 0.8} {
			b := policy.Budget{Shape: shape}
			three, _ := oneByOne(t, unhurried(b, 3), x, 12_000)
			eight, _ := oneByOne(t, unhurried(b, 8), x, 12_000)
			if math.Abs(eight/three-1) > 0.02 || three > 1.12 {
				t.Errorf("%s, %g fail: %.3f with 3 attempts, %.3f with 8", shape, x, three, eight)
			}
		}
	}
}

// serialCallers are callers that each make one call after another, all of which fail.
type serialCallers struct {
	callers     int
	first, next clock.Instant // how long a first attempt takes, and a later one
	wait        backoff.Backoff
	attempts    int
	budget      policy.Budget
}

// load returns the attempts of a call, and the most re-sends that were in flight.
func (w serialCallers) load(t *testing.T) (load float64, peak int64) {
	p := unhurried(w.budget, w.attempts)
	p.Retry.Backoff = w.wait
	tr := newTrial(t, p)
	type one struct {
		call   Call
		ticket Ticket
		out    bool
		at     clock.Instant
	}
	all := make([]one, w.callers)
	calls, attempts := 0, 0
	for now := clock.Instant(0); now < 20*sec; now += 5 * ms {
		for i := range all {
			c := &all[i]
			for now >= c.at {
				if c.out {
					c.out = false
					c.call.Settle(now, c.ticket, policy.Outcome{Class: policy.ClassServer})
				} else if c.call.Over() || c.call.state == nil {
					calls++
					c.call = Call{}
					c.call.Begin(tr.state, now, &Params{})
				}
				s := c.call.Next(now)
				_, resends := tr.state.share().Counts()
				peak = max(peak, resends)
				switch s.Verb {
				case Send:
					attempts++
					takes := w.next
					if s.Ticket.Attempt == 1 {
						takes = w.first
					}
					about := 0.8 + 0.4*chance.U(4, uint64(attempts), 0, 0) // or all would go on failing together
					c.ticket, c.out, c.at = s.Ticket, true, now+clock.Instant(float64(takes)*about)
				case Wait:
					c.at = s.Again
				default:
					continue
				}
				break
			}
		}
	}
	return float64(attempts) / float64(calls), peak
}

// A share bounds what is in flight. What that comes to as load depends on how long attempts
// take, so SPEC D3 holds for it only where re-sends take as long as first attempts and their
// waits do not grow.
func TestWhatAShareInFlightComesToAsLoad(t *testing.T) {
	testrace.Serial(t)
	share := policy.Budget{Shape: policy.BudgetShare}
	none := backoff.Const(0)
	for _, c := range []struct {
		fact          string
		serialCallers serialCallers
		want          float64
		within        float64
		same          bool // three attempts and eight send the same
	}{
		{"a fifth in flight is a quarter more", serialCallers{100, sec, sec, none, 0, share}, 1.25, 0.02, true},
		{"waits count as in flight, so less is sent", serialCallers{100, sec, sec, backoff.Const(sec.Sub(0)), 0, share}, 1.111, 0.02, true},
		{"quick failures with long waits are hardly sent again", serialCallers{200, 10 * ms, 10 * ms, backoff.Const(500 * time.Millisecond), 0, share}, 1.005, 0.01, true},
		{"a few calls have three", serialCallers{5, sec, sec, none, 0, share}, 1.95, 0.2, false},
		{"re-sends that fail sooner make room for more", serialCallers{100, sec, 10 * ms, none, 0, share}, 2.95, 0.1, false},
	} {
		c.serialCallers.attempts = 3
		three, peak := c.serialCallers.load(t)
		c.serialCallers.attempts = 8
		eight, peak8 := c.serialCallers.load(t)
		if math.Abs(three-c.want) > c.within {
			t.Errorf("%s: load %.3f with 3 attempts, want %.3f", c.fact, three, c.want)
		}
		if same := math.Abs(eight/three-1) <= 0.02; same != c.same {
			t.Errorf("%s: load %.3f with 3 attempts, %.3f with 8", c.fact, three, eight)
		}
		if most := int64(max(c.serialCallers.callers/5, 3)); max(peak, peak8) > most || peak == 0 {
			t.Errorf("%s: %d re-sends in flight, %d are allowed", c.fact, max(peak, peak8), most)
		}
	}
}

// C84, and which other ends take a token of gRPC's throttling.
func TestWhichEndsMoveTheTokensOfGRPC(t *testing.T) {
	for _, c := range []struct {
		fact string
		o    policy.Outcome
		want float64 // of 10 tokens, 5 of which are left before
	}{
		{"a success", policy.Outcome{Class: policy.ClassSuccess}, 5.1},
		{"a failure that is retried", policy.Outcome{Class: policy.ClassServer}, 4},
		{"a timeout", policy.Outcome{Class: policy.ClassTimeout}, 4},
		{"a throttled one", policy.Outcome{Class: policy.ClassThrottled}, 4},
		{"a connection that was refused", policy.Outcome{Class: policy.ClassNetwork, NeverSent: true}, 4},
		{"an answer that is no failure of the server, as INVALID_ARGUMENT", policy.Outcome{Class: policy.ClassClient}, 5},
		{"the same with pushback −1", policy.Outcome{Class: policy.ClassClient, Stop: true}, 4},
		{"pushback −1 after a failure, once", policy.Outcome{Class: policy.ClassServer, Stop: true}, 4},
		{"a conflict", policy.Outcome{Class: policy.ClassContention}, 5},
		{"an error that nobody classified", policy.Outcome{Class: policy.ClassUnclassified}, 5},
		{"what a layer below refused", policy.Outcome{Class: policy.ClassRejected, Stop: true}, 5},
		{"the caller's cancel", policy.Outcome{Class: policy.ClassIgnored}, 5},
		{"a panic", policy.Outcome{Class: policy.ClassCrashed}, 5},
	} {
		tr := newTrial(t, unhurried(policy.Budget{Shape: policy.BudgetGRPC}, 3))
		for range 5 {
			tr.call(0, 0, policy.ClassServer)
		}
		call, first := tr.begin(0)
		call.Settle(0, first, c.o)
		if got := tr.state.Stats(0).Budget.Tokens; got != c.want {
			t.Errorf("%s: %g tokens, want %g", c.fact, got, c.want)
		}
	}
}

// C85 and C86: the costs of the AWS SDKs, before 2026 and since.
func TestTheQuotaOfTheAWSSDKs(t *testing.T) {
	now := policy.Budget{Shape: policy.BudgetQuota}
	old := policy.Budget{Shape: policy.BudgetQuota, Cost: 5, TimeoutCost: 10}
	for _, c := range []struct {
		fact   string
		budget policy.Budget
		script string // an attempt each: Failed, Timed out, tHrottled, Good; a space ends a call
		times  int
		want   float64
	}{
		{"old: a call that fails thrice", old, "FFF", 1, 490},
		{"old: fifty of them", old, "FFF", 50, 0},
		{"old: the next tries once", old, "FFF", 51, 0},
		{"old: a timeout costs ten", old, "TFF", 1, 485},
		{"three retries", now, "FF", 3, 458},
		{"35 retries", now, "FF", 35, 10},
		{"the next is refused", now, "FF", 36, 10},
		{"a throttled attempt costs five", now, "HF", 1, 495},
		{"a timeout costs what a failure does", now, "TF", 1, 486},
		{"a success after a retry brings its cost back", now, "FG", 1, 500},
		{"and only that of the last", now, "FHG", 1, 486},
		{"the dearer one, too", now, "HFG", 1, 495},
		{"a success at the first try brings one", now, "FF G G", 1, 488},
		{"and never above 500", now, "FF " + strings.Repeat("G ", 20), 1, 500},
		{"what fails brings nothing", now, "FFF", 1, 472},
	} {
		attempts := 0
		for _, call := range strings.Fields(c.script) {
			attempts = max(attempts, len(call))
		}
		tr := newTrial(t, unhurried(c.budget, attempts))
		for range c.times {
			playCalls(tr, c.script)
		}
		if got := tr.state.Stats(0).Budget.Tokens; got != c.want {
			t.Errorf("%s: %g tokens, want %g", c.fact, got, c.want)
		}
	}
}

// playCalls makes calls whose attempts end by a script, for as long as they are made.
func playCalls(tr *trial, script string) {
	classes := map[rune]policy.Class{'F': policy.ClassServer, 'T': policy.ClassTimeout, 'H': policy.ClassThrottled, 'G': policy.ClassSuccess}
	for _, word := range strings.Fields(script) {
		call, first := tr.begin(0)
		s := Step{Verb: Send, Ticket: first}
		for _, l := range word {
			if s.Verb == Send {
				s = tr.home(0, call, s.Ticket, classes[l])
			}
		}
	}
}
