package breaker

import (
	"github.com/gabion-go/gabion/policy"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
)

var fuzzRules = []*Rules{
	{Window: 100, MinCalls: 4, FailureRate: 0.5, Open: 30, Probes: 2, ProbeTimeout: 50},
	{Window: 100, MinCalls: 3, FailureRate: 0.3, SlowRate: 0.5, SlowCall: 20, Open: 30, OpenMax: 100, OpenGrowth: 2, Probes: 1},
	{Window: 200, MinCalls: 8, FailureRate: 0.9, SlowRate: 0.2, SlowCall: 10, InFlight: true, Open: 50, Probes: 3, ProbeCalls: 5, ProbeTimeout: 40, ExpiryCloses: true},
	{Window: 100, WindowCalls: 5, MinCalls: 3, FailureRate: 0.6, Consecutive: 4, Open: 30, OpenGrowth: 2, Probes: 4, ProbeCalls: 2},
	{Window: 100, WindowCalls: 40, MinCalls: 9, FailureRate: 0.4, SlowRate: 0.4, SlowCall: 20, InFlight: true, Open: 30, CloseAfter: 3, ReopenAfter: 2, ProbeTimeout: 60},
	{Window: 100, Consecutive: 3, Failures: 6, Open: 30, OpenGrowth: 2, OpenMax: 70, Probes: 2},
	{Window: 100, Consecutive: 3, ConsecutiveFor: 40, Open: 60, OpenCalls: 4, Probes: 2, ProbeCalls: 1},
	{Window: 200, MinCalls: 5, FailureRate: 0.9, Consecutive: 4, ConsecutiveFor: 10, Open: 200, OpenMax: 250, OpenCalls: 6, Probes: 3, ProbeTimeout: 50},
	{Window: 100, MinCalls: 6, FailureRate: 0.9, CountRun: true, Open: 30, Probes: 2},
	{Window: 100, MinCalls: 2, SlowRate: 1, SlowCall: 10, InFlight: true, Open: 30},
	{Window: 100, MinCalls: 3, FailureRate: 0.5, SlowRate: 0.5, SlowCall: 15, InFlight: true, Observe: true, Open: 30},
}

// FuzzBreaker plays any script against the naive breaker: the same answers, the
// same changes, the same snapshots.
func FuzzBreaker(f *testing.F) {
	for seed := range uint64(20) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		script := make([]byte, 600)
		for i := range script {
			script[i] = byte(rnd.Uint32())
		}
		f.Add(script)
	}
	f.Fuzz(func(t *testing.T, script []byte) {
		if len(script) > 0 {
			duel(t, script[0], script[1:min(len(script), 1000)])
		}
	})
}

// The same over thousands of scripts without a fuzzer's help.
func TestBreakerAgreesWithNaive(t *testing.T) {
	scripts := 5000
	if testing.Short() {
		scripts = 300
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	script := make([]byte, 300)
	for range scripts {
		for i := range script {
			script[i] = byte(rnd.Uint32())
		}
		duel(t, byte(rnd.Uint32()), script)
	}
}

var jumps = [16]clock.Instant{0, 0, 0, 1, 1, 2, 3, 5, 7, 9, 10, 20, 31, 50, -15, 400}

// lasting is how long a hand keeps the breaker; zero means without end.
type lasting clock.Instant

var ends = [4]lasting{0, 1, 15, 60}

func (l lasting) from(now clock.Instant) clock.Instant {
	if l == 0 {
		return clock.Never
	}
	return now + clock.Instant(l)
}

func duel(t *testing.T, first byte, script []byte) {
	now := clock.Instant(-200)
	r := fuzzRules[int(first)%len(fuzzRules)]
	var log changes
	b := New(r, 1+int(first>>7), 0, &log)
	n := &naive{r: r, gen: 1}
	n.newest = n.bucket(-1 << 40)
	var held []Isolation
	for i := 0; i+2 < len(script); i += 3 {
		op, arg := script[i], int(script[i+1])
		now += jumps[script[i+2]%16]
		if arg == 77 {
			b.win.Grow(4)
		}
		pick := func() *pass { return n.permits[len(n.permits)-1-arg/3%min(len(n.permits), 12)] }
		switch {
		case op < 100:
			permit, _, ok := b.Acquire(now, uint32(arg))
			p, want := n.acquire(now)
			if ok != want {
				t.Fatalf("step %d at %d: admitted %v, want %v", i/3, now, ok, want)
			}
			if ok {
				p.real = permit
			}
		case op < 200 && len(n.permits) > 0:
			p := pick()
			if p.home && !p.watched && p.gen == n.gen {
				continue // nobody can tell
			}
			v, after := Result(arg%3), time.Duration(op%3*20)
			open := op%2 == 0 && !p.home
			if open {
				p.receipt = b.SettleOpen(now, uint32(arg), p.real, v, after)
			} else {
				b.Settle(now, uint32(arg), p.real, v, after)
			}
			n.settle(now, p, v, after, open)
		case op < 224 && len(n.permits) > 0:
			p := pick()
			if p.receipt != (Receipt{}) && arg%4 == 0 { // it may break after that, as a stream can
				b.Whole(now, p.real)
				n.whole(now, p)
				continue
			}
			b.Fail(now, 0, p.real, p.receipt)
			n.fail(now, p)
			p.open, p.receipt = 0, Receipt{}
		case op < 228:
			r := fuzzRules[arg%len(fuzzRules)]
			b.SetRules(now, r)
			n.setRules(now, r)
		case op < 230:
			b.By("one").Observe(now, ends[arg%4].from(now))
			n.byHand(now, "one", ObserveOnly, ends[arg%4].from(now))
		case op == 230:
			b.By("two").Disable(now, ends[arg%4].from(now))
			n.byHand(now, "two", Disabled, ends[arg%4].from(now))
		case op < 233:
			b.By("one").ForceOpen(now, now+20)
			n.byHand(now, "one", ForcedOpen, now+20)
		case op < 236:
			b.By("two").Reset(now)
			n.byHand(now, "two", Closed, 0)
		case op < 238:
			b.By("").Trip(now)
			n.trip(now)
		case op < 240:
			if got, want := b.By("").TryHalfOpen(now) == nil, n.byHand(now, "", HalfOpen, 0); got != want {
				t.Fatalf("step %d: half-opened %v, want %v", i/3, got, want)
			}
		case op < 242:
			held = append(held, b.By("").Isolate(now))
			n.isolate(now)
		case op < 246 && len(held) > 0:
			at := arg % len(held)
			if n.held > 0 && slices.Contains(b.extra.held, held[at].id) {
				n.release(now)
			}
			b.By("").Release(now, held[at])
		case op >= 246:
			compare(t, i/3, now, b, n)
		}
		if !slices.EqualFunc(log, n.log, func(c, d Change) bool { c.Seq = 0; return c == d }) {
			t.Fatalf("step %d at %d (op %d):\n got %+v\nwant %+v", i/3, now, op, log, n.log)
		}
		run, lasts := b.FailureRun()
		if k, want := n.shown(); run != k || lasts != want {
			t.Fatalf("step %d at %d: a run of %d, lasting %v, want %d, %v", i/3, now, run, lasts, k, want)
		}
		if got := b.longest.Load(); int(got) != n.past {
			t.Fatalf("step %d at %d (op %d, arg %d): the longest run that ended was %d, want %d", i/3, now, op, arg, got, n.past)
		}
		if b.State() != n.state {
			t.Fatalf("step %d at %d: %v, want %v", i/3, now, b.State(), n.state)
		}
	}
	compare(t, len(script)/3, now, b, n)
}

func compare(t *testing.T, step int, now clock.Instant, b *Breaker, n *naive) {
	got := b.Snapshot(now)
	if n.state == HalfOpen {
		n.expire(now)
	}
	n.due(now)
	out, _ := n.out()
	want := Snapshot{State: n.state, Counts: policy.Counts(n.counts(now)), Refused: n.refused, Opens: n.opens, FailureRate: -1, SlowRate: -1}
	want.Run, want.RunOpens = n.row(now)
	if n.state == HalfOpen {
		want.Probes = out
	} else {
		want.InFlight = out
	}
	if n.state != Closed && n.state != HalfOpen {
		want.Until = n.until
	}
	if c := want.Counts; n.state != HalfOpen && c.Calls >= n.least() {
		want.FailureRate, want.SlowRate = min(float64(c.Failures)/float64(c.Calls), 1), min(float64(c.Slow)/float64(c.Calls), 1)
	}
	if got != want {
		t.Fatalf("step %d at %d:\n got %+v\nwant %+v", step, now, got, want)
	}
	usual := n.state == Closed || n.r.Observe && n.state == ObserveOnly && n.until == clock.Never
	if idle := usual && out == 0; b.Idle(now) != idle {
		t.Fatalf("step %d: idle %v, want %v", step, !idle, idle)
	}
}
