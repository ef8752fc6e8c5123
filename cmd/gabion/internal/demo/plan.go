package demo

import (
	"embed"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/gabion-go/gabion/cmd/gabion/internal/cli"
	"github.com/gabion-go/gabion/internal/suggest"
	"github.com/gabion-go/gabion/lab/flaky"
)

// The demo's own plans, by the names of their files.
//
//go:embed plans
var ownPlans embed.FS

const (
	defaultPlan  = "outage"
	freeFailures = "free-failures"
)

const (
	// leastBefore is how long all must be well before the first fault: what everything later is
	// compared with.
	leastBefore = time.Second
	leastAfter  = 2 * time.Second  // to recover in
	longest     = 10 * time.Minute // of a run
)

// ownPlan returns the text of a plan of the demo's own.
func ownPlan(name string) (text []byte, ok bool) {
	text, err := ownPlans.ReadFile("plans/" + name + ".yaml")
	return text, err == nil
}

// loadOutage reads a plan: one of the demo's own, a file, or a scenario. The exit code is the one
// of the error.
func loadOutage(name string) (*flaky.Plan, int, error) {
	load := func() (*flaky.Plan, error) { return flaky.Load(name) }
	if text, own := ownPlan(name); own {
		load = func() (*flaky.Plan, error) { return flaky.Parse(name, text) }
	}
	p, err := load()
	if err != nil {
		if errors.As(err, new(flaky.Findings)) {
			return nil, cli.ExitFindings, err
		}
		if near := suggest.Nearest(name, []string{defaultPlan, freeFailures}); near != "" {
			return nil, cli.Unread(err), fmt.Errorf("there is no plan %q: did you mean %s?", name, near)
		}
		return nil, cli.Unread(err), fmt.Errorf("%w; the demo's own plans are %s and %s, gabion lab list has the scenarios", err, defaultPlan, freeFailures)
	}
	if _, err := planOf(p); err != nil {
		return nil, cli.ExitFindings, err
	}
	return p, cli.ExitOK, nil
}

// Phase is one stretch of the plan, in which the same is wrong.
type Phase struct {
	Name  string
	Start time.Duration // from the start of the run
	End   time.Duration
	says  string // what is wrong, for people
	wrong bool   // something is
}

// Plan has the phases in time, and the rest, in which nothing arrives any more and the
// last calls end.
type Plan struct {
	Phases []Phase
	Total  time.Duration // of the run, the rest included
}

// planOf has a phase for each stretch of time in which the same is wrong. After the last
// fault there is time to recover: what the plan says, and a third of the time before at least.
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
	busy := max(outage.Duration(), end+max(leastAfter, end/3))
	total := time.Duration(math.Ceil((busy + inTime).Seconds())) * time.Second
	if total > longest {
		return Plan{}, fmt.Errorf("%s: the demo would take %v: %.0f s are the most, and what comes after the last fault takes a third of it", outage.Name(), total, longest.Seconds())
	}
	slices.Sort(cuts)
	cuts = append(slices.Compact(cuts), busy)
	plan := Plan{Total: total}
	for i := range cuts[:len(cuts)-1] {
		plan.Phases = append(plan.Phases, phaseOf(outage, cuts[i], cuts[i+1]))
	}
	plan.Phases[len(plan.Phases)-1].Name = "healthy again"
	return plan, nil
}

// phaseOf says what is wrong from one time to another.
func phaseOf(outage *flaky.Plan, from, to time.Duration) Phase {
	var kinds, texts []string
	for _, f := range outage.Faults() {
		if f.From <= from && f.To >= to {
			kinds, texts = append(kinds, strings.ReplaceAll(f.Kind, "_", " ")), append(texts, strings.ReplaceAll(f.Text, outage.Service(), "the provider"))
		}
	}
	if len(kinds) == 0 {
		return Phase{Name: "healthy", Start: from, End: to, says: "everything is answered, as fast as the provider can"}
	}
	name := kinds[0]
	if len(kinds) > 1 {
		name += fmt.Sprintf(" +%d", len(kinds)-1)
	}
	return Phase{Name: name, Start: from, End: to, says: strings.Join(texts, "; "), wrong: true}
}

// wrong says what is wrong, and when.
func (p Plan) wrong() string {
	var all []string
	for _, phase := range p.Phases {
		if phase.wrong {
			all = append(all, fmt.Sprintf("%.0f to %.0f s: %s.", phase.Start.Seconds(), phase.End.Seconds(), phase.says))
		}
	}
	return strings.Join(all, " ")
}

// At returns the phase at time t, and its index. Before the start it is the
// first, after the end the last.
func (p Plan) At(t time.Duration) (Phase, int) {
	for i, phase := range p.Phases {
		if t < phase.End {
			return phase, i
		}
	}
	last := len(p.Phases) - 1
	return p.Phases[last], last
}

// Busy is how long calls arrive.
func (p Plan) Busy() time.Duration { return p.Phases[len(p.Phases)-1].End }

// Fault returns the time from the first fault to the end of the last.
func (p Plan) Fault() (start, end time.Duration) {
	return p.Phases[0].End, p.Phases[len(p.Phases)-1].Start
}
