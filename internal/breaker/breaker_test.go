package breaker

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
)

func call(b *Breaker, now clock.Instant, v Result) bool {
	p, _, ok := b.Acquire(now, 0)
	b.Settle(now, 0, p, v, 0)
	return ok
}

// C13: a thousand goroutines cross the threshold together.
func TestManyCrossTheThresholdAndOneOpens(t *testing.T) {
	for _, r := range []Rules{timed(100, 0.5), last(1000, 100, 0.5), consecutive(100), timed(100, 0.5).with(slowly).with(func(r *Rules) { r.InFlight = true })} {
		var log changes
		b := New(&r, 4, 1, &log)
		begin := make(chan struct{})
		var wg sync.WaitGroup
		for i := range uint32(1000) {
			wg.Go(func() {
				<-begin
				p, _, _ := b.Acquire(0, i)
				b.Settle(1, i, p, Bad, 0)
			})
		}
		close(begin)
		wg.Wait()
		if len(log) != 1 || log[0].To != Open || log[0].Counts.Failures < 100 || b.State() != Open {
			t.Errorf("%+v: %d changes: %+v", r, len(log), log)
		}
	}
}

// C37: a thousand goroutines at the end of the open time, one probe.
func TestManyAskAndOneProbes(t *testing.T) {
	for range 20 {
		b := New(&Rules{Window: time.Second, Open: 5, Probes: 1}, 4, 1, nil)
		b.By("").Trip(0)
		begin := make(chan struct{})
		var admitted atomic.Int64
		var wg sync.WaitGroup
		for i := range uint32(1000) {
			wg.Go(func() {
				<-begin
				if _, _, ok := b.Acquire(5, i); ok {
					admitted.Add(1)
				}
			})
		}
		close(begin)
		wg.Wait()
		if s := b.Snapshot(5); admitted.Load() != 1 || s.Refused != 999 || s.Probes != 1 {
			t.Fatalf("%d admitted, %d refused, %d out", admitted.Load(), s.Refused, s.Probes)
		}
	}
}

// C45: whatever happens at once, changes are logged in the order of the moves:
// each begins where the last one ended, and none is missing.
func TestChangesFormAChain(t *testing.T) {
	r := timed(3, 0.5).with(limited)
	r.Open = 3
	other := last(7, 3, 0.4)
	var log changes
	b := New(&r, 4, 1, &log)
	var clk atomic.Int64
	var wg sync.WaitGroup
	for i := range uint32(16) {
		wg.Go(func() {
			for k := range uint32(3000) {
				now := clock.Instant(clk.Add(1))
				p, _, ok := b.Acquire(now, i)
				if ok && (k+i)%17 != 0 {
					rc := b.SettleOpen(now+1, i, p, Result((k*i+k>>3)%3), 0)
					if k%5 == 0 {
						b.Whole(now+2, p)
					}
					b.Fail(now+2, i, p, rc)
				}
				switch k % 199 {
				case 3:
					b.By("").Reset(now)
				case 5:
					b.By("").Release(now, b.By("").Isolate(now))
				case 7:
					b.By("").ForceOpen(now, now+2)
				case 11:
					b.SetRules(now, []*Rules{&r, &other}[i%2])
				case 13:
					b.By("").Observe(now, clock.Never)
				case 17:
					b.By("").Trip(now)
				case 19:
					b.Snapshot(now)
				case 23:
					b.Idle(now)
					b.Shut(now)
				}
			}
		})
	}
	wg.Wait()
	state := Closed
	for i, c := range log {
		if c.From != state || c.Seq != uint64(i)+1 || !moves[c.From][c.To].Has(c.Cause) || c.Due > c.At {
			t.Fatalf("change %d from %v: %+v", i, state, c)
		}
		state = c.To
	}
	if state != b.State() || len(log) < 100 {
		t.Errorf("%d changes end in %v, the breaker is %v", len(log), state, b.State())
	}
}

func TestNothingIsAllocated(t *testing.T) {
	slow := timed(20, 0.5).with(slowly)
	aged := timed(20, 0.5).with(slowly).with(func(r *Rules) { r.InFlight = true })
	count := last(100, 20, 0.5)
	for _, r := range []*Rules{&slow, &aged, &count} {
		b := New(r, 1, 1, nil)
		now := clock.Instant(0)
		round := func() {
			now += clock.Instant(time.Minute)
			for range 30 {
				call(b, now, Good)
			}
			call(b, now, Bad)
			b.By("").Trip(now)
			call(b, now, Good)
			now += clock.Instant(time.Minute)
			call(b, now, Good)
			b.Snapshot(now)
		}
		round()
		if n := testing.AllocsPerRun(20, round); n != 0 {
			t.Errorf("%+v: %v allocations", r, n)
		}
	}
}

// T8, F7: a log that panics must not leave the lock behind: the breaker goes on.
func TestLogThatPanicsLeavesNoLockBehind(t *testing.T) {
	b := New(&Rules{Window: 1, Consecutive: 1, Open: 5}, 1, 1, panicky{})
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was swallowed")
			}
		}()
		call(b, 0, Bad)
	}()
	if _, wait, ok := b.Acquire(1, 0); ok || wait != 4 {
		t.Errorf("admitted %v, wait %v", ok, wait)
	}
	b.Idle(0) // needs the lock
}

type panicky struct{}

func (panicky) BreakerMoved(Change) { panic("log") }

func TestJitterOnlyLengthens(t *testing.T) {
	seen := map[clock.Instant]bool{}
	for seed := range uint64(200) {
		b := New(&Rules{Window: 1, Open: 1000, OpenJitter: 0.1}, 1, seed, nil)
		b.By("").Trip(0)
		until := b.Snapshot(0).Until
		if until < 1000 || until >= 1100 {
			t.Fatalf("seed %d: open until %d", seed, until)
		}
		seen[until] = true
	}
	if len(seen) < 50 {
		t.Errorf("only %d different times", len(seen))
	}
}

func TestSetRules(t *testing.T) {
	for _, c := range []struct {
		name   string
		first  Rules
		before string
		then   Rules
		after  string
	}{
		{"keeps counts and permits", timed(9, 0.5), "S F*2 a:x", timed(4, 0.5), "calls=3 x:S is=open of=4/2/0"},
		{"a lower limit is looked at on the next success", timed(4, 0.9), "F*2 S*3 is=closed", timed(4, 0.2), "is=closed S is=open of=6/2/0"},
		{"a new window is empty", timed(4, 0.5), "F*3", timed(4, 0.5).with(func(r *Rules) { r.Window *= 2 }), "calls=0 F*3 is=closed +15s calls=3 F is=open"},
		{"from time to calls and back", timed(4, 0.5), "F*3", last(4, 4, 0.5), "calls=0 F*3 is=closed F is=open"},
		{"from calls to time", last(4, 4, 0.5), "F*3", timed(4, 0.5), "calls=0 F*3 is=closed F is=open"},
		{"an open time that runs stays", timed(1, 0.5), "F", timed(1, 0.5).with(func(r *Rules) { r.Open = 1 }), "until=5s +5s F until=1ns"},
		{"fewer probes may be enough", probing(4), "trip +5s S*3", probing(2), "is=closed cause=probes_passed of=3/0/0"},
		{"ageing switched off forgets no call", ageing, "a:x S*9", timed(10, 0.5), "+1s x:F calls=10 x:F calls=10"},
		{"nor counts one twice whose result lives on", ageing, "a:x S*9", timed(10, 0.5), "x:open calls=10 x:S calls=10"},
		{"ageing switched on counts calls from before", timed(10, 0.5), "a:x S*9", ageing, "+1s x:F calls=10 rate=0.1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := play(t, c.first, c.before)
			g.b.SetRules(g.now, &c.then)
			g.more(c.after)
		})
	}
}

func TestIdle(t *testing.T) {
	for script, want := range map[string]bool{
		"":                   true,
		"F":                  true,
		"trip":               false,
		"trip +5s":           false,
		"trip +5s S":         false,
		"trip reset":         true,
		"disable":            false,
		"disable=1h":         false,
		"disable=1h +1h":     true,
		"observe=1h +1h":     true,
		"observe":            false,
		"a:x":                false,
		"a:x +1s x:S":        true,
		"iso:x":              false,
		"iso:x rel:x":        true,
		"a:x trip reset":     true,
		"trip +5s S S S +1s": true,
	} {
		g := play(t, ageing.with(func(r *Rules) { r.Probes = 3 }), script)
		if got := g.b.Idle(g.now); got != want {
			t.Errorf("%q: idle %v, want %v", script, got, want)
		}
	}
}

func TestAgeingIsBounded(t *testing.T) {
	b := New(&ageing, 1, 1, nil)
	for range 10 * maxAgeing {
		b.Acquire(0, 0)
	}
	if s := b.Snapshot(0); s.InFlight != maxAgeing || len(b.extra.watched.all) != maxAgeing {
		t.Errorf("%d watched in %d trackedCalls", s.InFlight, len(b.extra.watched.all))
	}
}

// What the caller did before its call is not the dependency's time, also while it is out.
func TestADelayedCallGrowsSlowLater(t *testing.T) {
	const s = clock.Instant(time.Second)
	b := New(new(ageing.with(func(r *Rules) { r.MinCalls = 1 })), 1, 1, nil)
	p, _, _ := b.Acquire(0, 0)
	b.Delay(p, time.Second)
	if got := b.Snapshot(3*s - 1).State; got != Closed {
		t.Errorf("one that is out for less than two seconds: %v", got)
	}
	if got := b.Snapshot(3 * s).State; got != Open {
		t.Errorf("one that is out for two seconds: %v", got)
	}
}

func TestIsolationsAreBounded(t *testing.T) {
	b := New(&Rules{Window: 1}, 1, 1, nil)
	var all []Isolation
	for range maxIsolations + 5 {
		all = append(all, b.By("").Isolate(0))
	}
	for _, i := range all {
		if b.State() != ForcedOpen && i != (Isolation{}) {
			t.Fatal("released too early")
		}
		b.By("").Release(0, i)
	}
	if b.State() != Closed {
		t.Errorf("all released: %v", b.State())
	}
}

func TestZeroPermitSaysNothing(t *testing.T) {
	b := New(&Rules{Window: 1, Consecutive: 1}, 1, 1, nil)
	b.Settle(0, 0, Permit{}, Bad, 0)
	b.Fail(0, 0, Permit{}, Receipt{})
	if s := b.Snapshot(0); s.State != Closed || s.Counts.Calls != 0 {
		t.Errorf("%+v", s)
	}
}

func TestTexts(t *testing.T) {
	seen := map[string]bool{}
	for s := range numStates {
		seen[s.String()] = true
	}
	for c := range numCauses {
		seen[c.String()] = true
	}
	if len(seen) != int(numStates)+int(numCauses) || seen[""] {
		t.Errorf("texts are missing or double: %v", seen)
	}
	if State(99).String() != "state(unknown)" || Cause(99).String() != "cause(unknown)" {
		t.Error("an unknown value has no text")
	}
}
