package machine

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/internal/latency"
	"github.com/gabion-go/gabion/internal/terms"
	"github.com/gabion-go/gabion/internal/testrace"
	"github.com/gabion-go/gabion/policy"
)

// measured is a policy of one attempt whose time is measured.
func measured(q policy.Ratio) policy.Policy {
	return policy.Policy{
		Retry: policy.Retry{Attempts: 1}, Timeout: policy.Timeout{Percentile: q},
		Breaker: policy.Breaker{Off: true}, Bulkhead: policy.Bulkhead{Off: true},
	}
}

// attempt makes a call of one attempt that would take so long, and returns the time that the
// attempt had. It ends with its time, or with the work.
func (tr *trial) attempt(now clock.Instant, takes time.Duration) (had time.Duration) {
	c, t := tr.begin(now)
	had = t.Deadline.Sub(now)
	if takes <= had {
		tr.home(now.Add(takes), c, t, policy.ClassSuccess)
	} else {
		tr.home(t.Deadline, c, t, policy.ClassUnclassified)
	}
	return had
}

// SPEC E4: the timeout is the percentile that is asked for, within its bounds, once enough is
// known; and the timeouts that it causes do not shorten it.
func TestAnAttemptHasTheTimeThatItsPercentileNeeds(t *testing.T) {
	testrace.Serial(t)
	for fact, c := range map[string]struct {
		takes       func(*rand.Rand) float64 // seconds
		p           policy.Timeout
		least, most time.Duration // of the time in the end
		rate        float64       // that is cut off at most
	}{
		"a constant has three medians": {func(*rand.Rand) float64 { return 0.1 }, policy.Timeout{Percentile: 0.999}, 300 * time.Millisecond, 340 * time.Millisecond, 0},
		"lognormal":                    {func(r *rand.Rand) float64 { return 0.05 * math.Exp(0.7*r.NormFloat64()) }, policy.Timeout{Percentile: 0.999}, 350 * time.Millisecond, 1200 * time.Millisecond, 0.001},
		"bimodal": {func(r *rand.Rand) float64 {
			if r.IntN(100) == 0 {
				return 1 + 0.2*r.Float64()
			}
			return 0.02
		}, policy.Timeout{Percentile: 0.999}, 1100 * time.Millisecond, 2500 * time.Millisecond, 0.001},
		"fast: the least":               {func(r *rand.Rand) float64 { return 0.001 * r.Float64() }, policy.Timeout{Percentile: 0.999}, 50 * time.Millisecond, 50 * time.Millisecond, 0},
		"fast: the least as written":    {func(r *rand.Rand) float64 { return 0.001 }, policy.Timeout{Percentile: 0.999, AttemptMin: 200 * time.Millisecond}, 200 * time.Millisecond, 200 * time.Millisecond, 0},
		"too slow: the most":            {func(r *rand.Rand) float64 { return 1.9 + 0.2*r.Float64() }, policy.Timeout{Percentile: 0.999, Attempt: 2 * time.Second, Strict: true}, 2 * time.Second, 2 * time.Second, 0.51},
		"another percentile, less time": {func(r *rand.Rand) float64 { return 0.05 * math.Exp(0.7*r.NormFloat64()) }, policy.Timeout{Percentile: 0.99}, 200 * time.Millisecond, 350 * time.Millisecond, 0.01},
	} {
		t.Run(fact, func(t *testing.T) {
			p := measured(0)
			if p.Timeout = c.p; c.p.Attempt == 0 {
				p.Timeout.Attempt = 4 * time.Second
			}
			tr, r := newTrial(t, p), rand.New(rand.NewPCG(8, 58))
			now, had, cut := clock.Instant(0), time.Duration(0), 0
			const n = 40_000
			for i := range n {
				now = now.Add(5 * time.Millisecond)
				takes := time.Duration(c.takes(r) * 1e9)
				had = tr.attempt(now, takes)
				if takes > had {
					cut++
				}
				if i < 900 && c.p.Percentile > 0.995 && had != tr.state.Rules().Policy.Timeout.Attempt {
					t.Fatalf("attempt %d has %v, before the percentile is known", i, had)
				}
			}
			if had < c.least || had > c.most {
				t.Errorf("in the end an attempt has %v, want %v to %v", had, c.least, c.most)
			}
			if rate := float64(cut) / n; rate > c.rate*1.5 {
				t.Errorf("%.3f %% were cut off, %.3f %% were asked for", 100*rate, 100*c.rate)
			}
			st := tr.state.Stats(now).Main.Timeout
			if st.Attempt < c.least || st.Attempt > c.most || st.Percentile != c.p.Percentile || st.Basis == terms.TimeoutFixed {
				t.Errorf("Stats say %+v", st)
			}
		})
	}
}

// One rule: what succeeded took as long as it did, and all else at least that long.
func TestWhatTheMeasuredTimeoutLearnsFrom(t *testing.T) {
	const at = 40 * ms
	for fact, c := range map[string]struct {
		p             policy.Policy
		end           func(tr *trial, c *Call, t Ticket)
		finished, cut int64
	}{
		"a success":               {end: func(tr *trial, c *Call, t Ticket) { tr.home(at, c, t, policy.ClassSuccess) }, finished: 1},
		"a timeout":               {end: func(tr *trial, c *Call, t Ticket) { tr.home(t.Deadline, c, t, policy.ClassUnclassified) }, cut: 1},
		"a failure":               {end: func(tr *trial, c *Call, t Ticket) { tr.home(at, c, t, policy.ClassServer) }, cut: 1},
		"an answer that is final": {end: func(tr *trial, c *Call, t Ticket) { tr.home(at, c, t, policy.ClassClient) }, cut: 1},
		"a panic":                 {end: func(tr *trial, c *Call, t Ticket) { tr.home(at, c, t, policy.ClassCrashed) }, cut: 1},
		"the caller left": {end: func(tr *trial, c *Call, t Ticket) {
			c.Cancel(at)
			tr.home(at, c, t, policy.ClassIgnored)
		}, cut: 1},
		"the call's deadline": {p: policy.Policy{Timeout: policy.Timeout{Call: time.Second, Attempt: time.Second}}, end: func(tr *trial, c *Call, t Ticket) {
			tr.home(c.Deadline(), c, t, policy.ClassTimeout)
		}, cut: 1},
		"it succeeded after the call was over": {end: func(tr *trial, c *Call, t Ticket) {
			c.Cancel(at)
			tr.home(at, c, t, policy.ClassSuccess)
		}, finished: 1},
		"it was never sent": {end: func(tr *trial, c *Call, t Ticket) {
			c.Settle(at, t, policy.Outcome{Class: policy.ClassNetwork, NeverSent: true})
		}},
		"a hedge won": {p: policy.Policy{Hedge: policy.Hedge{Max: 1, Delay: 10 * time.Millisecond}}, end: func(tr *trial, c *Call, t Ticket) {
			s := c.Next(10 * ms)
			tr.home(at, c, s.Ticket, policy.ClassSuccess)
			tr.home(at, c, t, policy.ClassIgnored)
		}, cut: 1},
		"the first won": {p: policy.Policy{Hedge: policy.Hedge{Max: 1, Delay: 10 * time.Millisecond}}, end: func(tr *trial, c *Call, t Ticket) {
			s := c.Next(10 * ms)
			tr.home(at, c, t, policy.ClassSuccess)
			tr.home(at, c, s.Ticket, policy.ClassIgnored)
		}, finished: 1},
	} {
		t.Run(fact, func(t *testing.T) {
			c.p.Timeout.Percentile = 0.9
			tr := newTrial(t, c.p)
			call, ticket := tr.begin(0)
			c.end(tr, call, ticket)
			if st := tr.state.Stats(at).Main.Timeout; st.Samples != c.finished || st.Cut != c.cut || st.Needed != 10 {
				t.Errorf("%+v, want %d that finished and %d cut off", st, c.finished, c.cut)
			}
		})
	}
}

// learnedTimes returns a trial whose attempts have a time of about 300 ms.
func learnedTimes(t *testing.T, p policy.Policy) *trial {
	p.Timeout.Percentile = 0.9
	tr := newTrial(t, p)
	for range 20 {
		tr.call(0, 100*ms, policy.ClassSuccess)
	}
	if had := tr.state.Stats(clock.Instant(2 * time.Second)).Main.Timeout.Attempt; had < 300*time.Millisecond || had > 330*time.Millisecond {
		t.Fatalf("an attempt has %v", had)
	}
	return tr
}

// Events, errors and Stats say which time ended an attempt, and that it was measured.
func TestAMeasuredTimeoutSaysThatItIsOne(t *testing.T) {
	for fact, c := range map[string]struct {
		deadline clock.Instant
		ends     time.Duration // after it was sent; zero is its deadline
		measured bool          // the event of the end
		numbers  bool          // of the end of the call
	}{
		"it ended with the measured time":    {0, 0, true, true},
		"it ended before":                    {0, 100 * time.Millisecond, false, false},
		"the caller had less time than that": {clock.Instant(2200 * time.Millisecond), 0, false, false},
	} {
		t.Run(fact, func(t *testing.T) {
			tr := learnedTimes(t, policy.Policy{Retry: policy.Retry{Attempts: 1}})
			var log Log
			var call Call
			now := clock.Instant(2 * time.Second)
			call.Begin(tr.state, now, &Params{Deadline: c.deadline, Log: &log})
			ticket := call.Next(now).Ticket
			end := ticket.Deadline
			if c.ends > 0 {
				end = now.Add(c.ends)
			}
			call.Settle(end, ticket, policy.Outcome{Class: policy.ClassTimeout, Effect: policy.UnknownEffect})
			call.Next(end)
			var sent, settled, returned policy.Event
			for _, e := range log.Drain() {
				switch e.Kind {
				case policy.KindAttemptSent:
					sent = e
				case policy.KindAttemptSettled:
					settled = e
				case policy.KindReturned:
					returned = e
				}
			}
			if sent.Measured != (c.deadline == 0) || settled.Measured != c.measured {
				t.Errorf("sent measured %v, settled measured %v", sent.Measured, settled.Measured)
			}
			n := returned.Numbers
			if (n != nil && n.Timeout > 0) != c.numbers || c.numbers && (n.Timeout != settled.Took || n.Percentile != 0.9) {
				t.Errorf("the call ended with %+v after %v", n, settled.Took)
			}
		})
	}
}

// A policy may begin to measure, and end it; calls under way keep their own.
func TestAReloadTurnsMeasuringOnAndOff(t *testing.T) {
	tr := newTrial(t, policy.Policy{})
	rules := func(q policy.Ratio) *Rules {
		r, err := Compile(policy.Policy{Safe: true, Timeout: policy.Timeout{Percentile: q}})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	old, before := tr.begin(0)
	tr.state.Reload(0, rules(0.9))
	for range 20 {
		tr.call(0, 100*ms, policy.ClassSuccess)
	}
	now := clock.Instant(2 * time.Second)
	if _, t2 := tr.begin(now); t2.Deadline.Sub(now) > time.Second {
		t.Errorf("measured, an attempt has %v", t2.Deadline.Sub(now))
	}
	if before.Deadline.Sub(0) != 4*time.Second {
		t.Errorf("before, it had %v", before.Deadline.Sub(0))
	}
	tr.home(now, old, before, policy.ClassServer)
	tr.state.Reload(now, rules(0))
	if _, t2 := tr.begin(now); t2.Deadline.Sub(now) != 15*time.Second { // nothing can follow it
		t.Errorf("fixed again, an attempt has %v", t2.Deadline.Sub(now))
	}
	if st := tr.state.Stats(now).Main.Timeout; st != (policy.TimeoutStats{Attempt: 4 * time.Second}) {
		t.Errorf("%+v", st)
	}
}

// One slow host must not give all others more time.
func TestEachPartitionHasATimeoutOfItsOwn(t *testing.T) {
	tr := newTrial(t, policy.Policy{Timeout: policy.Timeout{Percentile: 0.9}})
	for name, takes := range map[string]time.Duration{"fast": 30 * time.Millisecond, "slow": 700 * time.Millisecond} {
		for range 20 {
			var c Call
			c.Begin(tr.state, 0, &Params{Partition: name})
			c.Settle(clock.Instant(takes), c.Next(0).Ticket, policy.Outcome{Class: policy.ClassSuccess})
		}
	}
	for _, p := range tr.state.Stats(clock.Instant(2 * time.Second)).Partitions {
		want := map[string]time.Duration{"fast": 90 * time.Millisecond, "slow": 2100 * time.Millisecond}[p.Name]
		if got := p.Timeout.Attempt; got < want || got > want*11/10 {
			t.Errorf("%s has %v, want about %v", p.Name, got, want)
		}
	}
	if tr.state.main.times.Load().tail.Estimate(0.9, time.Second) != (latency.Estimate{Needed: 10}) {
		t.Error("calls that name a partition count for those that name none")
	}
}

// What is measured is when an answer begins. A body may keep its slot for as long as it could
// without.
func TestABodyKeepsItsSlotForTheUpperBound(t *testing.T) {
	tr := learnedTimes(t, policy.Policy{})
	now := clock.Instant(2 * time.Second)
	c, ticket := tr.begin(now)
	if got := c.Limits(now, &ticket).Slot; got != now.Add(4*time.Second) {
		t.Errorf("the slot ends %v after the start", got.Sub(now))
	}
}

func TestMeasuringATimeoutAllocatesNothing(t *testing.T) {
	tr := learnedTimes(t, policy.Policy{})
	var c Call
	now := clock.Instant(2 * time.Second)
	if n := testing.AllocsPerRun(1000, func() {
		now = now.Add(50 * time.Millisecond)
		c.Begin(tr.state, now, &Params{})
		s := c.Next(now)
		c.Settle(now+20*ms, s.Ticket, policy.Outcome{Class: policy.ClassSuccess})
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
