package fleet

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

// inForce returns what may be in force in p, by the order of its demands.
func (p *simPod) inForce(i int) float64 {
	if p.dead || i >= len(p.shares.Amounts) {
		return 0
	}
	if p.local() >= p.shares.Until {
		return p.shares.Amounts[i].After
	}
	return p.shares.Amounts[i].Amount
}

func (p *simPod) lostWrites() bool { return p.tainted || p.w.store.lost[p.h.Version()] }

// stepped is a small step forward of the store's clock.
type stepped struct{ at, by time.Duration }

// early returns by how much leases may seem to end early.
func (w *world) early() (by time.Duration) {
	for _, s := range w.steps {
		if w.now-s.at < 2*w.length {
			by += s.by
		}
	}
	return by
}

// check compares what is in force with what is allowed.
func (w *world) check() {
	sum := map[string]float64{}
	early := w.early()
	for _, p := range w.pods {
		if p.lostWrites() {
			continue // the bound after lost writes: what was granted in them comes on top
		}
		if early > 0 && p.shares.Until.Sub(p.local()) <= early {
			continue // the bound after a step: what would end in that time comes on top
		}
		for i, s := range p.shares.Amounts {
			sum[s.Resource] += p.inForce(i)
		}
	}
	for name, total := range w.totals {
		w.most[name] = max(w.most[name], sum[name]/total)
		if sum[name] > total*(1+1e-9) {
			w.t.Fatalf("at %v: %v of %s is in force, and %v is allowed\n%s", w.now, sum[name], name, total, w.describe(name))
		}
	}
}

func (w *world) describe(name string) (s string) {
	for _, p := range w.pods {
		for i, a := range p.shares.Amounts {
			if f := p.inForce(i); a.Resource == name && f > 0 {
				s += fmt.Sprintf("%s has %v, by pool %d until %v, ends %v\n", p.id, f, p.h.Version(), p.shares.Until.Sub(p.local()), p.dead)
			}
		}
	}
	return s
}

// use returns which part of what could be used is.
func (w *world) use(resource int, wants func(p int) float64) float64 {
	used, could, total := 0.0, 0.0, 0.0
	for i, p := range w.pods {
		if p.dead {
			continue
		}
		used += min(wants(i), p.inForce(resource))
		could += wants(i)
		total = p.demands[resource].Total
	}
	return used / min(could, total)
}

// jain is the index of fairness of Jain, Chiu and Hawe (DEC-TR-301, 1984).
func jain(x []float64) float64 {
	sum, squares := 0.0, 0.0
	for _, v := range x {
		sum += v
		squares += v * v
	}
	return sum * sum / (float64(len(x)) * squares)
}

// poisson draws a count with a mean.
func poisson(rng *rand.Rand, mean float64) (n uint64) {
	if mean > 50 {
		return uint64(max(0, math.Round(mean+math.Sqrt(mean)*rng.NormFloat64())))
	}
	for limit, product := math.Exp(-mean), rng.Float64(); product > limit; product *= rng.Float64() {
		n++
	}
	return n
}
