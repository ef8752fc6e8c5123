package fleet

import (
	"fmt"
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
)

const steered = "orders rate"

// name lets a process want a resource that it did not want before: it renews at once, as production does, and counts from then on.
func (p *simPod) name(want float64) {
	begun := p.local()
	p.before = func(now clock.Instant) {
		d := Demand{Resource: steered, Total: 50, Least: 0.005, New: true}
		if now.Sub(begun) >= p.w.length/48 {
			d.New, d.Want = false, want
		}
		p.demands = []Demand{{Resource: rate, Total: 1000, Want: 10}, d}
	}
	p.before(begun)
	p.next = begun
}

// An operator limits a dependency that had no limit. Each process reads that within a second.
func TestWhatIsNewToAllIsSharedWithinTwoSeconds(t *testing.T) {
	for _, c := range []struct {
		fact      string
		processes int
		silent    int // that never name it
		want      func(i int) float64
		least     float64 // in force after two seconds
	}{
		{"ten want more than there is", 10, 0, func(int) float64 { return 200 }, 0.95},
		{"fifty do", 50, 0, func(int) float64 { return 20 }, 0.95},
		{"nine of ten call nothing", 10, 0, func(i int) float64 { return float64(200 * (1 - min(i, 1))) }, 0.75},
		{"two of ten do not call it at all", 10, 2, func(int) float64 { return 200 }, 0.65},
	} {
		t.Run(c.fact, func(t *testing.T) {
			for seed := range uint64(20) {
				w := newWorld(t, seed, 10*time.Second)
				w.totals = map[string]float64{rate: 1000, steered: 50}
				for range c.processes {
					w.join(Demand{Resource: rate, Total: 1000, Want: 10})
				}
				w.play(25*time.Second + time.Duration(w.rng.Int64N(int64(5*time.Second))))
				for i, p := range w.pods[c.silent:] {
					w.after(time.Duration(w.rng.Int64N(int64(time.Second))), func() { p.name(c.want(i)) })
				}
				w.play(2 * time.Second)
				sum := 0.0
				for _, p := range w.pods[c.silent:] {
					sum += p.inForce(1)
				}
				if sum < c.least*50 {
					t.Errorf("seed %d: after two seconds %.3f of 50 are in force, want %v of it", seed, sum, c.least)
				}
				w.play(20 * time.Second) // nothing exceeds the total on the way
			}
		})
	}
}

// What one process names that all may name soon, and what it may not do to them.
func TestAResourceThatIsNew(t *testing.T) {
	report := func(id string, count uint64, demands ...Demand) Report {
		return Report{Format: format, ID: id, Count: count, Demands: demands}
	}
	old := Demand{Resource: rate, Total: 1000, Want: 10}
	fresh := Demand{Resource: steered, Total: 50, Want: 50, New: true}
	known := fresh
	known.New = false
	start := func() (all []Report) {
		for i := range 10 {
			all = append(all, report(fmt.Sprint("pod-", i), 1, old))
		}
		return all
	}
	at := time.Unix(1_700_000_000, 0)
	for _, c := range []struct {
		fact  string
		moved func([]Report) []Report
		mine  float64 // of pod-3 or the newcomer
		other float64 // of pod-7
	}{
		{"one that had shares names it, and all have a part", func(all []Report) []Report {
			all[3] = report("pod-3", 2, old, fresh)
			return all
		}, 5, 5},
		{"it has counted already, so nothing is new", func(all []Report) []Report {
			all[3] = report("pod-3", 2, old, known)
			return all
		}, 50, 0},
		{"a newcomer names it, and has what it wants", func(all []Report) []Report {
			return append(all, report("pod-x", 1, old, fresh))
		}, 50, 0},
		{"one that ends has no part", func(all []Report) []Report {
			all[3] = report("pod-3", 2, old, fresh)
			all[7] = Report{Format: format, ID: "pod-7", Count: 2, Leaves: true}
			return all
		}, 5.55555, 0},
		{"others' totals are not outvoted by one that is repeated", func(all []Report) []Report {
			low := fresh
			low.Total = 1
			all[2] = report("pod-2", 2, old, low)
			all[3], all[4], all[5] = report("pod-3", 2, old, fresh), report("pod-4", 2, old, fresh), report("pod-5", 2, old, fresh)
			return all
		}, 5, 5},
	} {
		t.Run(c.fact, func(t *testing.T) {
			pool := Divide(nil, start(), at, 10*time.Second, 0)
			next := Divide(pool, c.moved(start()), at.Add(time.Second), 10*time.Second, 0)
			mine := next.Pod("pod-x")
			if mine == nil {
				mine = next.Pod("pod-3")
			}
			share := func(p *Pod) float64 {
				for i, r := range next.Resources {
					if r.Name == steered && p != nil {
						return p.Share(i)
					}
				}
				return 0
			}
			if got := share(mine); got != c.mine {
				t.Errorf("it has %v, want %v", got, c.mine)
			}
			if got := share(next.Pod("pod-7")); got != c.other {
				t.Errorf("another has %v, want %v", got, c.other)
			}
		})
	}
}

// Names that one process makes up must not fill the pool with parts of all.
func TestWhoMakesUpResourcesFillsNoPool(t *testing.T) {
	var all []Report
	for i := range 1000 {
		all = append(all, Report{Format: format, ID: fmt.Sprint("pod-", i), Count: 1, Demands: []Demand{{Resource: rate, Total: 1000, Want: 1}}})
	}
	at := time.Unix(1_700_000_000, 0)
	pool := Divide(nil, all, at, 10*time.Second, 0)
	all[0].Count = 2
	for i := range 900 {
		all[0].Demands = append(all[0].Demands, Demand{Resource: fmt.Sprint("made up ", i), Total: 50, New: true})
	}
	held := 0
	for _, p := range Divide(pool, all, at.Add(time.Second), 10*time.Second, 0).Pods {
		held += len(p.Shares)
	}
	if most := MaxPods + 1000 + 901 + MaxPods; held > most {
		t.Errorf("the pool has %d amounts, want %d at most", held, most)
	}
}
