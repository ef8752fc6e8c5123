package fleet

import (
	"container/heap"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
)

// world plays processes and a store in true time, which neither of them sees. It knows what
// is really in force, and checks it after every event.
type world struct {
	t      testing.TB
	rng    *rand.Rand
	now    time.Duration // true time since the beginning
	events events
	length time.Duration
	skew   time.Duration
	store  simStore
	pods   []*simPod
	steps  []stepped          // of the store's clock
	totals map[string]float64 // what is allowed now
	policy float64            // the total that policies say now
	up     time.Duration      // when the store came back last
	faults faults
	split  bool // pools are put in parts also, and in another number of them each time

	divisions, batches, bytes, changes int
	most                               map[string]float64 // in force, as a part of what is allowed
}

// faults are what goes wrong, as probabilities of one request.
type faults struct {
	lost, unanswered, slow float64
}

type event struct {
	at time.Duration
	n  int
	do func()
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].n < e[j].n
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	old := *e
	x := old[len(old)-1]
	*e = old[:len(old)-1]
	return x
}

var eventCount int

func (w *world) after(d time.Duration, do func()) {
	eventCount++
	heap.Push(&w.events, event{w.now + max(d, 0), eventCount, do})
}

// play runs the world for a while.
func (w *world) play(d time.Duration) {
	end := w.now + d
	for len(w.events) > 0 && w.events[0].at <= end {
		e := heap.Pop(&w.events).(event)
		w.now = e.at
		e.do()
		w.check()
	}
	w.now = end
}

// simStore is a store with a clock of its own.
type simStore struct {
	step    time.Duration
	down    bool
	reports map[string][]byte
	pool    []byte
	parts   map[[2]int][]byte
	version uint64
	lost    map[uint64]bool // versions of pools whose writes were lost
}

func (w *world) storeNow() time.Time {
	return time.Unix(1_700_000_000, 0).Add(w.now + w.store.step)
}

func newWorld(t testing.TB, seed uint64, length time.Duration) *world {
	return &world{t: t, rng: rand.New(rand.NewPCG(seed, 1)), length: length, skew: length / tolerance,
		totals: map[string]float64{}, most: map[string]float64{},
		store: simStore{reports: map[string][]byte{}, parts: map[[2]int][]byte{}, lost: map[uint64]bool{}}}
}

// simPod is a process.
type simPod struct {
	w       *world
	h       *Holder
	id      string
	offset  time.Duration
	drift   float64
	paused  time.Duration // until this true time
	dead    bool
	demands []Demand
	shares  Shares
	next    clock.Instant
	busy    bool
	tainted bool // it took the shares of a pool that the store went back to
	before  func(now clock.Instant)
	parts   int // that the pool has which it heard last
	failed  int
	begun   time.Duration
}

func (w *world) join(demands ...Demand) *simPod {
	p := &simPod{w: w, id: fmt.Sprintf("pod-%03d", len(w.pods)), offset: time.Duration(w.rng.Int64N(int64(time.Hour))),
		drift: 1 + (w.rng.Float64()-0.5)/100, demands: demands, begun: w.now}
	p.h = New(p.id, w.length)
	w.pods = append(w.pods, p)
	w.after(time.Duration(w.rng.Int64N(int64(w.length/10))), p.tick)
	return p
}

func (p *simPod) local() clock.Instant {
	return clock.Instant(float64(p.w.now)*p.drift) + clock.Instant(p.offset)
}

// run does something in the process once it is not paused.
func (p *simPod) run(do func()) {
	switch {
	case p.dead:
	case p.paused > p.w.now:
		p.w.after(p.paused-p.w.now, func() { p.run(do) })
	default:
		do()
	}
}

// tick looks whether a renewal is due.
func (p *simPod) tick() {
	p.run(func() {
		now := p.local()
		if p.before != nil {
			p.before(now)
		}
		if !p.busy && (now >= p.next || p.h.Rising(now, p.demands)) {
			p.renew(now)
		}
		p.w.after(p.w.length/48, p.tick)
	})
}

func (p *simPod) renew(asked clock.Instant) {
	p.busy = true
	p.shares, _ = p.h.Fit(p.demands)
	report, err := p.h.Report(asked, p.demands).Encode()
	if err != nil {
		p.w.t.Fatal(err)
	}
	type answer struct {
		now  time.Time
		pool []byte
	}
	request(p, func() answer {
		pool := p.w.store.pool
		if p.parts > 0 {
			pool = p.w.store.parts[[2]int{PartOf(p.id, p.parts), p.parts}]
		}
		p.w.store.reports[p.id] = report
		p.w.bytes += len(report) + len(pool)
		return answer{p.w.storeNow(), pool}
	}, func(a answer, ok bool) {
		if !ok {
			p.fail()
			return
		}
		pool := p.parse(a.pool)
		if p.h.Due(a.now, pool, p.w.rng.Float64()) {
			p.divide(pool, asked, a.now)
			return
		}
		p.hear(asked, a.now, pool)
	})
}

func (p *simPod) divide(seen *Pool, asked clock.Instant, then time.Time) {
	type answer struct {
		now     time.Time
		reports []Report
		swapped bool
		pool    []byte
		version uint64
	}
	begun := p.local()
	request(p, func() (a answer) {
		a.now, a.pool, a.version = p.w.storeNow(), p.w.store.pool, p.w.store.version
		for _, id := range slices.Sorted(maps.Keys(p.w.store.reports)) {
			r, err := ParseReport(p.w.store.reports[id])
			if err != nil {
				p.w.t.Fatal(err)
			}
			p.w.bytes += len(p.w.store.reports[id])
			a.reports = append(a.reports, *r)
		}
		return a
	}, func(a answer, ok bool) {
		if !ok {
			p.fail()
			return
		}
		pool := p.parse(a.pool)
		if seen.Crowded() && pool != nil && !p.h.Due(a.now, pool, 1) {
			p.hear(begun, a.now, pool)
			return
		}
		next := Divide(pool, a.reports, a.now, p.w.length, p.w.skew)
		if p.w.split {
			next.Parts = []int{0, 2, 2, 2, 2, 3}[p.w.rng.IntN(6)]
		}
		record, err := next.Encode()
		if err != nil {
			p.w.t.Fatal(err)
		}
		again := p.local()
		request(p, func() (b answer) {
			s := &p.w.store
			if b.swapped = s.version == a.version; b.swapped {
				if w := p.w; w.store.lost[next.Version] {
					w.t.Fatalf("version %d was that of a pool that the store lost", next.Version)
				}
				s.pool, s.version = record, s.version+1
				p.w.divisions++
			}
			p.w.bytes += len(record) + len(s.pool)
			b.now, b.pool = p.w.storeNow(), s.pool
			return b
		}, func(b answer, ok bool) {
			if !ok {
				p.hear(asked, then, seen) // whoever reads next learns what came of it
				return
			}
			p.hear(again, b.now, p.parse(b.pool))
			if parts := next.Split(pool); b.swapped && len(parts) > 0 {
				request(p, func() bool { p.w.putParts(parts); return true }, func(bool, bool) {})
			}
		})
	})
}

func (p *simPod) parse(b []byte) *Pool {
	if b == nil {
		return nil
	}
	pool, err := ParsePool(b)
	if err != nil {
		p.w.t.Fatal(err)
	}
	return pool
}

func (p *simPod) hear(asked clock.Instant, now time.Time, pool *Pool) {
	before := p.h.Version()
	if p.parts = 0; pool != nil {
		p.parts = pool.Parts
	}
	p.shares = p.h.Heard(asked, now, pool)
	if v := p.h.Version(); v != before {
		p.tainted = v < before && len(p.w.store.lost) > 0
	}
	p.done()
}

func (p *simPod) fail() {
	p.failed++
	p.shares = p.h.Failed(p.local())
	p.done()
}

func (p *simPod) done() {
	p.busy = false
	p.next = p.h.Next(p.local(), p.w.rng.Float64())
}

// request carries something out in the store. The request or the answer may be lost or late. If it is
// given up, it may be carried out later, and nothing hears of it.
func request[T any](p *simPod, apply func() T, done func(T, bool)) {
	w, f := p.w, p.w.faults
	w.batches++
	latency := func() time.Duration {
		if w.rng.Float64() < f.slow {
			return time.Duration(w.rng.Int64N(int64(w.length)))
		}
		return time.Duration(w.rng.Int64N(int64(w.length / 500)))
	}
	over := false
	finish := func(answer T, ok bool) {
		p.run(func() {
			if !over {
				over = true
				done(answer, ok)
			}
		})
	}
	lost, unanswered, back := w.rng.Float64() < f.lost, w.rng.Float64() < f.unanswered, latency()
	w.after(latency(), func() {
		if lost || w.store.down {
			return
		}
		answer := apply()
		if !unanswered {
			w.after(back, func() { finish(answer, true) })
		}
	})
	var none T
	w.after(w.length/12, func() { finish(none, false) })
}
