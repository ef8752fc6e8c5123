package overload

import (
	"fmt"
	"math"
)

// A Deviation is by how much the lab is off in one figure.
type Deviation struct {
	What      string
	Lab, Real float64
	By        float64 // of goodput in points of the capacity, of recovery in seconds, else a share
	Within    float64 // what it may be: as far as the lab is said to be off
}

// Wrong reports whether it is more than it may be.
func (d Deviation) Wrong() bool { return !(math.Abs(d.By) <= d.Within) }

// String says it in one line.
func (d Deviation) String() string {
	return fmt.Sprintf("%s: %.4g in the lab, %.4g in the real run: off by %.3f of %.3f", d.What, d.Lab, d.Real, d.By, d.Within)
}

// Compare returns the figures that the lab and the real run have in common. Goodput and
// attempts may be off by 5 %, p99 by 15 %, and a recovery by that and a second,
// for it is counted in seconds. A p99 of next to nothing is left out.
func Compare(lab, real Figures) (all []Deviation) {
	points := func(what string, lab, real float64) {
		all = append(all, Deviation{what, lab, real, lab - real, 0.05})
	}
	shares := func(what string, lab, real, within float64) {
		if lab > 0 && real > 0 {
			all = append(all, Deviation{what, lab, real, lab/real - 1, within})
		}
	}
	points("goodput under overload", lab.Trigger.Goodput, real.Trigger.Goodput)
	points("goodput afterwards", lab.After.Goodput, real.After.Goodput)
	shares("attempts per call under overload", lab.Trigger.PerCall, real.Trigger.PerCall, 0.05)
	shares("p99 before", lab.Before.P99, real.Before.P99, 0.15)
	shares("p99 under overload", lab.Trigger.P99, real.Trigger.P99, 0.15)
	recovery := Deviation{"recovery", lab.Recovery, real.Recovery, lab.Recovery - real.Recovery, 1 + 0.15*max(real.Recovery, 0)}
	if (lab.Recovery == Never) != (real.Recovery == Never) {
		recovery.Within = 0
	}
	return append(all, recovery)
}
