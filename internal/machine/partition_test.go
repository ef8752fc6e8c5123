package machine

import (
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/internal/terms"
	"github.com/gabion-go/gabion/internal/testrace"
	"github.com/gabion-go/gabion/policy"
)

// A hundred thousand partitions with a breaker each take less than 100 MiB on
// however many processors: their counters are divided only where calls meet.
func TestHundredThousandPartitionsFitInAHundredMiB(t *testing.T) {
	testrace.Serial(t)
	const partitions = 100_000
	names := make([]string, partitions)
	for i := range names {
		names[i] = strconv.Itoa(i)
	}
	for _, processors := range []int{2, 128} {
		got := bytesOf(func() any {
			s := keyedState(t, processors, partitions)
			for _, name := range names {
				callOnce(s, name, 0, 0)
			}
			if n := len(s.partitions().byName); n != partitions {
				t.Fatalf("%d partitions", n)
			}
			return s
		})
		t.Logf("%3d processors: %d bytes a partition, its place in the map included", processors, got/partitions)
		if got > 100<<20 || got/partitions > 700 {
			t.Errorf("%d processors: %d MiB, %d bytes a partition", processors, got>>20, got/partitions)
		}
	}
}

// bytesOf returns what make holds on to in the end.
func bytesOf(make func() any) int {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	kept := make()
	runtime.GC()
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(kept)
	return int(after.HeapAlloc) - int(before.HeapAlloc)
}

// keyedState sets the processors for as long as the test runs, and as many shards
// as the front door asks for.
func keyedState(t *testing.T, processors, partitions int) *State {
	before := runtime.GOMAXPROCS(processors)
	t.Cleanup(func() { runtime.GOMAXPROCS(before) })
	r, err := Compile(policy.Policy{Partitions: policy.Partitions{Max: partitions}})
	if err != nil {
		t.Fatal(err)
	}
	return NewState(0, r, Setup{Shards: 2 * processors, Seed: 1})
}

func callOnce(s *State, name string, now clock.Instant, shard uint32) {
	var c Call
	c.Begin(s, now, &Params{Partition: name, Safe: true, Shard: shard})
	c.Settle(now, c.Next(now).Ticket, policy.Outcome{Class: policy.ClassSuccess})
	c.Next(now)
}

// Every call through a partition that is divided meanwhile is in its counts.
func TestBusyPartitionCountsEveryCall(t *testing.T) {
	const callers, each = 8, 5000
	s := keyedState(t, callers, 10)
	var wg sync.WaitGroup
	for shard := range uint32(callers) {
		wg.Go(func() {
			for range each {
				callOnce(s, "busy", 1, shard)
			}
		})
	}
	wg.Wait()
	if got := s.Breaker("busy").Snapshot(1).Counts.Calls; got != callers*each {
		t.Errorf("%d calls, want %d", got, callers*each)
	}
}

// Partitions come and go while they are found without the lock: one with callers stays,
// so that all of them meet the same breaker.
func TestNoPartitionIsEvictedUnderItsCallers(t *testing.T) {
	for name, step := range map[string]time.Duration{
		"any may be evicted": time.Second, "most were used too lately": 50 * time.Millisecond,
	} {
		t.Run(name, func(t *testing.T) { crowd(t, clock.Instant(step)) })
	}
}

func crowd(t *testing.T, step clock.Instant) {
	const callers, each, names = 8, 20_000, 6
	r, err := Compile(policy.Policy{Partitions: policy.Partitions{Max: 3, Idle: time.Second}})
	if err != nil {
		t.Fatal(err)
	}
	s := NewState(0, r, Setup{Shards: 2 * callers, Seed: 1})
	var clocked, own, shared atomic.Int64
	var wg sync.WaitGroup
	for shard := range callers {
		wg.Go(func() {
			for i := range each {
				now := clock.Instant(clocked.Add(int64(step)))
				var c Call
				c.Begin(s, now, &Params{Partition: strconv.Itoa((i*(shard+1) + i/7) % names), Shard: uint32(shard)})
				l := c.named
				if s.partitions().peek(c.Partition()) != l {
					t.Errorf("%s: evicted under its caller", l.name)
				}
				if l.name == terms.Overflow {
					shared.Add(1)
				} else {
					own.Add(1)
				}
				c.Cancel(now)
			}
		})
	}
	wg.Wait()
	lately := step < clock.Instant(time.Second) // then there is not always one to be evicted
	if own.Load() == 0 || lately && shared.Load() == 0 {
		t.Errorf("%d calls in partitions of their own, %d in the shared one: nothing was tested", own.Load(), shared.Load())
	}
	for _, l := range s.partitions().order {
		if out := l.out.Load(); out != 0 {
			t.Errorf("%s: %d calls are in it at the end", l.name, out)
		}
	}
}

// A partition that is found in the cache is the one in the map, and an evicted one is
// not found again, also where names share a place.
func TestTheCacheHasWhatTheMapHas(t *testing.T) {
	s := keyedState(t, 1, 200)
	names := make([]string, 300)
	for i := range names {
		names[i] = "host-" + strconv.Itoa(i) + ".internal:443"
	}
	idle := clock.Instant(s.Rules().Policy.Partitions.Idle)
	for round := range 3 { // more than fit, so that each round evicts
		now := clock.Instant(round) * 2 * idle
		for i := range names {
			name := names[(i+100*round)%len(names)]
			callOnce(s, name, now, 0)
			ls := s.partitions()
			if l := ls.cached(name).Load(); l != nil && ls.byName[l.name] != l {
				t.Fatalf("round %d, call %d: the cache has an evicted partition", round, i)
			}
		}
		found := 0
		for _, l := range s.partitions().order {
			if got := s.partitions().find(now, l.name); got != l {
				t.Fatalf("%s is not found", l.name)
			}
			l.out.Add(-1)
			if s.partitions().cached(l.name).Load() == l {
				found++
			}
		}
		if found < 48 {
			t.Errorf("round %d: %d of %d partitions are in 64 places", round, found, len(s.partitions().order))
		}
	}
}

// Go: go test -run xxx -bench Partition -cpu 1,2 ./internal/machine
func BenchmarkPartition(b *testing.B) {
	r, err := Compile(policy.Policy{Partitions: policy.Partitions{Max: 100}})
	if err != nil {
		b.Fatal(err)
	}
	s := NewState(0, r, Setup{Shards: 4, Seed: 1})
	callOnce(s, "host.internal:443", 0, 0)
	ls := s.partitions()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			ls.find(1, "host.internal:443").out.Add(-1)
		}
	})
}

// A call may see the new policy before a reload came to its partition.
func TestACallFurnishesAPartitionThatAReloadHasNotReached(t *testing.T) {
	s := NewState(0, rulesOf(t, policy.Policy{Breaker: policy.Breaker{Off: true}}), Setup{Seed: 1})
	callOnce(s, "a", 0, 0)
	r := rulesOf(t, policy.Policy{})
	s.furnish(0, r)
	s.rules.Store(r) // and no further
	callOnce(s, "a", 1, 0)
	if b := s.Breaker("a"); b == nil || b.Snapshot(1).Counts.Calls != 1 {
		t.Errorf("the partition has breaker %v", b)
	}
}

// A call is in its partition, which is not evicted then, until all that it has out has come
// home, and no longer: else nobody's partition could ever be evicted.
func TestACallLeavesItsPartitionWithTheLastThatIsOut(t *testing.T) {
	const s = clock.Instant(time.Second)
	for _, c := range []struct {
		name string
		play func(c *Call, inside func(int32, string))
	}{
		{"an open result", func(c *Call, inside func(int32, string)) {
			sent := c.Next(0).Ticket
			c.Settle(1, sent, policy.Outcome{Class: policy.ClassSuccess, Open: true})
			c.Next(1)
			inside(1, "while it is open")
			c.Release(2, sent, false)
		}},
		{"an open result of the second attempt", func(c *Call, inside func(int32, string)) {
			c.Settle(1, c.Next(0).Ticket, policy.Outcome{Class: policy.ClassServer})
			sent := c.Next(1).Ticket // the hedge, brought forward
			c.Settle(2, sent, policy.Outcome{Class: policy.ClassSuccess, Open: true})
			c.Next(2)
			inside(1, "while it is open")
			c.Release(3, sent, false)
		}},
		{"an open result beside a hedge that lost", func(c *Call, inside func(int32, string)) {
			first, second := c.Next(0).Ticket, c.Next(s).Ticket
			c.Settle(s+1, first, policy.Outcome{Class: policy.ClassSuccess, Open: true})
			c.Next(s + 1)
			c.Settle(s+2, second, policy.Outcome{Class: policy.ClassNetwork, Effect: policy.UnknownEffect})
			inside(1, "while the result is open")
			c.Release(s+3, first, false)
		}},
		{"a hedge that lost", func(c *Call, inside func(int32, string)) {
			first, second := c.Next(0).Ticket, c.Next(s).Ticket
			c.Settle(s+1, first, policy.Outcome{Class: policy.ClassSuccess})
			c.Next(s + 1)
			inside(1, "while the hedge is out")
			c.Settle(s+2, second, policy.Outcome{Class: policy.ClassNetwork, Effect: policy.UnknownEffect})
		}},
		{"a first that lost", func(c *Call, inside func(int32, string)) {
			first, second := c.Next(0).Ticket, c.Next(s).Ticket
			c.Settle(s+1, second, policy.Outcome{Class: policy.ClassSuccess})
			c.Next(s + 1)
			inside(1, "while the first is out")
			c.Settle(s+2, first, policy.Outcome{Class: policy.ClassNetwork, Effect: policy.UnknownEffect})
		}},
		{"nothing out", func(c *Call, inside func(int32, string)) {
			c.Settle(1, c.Next(0).Ticket, policy.Outcome{Class: policy.ClassSuccess})
			c.Next(1)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := policy.Policy{Safe: true, Timeout: policy.Timeout{Call: time.Minute}, Hedge: policy.Hedge{Max: 1, Delay: time.Second}}
			state := NewState(0, rulesOf(t, p), Setup{Seed: 1})
			var call Call
			call.Begin(state, 0, &Params{Partition: "a"})
			inside := func(want int32, when string) {
				t.Helper()
				if got := state.partitions().byName["a"].out.Load(); got != want {
					t.Errorf("%s: %d calls are in the partition, want %d", when, got, want)
				}
			}
			inside(1, "after its beginning")
			c.play(&call, inside)
			inside(0, "at the end")
		})
	}
}
