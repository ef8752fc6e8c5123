package demo

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/gabion-go/gabion/lab/flaky"
)

// leastBefore is how long all must be well before the first fault: how well is what
// everything later is compared with.
const leastBefore = time.Second

// loadOutage reads the plan of a file, and the exit code where it can't be played.
func loadOutage(file string) (*flaky.Plan, int, error) {
	if file == "" {
		return nil, exitOK, nil
	}
	p, err := flaky.Load(file)
	if err != nil {
		if found := (flaky.Findings)(nil); errors.As(err, &found) {
			return nil, exitFindings, err
		}
		return nil, exitFailure, err
	}
	if _, err := planOf(p); err != nil {
		return nil, exitFindings, err
	}
	return p, exitOK, nil
}

// planOf has a phase for each stretch of time in which the same is wrong. After the last
// fault there is time to recover.
func planOf(outage *flaky.Plan) (Plan, error) {
	faults := outage.Faults()
	if len(faults) == 0 {
		return Plan{}, fmt.Errorf("%s: nothing goes wrong with %s", outage.Name(), outage.Service())
	}
	cuts, end := []time.Duration{0}, time.Duration(0)
	for _, f := range faults {
		if f.From < leastBefore {
			return Plan{}, fmt.Errorf("%s: a fault begins at %v: begin it at %v or later, for the time before it is what the rest is compared with", outage.Name(), f.From, leastBefore)
		}
		cuts, end = append(cuts, f.From, f.To), max(end, f.To)
	}
	busy := end + max(3*time.Second, end/3)
	total := time.Duration(math.Ceil((busy + inTime).Seconds())) * time.Second
	if total > maxSeconds*time.Second {
		return Plan{}, fmt.Errorf("%s: the demo would take %v: %d s are the most, and what comes after the last fault takes a third of it", outage.Name(), total, maxSeconds)
	}
	slices.Sort(cuts)
	cuts = append(slices.Compact(cuts), busy)
	plan := Plan{Total: total}
	for i := range cuts[:len(cuts)-1] {
		plan.Phases = append(plan.Phases, phaseOf(faults, cuts[i], cuts[i+1]))
	}
	plan.Phases[len(plan.Phases)-1].Name = "healthy again"
	return plan, nil
}

// phaseOf says what is wrong from one time to another.
func phaseOf(faults []flaky.Fault, from, to time.Duration) Phase {
	var kinds, texts []string
	for _, f := range faults {
		if f.From <= from && f.To >= to {
			kinds, texts = append(kinds, f.Kind), append(texts, f.Text)
		}
	}
	if len(kinds) == 0 {
		return Phase{Name: "healthy", Kind: Played, Start: from, End: to, text: "everything is answered, as fast as the plan's service can"}
	}
	name := kinds[0]
	if len(kinds) > 1 {
		name += fmt.Sprintf(" +%d", len(kinds)-1)
	}
	return Phase{Name: name, Kind: Played, Start: from, End: to, text: strings.Join(texts, "; ")}
}
