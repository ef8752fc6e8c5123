package machine

import (
	"math"
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/policy"
)

// A client of a hundred calls a second, of which the dependency takes half for ten
// seconds and asks for a second with every other: nobody waits for long, as many are
// answered as it takes, and soon after the trouble nobody waits at all.
func TestPacingEndsWithTheTrouble(t *testing.T) {
	const s = clock.Instant(time.Second)
	p, room, answered, sent := new(pacer), 0, 0, 0
	last := clock.Instant(0)
	for i := range 2000 {
		now := clock.Instant(i) * s / 100
		if i%10 == 0 && room < 10 {
			room += 5 // fifty a second
		}
		at, ok := now, true
		if p.active.Load() {
			at, ok = p.reserve(now, now+5*s, clock.Never, 0.5)
		}
		if !ok {
			continue
		}
		if at > now+s+1 {
			t.Fatalf("at %v a call waits for %v", time.Duration(now), at.Sub(now))
		}
		if at > now {
			last = now
		}
		switch trouble := at < 10*s; {
		case trouble && room == 0:
			sent++
			p.hold(now, now+s, true, successes{n: 50, rate: 50})
		case trouble:
			room--
			sent++
			answered++
			p.accept(at, 0)
		default:
			p.accept(at, 0)
		}
	}
	if answered < 400 || sent > 800 {
		t.Errorf("%d of 500 were answered, of %d sent", answered, sent)
	}
	if last > 16*s || p.active.Load() {
		t.Errorf("the last call waited at %v, and calls are still spaced: %v", time.Duration(last), p.active.Load())
	}
}

// The dependency has asked for a minute, and takes all again. Where calls go at a rate,
// they find out by themselves.
func TestTheRateGrowsBeforeALongTimeIsOver(t *testing.T) {
	const s = clock.Instant(time.Second)
	p, late := new(pacer), 0
	p.begin(0, 50)
	p.unproven, p.until = false, 60*s
	for i := range clock.Instant(500) { // 100 a second
		now := i * s / 100
		at, ok := now, true
		if p.active.Load() {
			at, ok = p.reserve(now, now+s, clock.Never, 0.5)
		}
		if ok {
			p.accept(at, 0)
		} else if now >= 4*s {
			late++
		}
	}
	if late > 0 {
		t.Errorf("four seconds later %d calls of 100 had no turn", late)
	}
}

// Where nothing succeeds nobody goes before the time that was asked for.
func TestNobodyGoesBeforeTheTimeIsOver(t *testing.T) {
	const s = clock.Instant(time.Second)
	p := new(pacer)
	p.hold(0, 4*s, true, successes{})
	for i := range 50 {
		if at, ok := p.reserve(s, 7*s, clock.Never, float64(i)/50); !ok || at < 4*s || at > 7*s {
			t.Errorf("call %d goes at %v, %v", i, time.Duration(at), ok)
		}
	}
	if at, ok := p.reserve(s, 3*s, clock.Never, 0.5); ok || at < 4*s {
		t.Errorf("a call without that much time goes at %v, %v", time.Duration(at), ok)
	}
}

// Refusals are few for an hour: the rate stays near what comes, so that it is soon what is
// answered when more is refused.
func TestTheRateDoesNotGrowBeyondWhatComes(t *testing.T) {
	const s = clock.Instant(time.Second)
	p := new(pacer)
	p.hold(0, s, true, successes{})
	p.begin(0, 50)
	p.unproven = false
	for i := range clock.Instant(3600 * 100) { // 100 calls a second, one in ten is refused
		now := i * s / 100
		if _, ok := p.reserve(now, now+s, clock.Never, 0.5); !ok {
			continue
		}
		if i%10 == 0 {
			p.hold(now, now+s, true, successes{n: 90, rate: 90})
		} else {
			p.accept(now, 0)
		}
	}
	if p.rate > 150 {
		t.Errorf("100 calls a second come, and %.0f may go", p.rate)
	}
}

// A new client of a hundred calls a second is held back for a second before anything
// succeeded. Those who come after that go as they come.
func TestCallsGoAsTheyComeWhenTheFirstTimeIsOver(t *testing.T) {
	const s = clock.Instant(time.Second)
	p := new(pacer)
	p.hold(0, s, true, successes{})
	for i := range clock.Instant(200) {
		now := i * s / 100
		at, ok := p.reserve(now, now+s/2, clock.Never, 0)
		if now <= s {
			continue
		}
		if p.accept(now, 0); !ok || at > now+s/10 {
			t.Fatalf("at %v a call waits until %v, %v", time.Duration(now), time.Duration(at), ok)
		}
	}
}

// Refusals without a time pace nobody until they are more than a few; one with a time
// does, where nothing succeeded yet, until a success says otherwise.
func TestAFewRefusalsPaceNobody(t *testing.T) {
	const ms = clock.Instant(time.Millisecond)
	tests := []struct {
		name    string
		told    bool
		lately  successes
		answers string // r: refused, s: success
		isPaced bool
	}{
		{"one without a time", false, successes{}, "r", false},
		{"three without a time", false, successes{}, "rrr", false},
		{"four without a time", false, successes{}, "rrrr", true},
		{"four without a time, of twenty", false, successes{}, "rssssssssssssssssrrr", false},
		{"eight, of twelve", false, successes{}, "rssssrrrrrrr", true},
		{"eight, of a hundred", false, successes{n: 90, rate: 90}, "rrrrrrrr", false},
		{"one with a time, and nothing succeeded", true, successes{}, "r", true},
		{"one with a time, and something succeeded", true, successes{n: 1, rate: 1}, "r", false},
		{"one with a time, and then a success", true, successes{}, "rs", false},
		{"four with a time, and then a success", true, successes{}, "rrrrs", true},
	}
	for _, tt := range tests {
		p, now := new(pacer), clock.Instant(1)
		for _, a := range tt.answers {
			if now += ms; a == 'r' {
				p.hold(now, now+1000*ms, tt.told, tt.lately)
			} else {
				p.accept(now, 0)
			}
		}
		if got := p.active.Load(); got != tt.isPaced {
			t.Errorf("%s: paced is %v", tt.name, got)
		}
	}
}

// What succeeded more than a second ago says nothing of now, and a success long after the
// last refusal ends the counting.
func TestSuccessesOfLongAgoDoNotCount(t *testing.T) {
	const s = clock.Instant(time.Second)
	p := new(pacer)
	p.hold(1, s, false, successes{})
	for range 100 {
		p.accept(2, 0)
	}
	p.hold(2*s, 3*s, true, successes{})
	if !p.active.Load() {
		t.Error("nothing succeeded for two seconds, and the time that was asked for is not kept")
	}
	p = new(pacer)
	p.hold(1, s, false, successes{})
	if p.accept(2*s, 0); p.counts.Load() {
		t.Error("successes are still counted")
	}
}

// A refusal that asks for a second is no limit if much was answered well just before.
func TestOneRefusalAmongSuccessesPacesNobody(t *testing.T) {
	tr := newTrial(t, policy.Policy{})
	for i := range clock.Instant(20) {
		tr.call(i*ms, i*ms+1, policy.ClassSuccess)
	}
	a, ticket := tr.begin(30 * ms)
	a.Settle(31*ms, ticket, policy.Outcome{Class: policy.ClassThrottled, HasAfter: true, After: time.Second})
	tr.begin(32 * ms) // which fails if it is not sent
}

// The dependency asked for a second, and then answered one that was out already: so it
// does accept, and nobody waits.
func TestASuccessOnItsWayEndsPacing(t *testing.T) {
	tr := newTrial(t, policy.Policy{})
	a, first := tr.begin(0)
	b, second := tr.begin(0)
	a.Settle(ms, first, policy.Outcome{Class: policy.ClassThrottled, HasAfter: true, After: time.Second})
	var c Call
	c.Begin(tr.state, 2*ms, &Params{})
	if got := c.Next(2 * ms); got.Verb != Wait {
		t.Fatalf("before the success: %v", got.Verb)
	}
	tr.home(3*ms, b, second, policy.ClassSuccess)
	tr.begin(4 * ms) // which fails if it is not sent
}

// Calls that come in pairs, and whose time is too short to wait for a start time: the rate is soon above what comes, and no
// call waits. Then nothing is left to space.
func TestPacingEndsForCallsThatCanNotWait(t *testing.T) {
	p := new(pacer)
	p.begin(0, 20)
	p.takes = 80 * time.Millisecond
	p.asked = false
	for now := clock.Instant(0); now < 30*sec; now += 50 * ms {
		for range 2 {
			p.reserve(now, now+100*ms, now+100*ms, 0)
		}
	}
	if p.active.Load() {
		t.Error("calls are still spaced half a minute after the trouble")
	}
}

// A call whose last moment is the end of the time that was asked for goes then.
func TestATurnAtTheLastMomentIsTaken(t *testing.T) {
	p := new(pacer)
	p.hold(0, 4*sec, true, successes{})
	if at, ok := p.reserve(sec, 4*sec, clock.Never, 0.5); !ok || at != 4*sec {
		t.Errorf("it goes at %v, %v", time.Duration(at), ok)
	}
}

// A call is refused for a wait only if the wait is longer than it may be, and the numbers
// say so, whichever limit it is.
func TestARefusedTurnSaysWhatItsWaitMayBe(t *testing.T) {
	for _, tt := range []struct {
		name    string
		timeout time.Duration
		most    time.Duration
	}{
		{"until the deadline", 500 * time.Millisecond, 450 * time.Millisecond},
		{"the longest wait for a turn", 10 * time.Second, paceQueue},
	} {
		tr := newTrial(t, policy.Policy{Timeout: policy.Timeout{Call: tt.timeout}})
		tr.state.main.pace().begin(0, 100) // a turn every 10 ms
		var n *policy.Numbers
		for range 200 {
			c := new(Call)
			c.Begin(tr.state, ms, &Params{})
			if c.Next(ms); n == nil && c.End().Reason == policy.Paced {
				n = c.End().Numbers
			}
		}
		if n == nil || n.Left != tt.most || n.Need <= n.Left {
			t.Errorf("%s: %+v", tt.name, n)
		}
	}
}

// A call that waits so long for its start that no answer can come in time only makes work.
func TestAWaitLeavesTimeForTheAnswer(t *testing.T) {
	const ms = clock.Instant(time.Millisecond)
	for _, c := range []struct {
		fact     string
		takes    time.Duration
		deadline clock.Instant
		ok       bool
	}{
		{"answers are quick", 10 * time.Millisecond, 600 * ms, true},
		{"answers need what is left", 100 * time.Millisecond, 600 * ms, false},
		{"answers are slow, and there is time", 100 * time.Millisecond, 900 * ms, true},
		{"nothing is known of answers", 0, 501 * ms, true},
	} {
		t.Run(c.fact, func(t *testing.T) {
			p := new(pacer)
			for range 5 {
				p.hold(0, clock.Instant(time.Second), true, successes{n: 2, rate: 2})
			}
			for range 100 {
				p.accept(0, c.takes)
			}
			p.reserve(0, clock.Never, clock.Never, 0) // the next start is half a second later
			at, ok := p.reserve(0, clock.Never, c.deadline, 0)
			if at != 500*ms || ok != c.ok {
				t.Errorf("%v at %v, want %v at 500ms", ok, time.Duration(at), c.ok)
			}
		})
	}
}

// What waits before a server without room is only answered later, for the server has a queue of
// its own. Where a quota is used up a wait evens out the arrivals.
func TestHowLongACallWaitsForItsStart(t *testing.T) {
	const ms = clock.Instant(time.Millisecond)
	for _, c := range []struct {
		fact  string
		full  bool
		takes time.Duration // that a good answer takes
		most  time.Duration
	}{
		{"a quota is used up", false, 100 * time.Millisecond, time.Second},
		{"a server is full", true, 100 * time.Millisecond, 200 * time.Millisecond},
		{"a server is full, and answers slowly", true, 4 * time.Second, time.Second},
		{"a server is full, and nothing was answered yet", true, 0, time.Second},
	} {
		t.Run(c.fact, func(t *testing.T) {
			p := &pacer{takes: c.takes}
			p.full.Store(c.full)
			p.begin(0, 10)
			longest := time.Duration(0)
			for range 50 {
				if at, ok := p.reserve(0, clock.Never, clock.Never, 0.5); ok {
					longest = at.Sub(0)
				}
			}
			if longest != c.most || p.longest() != c.most {
				t.Errorf("a call waits %v, and the longest wait is said to be %v", longest, p.longest())
			}
		})
	}
	p := &pacer{takes: 10 * time.Millisecond}
	p.full.Store(true)
	p.begin(0, 10)
	for _, at := range []clock.Instant{0, 150 * ms, 200 * ms, 310 * ms} { // a start at 100 and one at 300 that come late
		if got, ok := p.reserve(at, clock.Never, clock.Never, 0.5); !ok || got != at {
			t.Errorf("a call at %v goes at %v (%v)", time.Duration(at), time.Duration(got), ok)
		}
	}
	if _, ok := p.reserve(311*ms, clock.Never, clock.Never, 0.5); ok {
		t.Error("two start times that no call took are saved")
	}
}

// Who refuses because a quota is used up must be left alone. A server without room refuses what it cannot do
// at little cost, and what it can do moves.
func TestAFullServerIsAskedForMoreThanAQuota(t *testing.T) {
	for _, c := range []struct {
		fact              string
		full              bool
		accepted, refused int
		want              float64
	}{
		{"a quota that let little through", false, 10, 100, 50},
		{"a quota that let most through", false, 90, 100, 99},
		{"a full server that let little through", true, 10, 100, 80},
		{"a full server that let most through", true, 90, 100, 112.5},
		{"a server that let nothing through is left alone, full or not", true, 0, 100, 50},
	} {
		p := &pacer{rate: 100, accepted: c.accepted, refused: c.refused, asked: true}
		p.full.Store(c.full)
		p.measure(clock.Instant(time.Second))
		if math.Abs(p.rate-c.want) > 1e-6 {
			t.Errorf("%s: calls go at %v a second, want %v", c.fact, p.rate, c.want)
		}
	}
}
