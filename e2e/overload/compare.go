package overload

import (
	"fmt"
	"math"
)

// Kind says what a deviation is in.
type Kind uint8

// The kinds.
const (
	Share   Kind = iota // of the real figure
	Points              // of the capacity
	Seconds             // of a recovery
)

// A Deviation is by how much the lab is off in one figure.
type Deviation struct {
	What      string
	Kind      Kind
	Lab, Real float64
	By        float64
	Within    float64 // what it may be: as far as the lab is said to be off
}

// Wrong reports whether it is more than it may be.
func (d Deviation) Wrong() bool { return !(math.Abs(d.By) <= d.Within) }

// String says it in one line.
func (d Deviation) String() string {
	return fmt.Sprintf("%s: %.4g in the lab, %.4g in the real run: off by %.3f of %.3f", d.What, d.Lab, d.Real, d.By, d.Within)
}

// Compared are the figures that are compared, in their order.
var Compared = []string{goodputThen, goodputAfter, perCall, p99Before, p90Then, recovery}

const (
	goodputThen  = "goodput"
	goodputAfter = "goodput afterwards"
	perCall      = "attempts per call"
	p99Before    = "p99 before"
	p90Then      = "p90"
	recovery     = "recovery"
)

// Compare returns the figures that the lab and the real run have in common. Goodput and
// attempts may be off by 5 %, and latencies by 15 %. In the trouble that is the p90: of a hundred
// answers one was sent again and waited for that, so the p99 is that one's.
// One run recovers sooner and another later, so a recovery is compared with the shortest and the
// longest of the lab's runs, and may be off by a second, since it is counted in seconds. A p99 of
// next to nothing is left out.
func Compare(lab, real Figures) (all []Deviation) {
	points := func(what string, lab, real float64) {
		all = append(all, Deviation{what, Points, lab, real, lab - real, 0.05})
	}
	shares := func(what string, lab, real, within float64) {
		if lab > 0 && real > 0 {
			all = append(all, Deviation{what, Share, lab, real, lab/real - 1, within})
		}
	}
	points(goodputThen, lab.Trigger.Goodput, real.Trigger.Goodput)
	points(goodputAfter, lab.After.Goodput, real.After.Goodput)
	shares(perCall, lab.Trigger.PerCall, real.Trigger.PerCall, 0.05)
	shares(p99Before, lab.Before.P99, real.Before.P99, 0.15)
	shares(p90Then, lab.Trigger.P90, real.Trigger.P90, 0.15)
	back := Deviation{recovery, Seconds, lab.Recovery, real.Recovery, 0, 1}
	low, high, took := endless(lab.Recoveries[0]), endless(lab.Recoveries[1]), endless(real.Recovery)
	switch {
	case took < low:
		back.By = low - took
	case took > high:
		back.By = high - took
	}
	return append(all, back)
}

// endless is the opposite of never.
func endless(recovery float64) float64 {
	if recovery == Never {
		return math.Inf(1)
	}
	return recovery
}
