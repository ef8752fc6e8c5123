package engine

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/gabion-go/gabion/internal/chance"
	"github.com/gabion-go/gabion/internal/clock"
)

// model keeps entries in a slice, sorted the obvious way.
type model struct {
	now clock.Instant
	all []Entry[int]
}

func (m *model) push(at clock.Instant, what int) {
	at = max(at, m.now)
	i, _ := slices.BinarySearchFunc(m.all, at, func(e Entry[int], at clock.Instant) int {
		if e.At <= at { // behind its equals
			return -1
		}
		return 1
	})
	m.all = slices.Insert(m.all, i, Entry[int]{at, what})
}

func (m *model) pop() (e Entry[int], ok bool) {
	if len(m.all) == 0 {
		return e, false
	}
	e, m.all = m.all[0], m.all[1:]
	m.now = e.At
	return e, true
}

func FuzzQueue(f *testing.F) {
	f.Add([]byte{1, 2, 3, 250, 0, 0, 9, 0, 200, 0, 0, 0})
	f.Fuzz(sameAsSorted)
}

func TestRandomScripts(t *testing.T) {
	for seed := range uint64(300) {
		script := make([]byte, 600)
		for i := range script {
			script[i] = byte(chance.Bits(seed, uint64(i), 0, 0) >> 40)
		}
		sameAsSorted(t, script)
	}
}

// sameAsSorted plays a script on the queue and on the model. Distances are powers
// of two and their neighbours, where a bucket ends and another begins.
func sameAsSorted(t *testing.T, script []byte) {
	var q Queue[int]
	m := model{now: math.MinInt64}
	for i, step := range script {
		if step&3 == 3 {
			at, due := q.Peek()
			got, ok := q.Pop()
			want, has := m.pop()
			if got != want || ok != has || due != has || has && at != want.At {
				t.Fatalf("step %d: %v %v, want %v %v", i, got, ok, want, has)
			}
			if q.Len() != len(m.all) || has && q.Now() != m.now {
				t.Fatalf("step %d: %d pending at %v, want %d at %v", i, q.Len(), q.Now(), len(m.all), m.now)
			}
			continue
		}
		at := q.Now().Add(1<<(step>>2) - 1)
		if step&1 != 0 {
			at = at.Add(-2)
		}
		q.Push(at, i)
		m.push(at, i)
	}
}

func TestTheEndsOfTime(t *testing.T) {
	var q Queue[string]
	for _, at := range []clock.Instant{clock.Never, 0, math.MinInt64, -1, 1, clock.Never} {
		q.Push(at, fmt.Sprint(int64(at)))
	}
	last := clock.Instant(math.MinInt64)
	for range 6 {
		e, ok := q.Pop()
		if !ok || e.At < last || e.What != fmt.Sprint(int64(e.At)) {
			t.Fatalf("%v after %v", e, last)
		}
		last = e.At
	}
	q.Push(-5, "late") // the past happens now
	if e, _ := q.Pop(); e.At != clock.Never {
		t.Errorf("the past happened at %v", e.At)
	}
}

func TestASteadyStateAllocatesNothing(t *testing.T) {
	var q Queue[uint64]
	hold := holder(&q, 1000)
	for range 200_000 {
		hold()
	}
	if n := testing.AllocsPerRun(100_000, hold); n != 0 {
		t.Errorf("%v allocations for each entry", n)
	}
}

// holder fills q and returns what takes the next entry and schedules another: the
// hold model of Jones (CACM 29, 1986).
func holder(q *Queue[uint64], pending int) func() {
	n := uint64(0)
	later := func() clock.Instant {
		n++
		return q.Now().Add(-1 + 1<<(4+chance.Bits(1, n, 0, 0)%26)/3)
	}
	q.Push(0, 0)
	q.Pop()
	for range pending {
		q.Push(later(), n)
	}
	return func() {
		q.Pop()
		q.Push(later(), n)
	}
}

func BenchmarkHold(b *testing.B) {
	for _, pending := range []int{1_000, 100_000, 1_000_000} {
		b.Run(fmt.Sprint(pending), func(b *testing.B) {
			b.ReportAllocs()
			var q Queue[uint64]
			n := uint64(0)
			// Exponential holds, by the inverse of a table: what a fleet schedules.
			var table [1024]clock.Instant
			for i := range table {
				table[i] = clock.Instant(-1e9 * math.Log((float64(i)+0.5)/1024))
			}
			later := func() clock.Instant {
				n++
				x := n * 0x9e3779b97f4a7c15
				x ^= x >> 29
				return q.Now() + table[x>>54] + clock.Instant(x&0xfffff)
			}
			q.Push(0, 0)
			q.Pop()
			for range pending {
				q.Push(later(), n)
			}
			for range 3 * pending {
				q.Pop()
				q.Push(later(), n)
			}
			b.ResetTimer()
			for range b.N {
				q.Pop()
				q.Push(later(), n)
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds()/1e6, "Mevents/s")
		})
	}
}
