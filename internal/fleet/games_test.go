package fleet

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"
)

const (
	rate  = "payments rate"
	slots = "payments slots"
)

// game is what can happen in a random world.
type game struct {
	fact     string
	faults   faults
	pauses   bool
	comings  bool
	outages  bool // shorter and longer than a lease, with the given Lost
	lost     float64
	failover bool // with lost writes
	steps    bool // of the store's clock
	little   bool // steps forward that are too small to be noticed
	totals   bool
	reloads  bool // of policies that share one limit, both or none
	parts    bool
}

var games = []game{
	{fact: "all is well", lost: -1},
	{fact: "requests and answers are lost and late", faults: faults{0.1, 0.1, 0.1}, lost: -1},
	{fact: "processes are stopped", faults: faults{0.02, 0.02, 0.05}, pauses: true, lost: -1},
	{fact: "processes come, leave and die", faults: faults{0.02, 0.02, 0.05}, comings: true, lost: -1},
	{fact: "the total changes", faults: faults{0.02, 0.02, 0.02}, totals: true, lost: -1},
	{fact: "limits come and go", faults: faults{0.1, 0.1, 0.1}, reloads: true, lost: -1},
	{fact: "the store fails over with lost writes", faults: faults{0.02, 0.02, 0.05}, failover: true, lost: -1},
	{fact: "the store's clock steps", faults: faults{0.02, 0.02, 0.05}, steps: true, lost: -1},
	{fact: "the store's clock steps a little", faults: faults{0.02, 0.02, 0.05}, pauses: true, comings: true, little: true, lost: -1},
	{fact: "everything", faults: faults{0.05, 0.05, 0.1}, pauses: true, comings: true, outages: true, failover: true, steps: true, totals: true, lost: -1},
	{fact: "everything, and the pool is in parts", faults: faults{0.05, 0.05, 0.1}, pauses: true, comings: true, outages: true, failover: true, steps: true, totals: true, lost: -1, parts: true},
	{fact: "parts of the pool are lost and late", faults: faults{0.02, 0.02, 0.4}, lost: -1, parts: true},
	{fact: "the store is away for all, and what was held last stays", outages: true},
}

func TestWhatIsInForceNeverExceedsTheTotal(t *testing.T) {
	seeds, span := 12, 90*time.Second
	if testing.Short() {
		seeds, span = 2, 30*time.Second
	}
	for _, g := range games {
		t.Run(g.fact, func(t *testing.T) {
			for seed := range seeds {
				t.Run(fmt.Sprint(seed), func(t *testing.T) { g.play(t, uint64(seed), span) })
			}
		})
	}
}

// play runs a world of some processes at random.
func (g game) play(t *testing.T, seed uint64, span time.Duration) {
	w := newWorld(t, seed, 3*time.Second)
	w.faults, w.split = g.faults, g.parts
	w.totals = map[string]float64{rate: 1000, slots: 40}
	w.policy = 1000
	demands := func() []Demand {
		all := []Demand{
			{Resource: rate, Total: w.policy, Want: w.wild(400), Room: w.wild(100), Least: w.wild(20), Lost: g.lost},
			{Resource: slots, Total: w.totals[slots], Want: w.wild(20), Least: w.wild(2), Whole: true, Lost: g.lost},
		}
		if g.reloads {
			all = slices.DeleteFunc(all, func(Demand) bool { return w.rng.IntN(3) > 0 })
		}
		return all
	}
	for range 3 + w.rng.IntN(12) {
		w.join(demands()...)
	}
	var step func()
	step = func() {
		p := w.pods[w.rng.IntN(len(w.pods))]
		p.demands = demands()
		g.happen(w, p, demands)
		w.after(time.Duration(w.rng.Int64N(int64(w.length/4))), step)
	}
	w.after(w.length, step)
	w.play(span)
	if w.divisions < 10 {
		t.Errorf("only %d divisions", w.divisions)
	}
}

// wild draws what is wanted: often nothing, sometimes more than there is.
func (w *world) wild(most float64) float64 {
	switch w.rng.IntN(4) {
	case 0:
		return 0
	case 1:
		return most * 10 * w.rng.Float64()
	}
	return most * w.rng.Float64()
}

// happen does one of the things that a game allows.
func (g game) happen(w *world, p *simPod, demands func() []Demand) {
	odds := func(of int) bool { return w.rng.IntN(of) == 0 }
	if g.pauses && odds(6) {
		p.paused = w.now + time.Duration(w.rng.Int64N(int64(10*w.length)))
	}
	if g.comings && odds(6) {
		g.comeAndGo(w, p, demands)
	}
	if g.outages && odds(60) && !w.store.down {
		w.store.down = true
		w.after(time.Duration(w.rng.Int64N(int64(5*w.length))), func() { w.store.down, w.up = false, w.now })
	}
	if g.failover && odds(40) {
		w.failOver(time.Duration(w.rng.Int64N(int64(w.length))))
	}
	if g.steps && odds(40) {
		switch w.rng.IntN(3) {
		case 0:
			w.store.step += w.length*2/3 + time.Duration(w.rng.Int64N(int64(time.Hour)))
		case 1:
			w.store.step -= time.Duration(w.rng.Int64N(int64(20 * w.length)))
		case 2:
			w.store.step -= time.Duration(w.rng.Int64N(int64(w.length / 2)))
		}
	}
	if g.little && odds(30) {
		by := time.Duration(w.rng.Int64N(int64(w.length / 3)))
		w.store.step += by
		w.steps = append(w.steps, stepped{w.now, by})
	}
	if g.totals && odds(40) {
		w.changeTotal(100 + w.rng.Float64()*2000)
	}
}

func (g game) comeAndGo(w *world, p *simPod, demands func() []Demand) {
	switch {
	case w.rng.IntN(2) == 0 && len(w.pods) < 60:
		w.join(demands()...)
	case p.dead:
	case w.rng.IntN(2) == 0:
		p.dead = true
	default:
		p.leave()
	}
}

// leave ends p in good order: nothing is in force in it before it says so.
func (p *simPod) leave() {
	p.run(func() {
		report, _ := p.h.Leave(p.local()).Encode()
		p.dead, p.paused = true, 0
		p.w.store.reports[p.id] = report
	})
}

// failOver lets the store lose what is written from now on until it fails over.
func (w *world) failOver(after time.Duration) {
	reports, pool, version, parts := maps.Clone(w.store.reports), w.store.pool, w.store.version, maps.Clone(w.store.parts)
	w.after(after, func() {
		if w.store.pool == nil || pool == nil {
			return
		}
		for v := range w.versionsSince(pool) {
			w.store.lost[v] = true
		}
		w.store.reports, w.store.pool, w.store.parts = reports, pool, parts
		w.store.version = max(version, w.store.version) + 1 // a store never uses one twice
	})
}

// versionsSince returns the versions of pools that were written after one.
func (w *world) versionsSince(pool []byte) map[uint64]bool {
	first, err := ParsePool(pool)
	if err != nil {
		w.t.Fatal(err)
	}
	last, err := ParsePool(w.store.pool)
	if err != nil {
		w.t.Fatal(err)
	}
	lost := map[uint64]bool{last.Version: true}
	for _, v := range last.Past {
		lost[v] = true
	}
	maps.DeleteFunc(lost, func(v uint64, _ bool) bool { return v == first.Version || slices.Contains(first.Past, v) })
	return lost
}

// changeTotal rolls a new total out. The larger of the two is allowed until leases under it have ended.
func (w *world) changeTotal(to float64) {
	w.totals[rate] = max(w.totals[rate], to)
	w.policy = to
	w.changes++
	this := w.changes
	for _, p := range w.pods {
		w.after(time.Duration(w.rng.Int64N(int64(w.length))), func() {
			p.demands = slices.Clone(p.demands)
			p.demands[0].Total = w.policy
		})
	}
	var settle func()
	settle = func() {
		switch {
		case w.changes != this:
		case w.store.down || w.up > 0 && w.now-w.up < 4*w.length:
			w.after(w.length, settle) // after an outage what was held under the old total is counted once more
		default:
			w.totals[rate] = to
		}
	}
	w.after(5*w.length, settle)
}
