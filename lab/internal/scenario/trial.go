package scenario

import (
	"math"
	"slices"
	"time"

	"github.com/gabion-go/gabion/lab/internal/sim"
)

// Variation says how bad the trouble of a scenario is, in multiples of what its file says.
// The zero Variation changes nothing.
type Variation struct {
	Length   float64 // of faults, and of a spike's height; 0 means 1
	Severity float64 // of faults: more requests meet them, less capacity is left; 0 means 1
}

// Trial is a scenario under one set of policies, of which one replication after the other
// is run. It is not changed once it is made, and safe for concurrent use.
type Trial struct {
	file   *File
	world  *world
	phases []string
	defs   []def
}

// Trial makes the scenario ready to run. The error is that a policy is missing or not
// possible.
func (f *File) Trial(p Policies, v Variation) (*Trial, error) {
	by := asItIs
	if v.Length > 0 {
		by.trigger = v.Length
	}
	if v.Severity > 0 {
		by.severity = v.Severity
	}
	w, err := f.world(&p, by)
	if err != nil {
		return nil, err
	}
	names, _ := f.phaseNamesOf(w.from, w.to)
	return &Trial{f, w, names, slices.Concat(f.defs(), ofRun)}, nil
}

// Run runs a replication. The same seed and replication have the same arrivals, work and
// faults in all trials of the scenario.
func (t *Trial) Run(seed uint64, replication int) Sample {
	return Sample{t, t.file.summarize(t.world, sim.Run(&t.world.World, t.file.seedOf(seed, replication)), false)}
}

// Sample is what one replication of a trial came to.
type Sample struct {
	trial *Trial
	sum   summary
}

// Trouble is the phase of the trouble where a scenario has one, else of the whole run.
const Trouble = "trouble"

// Metric returns a metric of all services and fleets, by its key and phase: before, during
// or after, Trouble, or empty for the whole run. NaN is unknown. What never came, such as a
// recovery, took the rest of the run.
func (s Sample) Metric(key, phase string) float64 {
	k := 0
	switch {
	case phase == Trouble:
		k = max(slices.Index(s.trial.phases, "during"), 0)
	case phase != "":
		if k = slices.Index(s.trial.phases, phase); k < 0 {
			return math.NaN()
		}
	}
	i := slices.IndexFunc(s.trial.defs, func(d def) bool { return d.key == key && d.of == "" })
	if i < 0 || i >= len(s.sum.values[k]) {
		return math.NaN()
	}
	x := s.sum.values[k][i]
	if math.IsInf(x, 1) {
		x = (s.trial.world.Duration - s.trial.world.to).Seconds()
	}
	return round6(x)
}

// Broken returns the invariants of the simulation that did not hold; it is always empty.
func (s Sample) Broken() []string { return s.sum.broken }

// harden makes a fault as severe as the scale says. What is complete, such as a dependency
// that is down, can only become milder; what only clients or clocks have stays as it is.
func (by scale) harden(f *sim.Fault) {
	if by.severity == 1 {
		return
	}
	switch f.Kind {
	case sim.BrownOut:
		f.Factor = max(1-float64((1-f.Factor)*by.severity), 0.01)
	case sim.Slow:
		f.Factor = 1 + float64((max(f.Factor, 1)-1)*by.severity)
		f.Add = time.Duration(float64(f.Add) * by.severity)
	case sim.RateLimit:
		f.Limit.Rate /= by.severity
	case sim.Refuse, sim.BlackHole, sim.Reset, sim.Errors, sim.LostAnswers, sim.CacheDown:
		if f.Share <= 0 {
			f.Share = 1
		}
		f.Share = min(float64(f.Share*by.severity), 1)
	}
}
