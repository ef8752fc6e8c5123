package tune

import (
	"math"
	"strconv"

	"github.com/gabion-go/gabion/lab/internal/scenario"
	"github.com/gabion-go/gabion/lab/internal/stat"
)

// ResultVersion is the version of a Result's JSON. A key that is added does not change it.
const ResultVersion = 1

// Verdicts of a Result.
const (
	Win        = "win"        // the validation shows that the proposal is better
	Unresolved = "unresolved" // it does not
	Harmful    = "harmful"    // it does, and in another scenario the proposal is worse
	Nothing    = "nothing"    // the search found nothing that looked better
	Unfinished = "unfinished" // it was interrupted or had no time before the validation could tell
)

// Result is what tuning came to. It is not changed once it is made.
type Result struct {
	Version    int         `json:"version"`
	Goal       string      `json:"goal"`
	Added      []string    `json:"added"` // bounds that the goal does not say and that hold nevertheless
	Config     string      `json:"config"`
	Dependency string      `json:"dependency"`
	Scenarios  []string    `json:"scenarios"`
	Dimensions []Dimension `json:"dimensions"`
	Idle       []string    `json:"idle"`  // keys that changed nothing in any run
	Notes      []string    `json:"notes"` // what was left out, and why
	Start      string      `json:"start"` // which policy the search went on from
	Search     SearchFacts `json:"search"`
	Verdict    string      `json:"verdict"`
	Why        []string    `json:"why"`
	Changes    []Change    `json:"changes"` // of the best that was found; a proposal only if the verdict is win
	Validation *Validation `json:"validation,omitempty"`
	Columns    []Shown     `json:"columns"` // of the front
	Front      []FrontRow  `json:"front"`
	Guard      *Guard      `json:"guard,omitempty"`
	Command    string      `json:"command"`
	Diff       string      `json:"diff,omitempty"`

	Interrupted bool `json:"interrupted"` // before all was done
}

// SearchFacts say how much was looked at.
type SearchFacts struct {
	Seed       uint64 `json:"seed"` // 0 means each scenario's
	Candidates int    `json:"candidates"`
	Runs       int    `json:"runs"`    // of all scenarios, each
	Stopped    string `json:"stopped"` // settled, runs, time or interrupted
}

// Change is a key that has another value.
type Change struct {
	Path   string `json:"path"`
	From   string `json:"from"`
	To     string `json:"to"`
	Source string `json:"source"` // of From
}

// Validation is what seeds and trouble said that the search had not seen.
type Validation struct {
	Seed       uint64   `json:"seed"`
	Claim      int      `json:"claim"`   // 1 is of the best, 2 and 3 of what came next, if that was none
	Seeds      int      `json:"seeds"`   // that were run
	Planned    int      `json:"planned"` // before the first
	Variations []string `json:"variations"`
	Rows       []Judged `json:"rows"`
}

// Roles of a Judged row.
const (
	Objective = "objective"
	Bounded   = "bound"
	Cost      = "cost"
)

// Shown is a column, for people.
type Shown struct {
	Label string `json:"label"`
	Name  string `json:"name"`
	Unit  string `json:"unit"`
	More  bool   `json:"more_is_better"`
}

// Judged is a number of both sides on the validation set.
type Judged struct {
	Shown
	Role     string            `json:"role"`
	Scenario string            `json:"scenario,omitempty"`  // empty is the mean of all
	Variant  string            `json:"variation,omitempty"` // empty is the mean of all
	Bound    string            `json:"bound,omitempty"`
	Now      scenario.Estimate `json:"now"`
	Usual    scenario.Estimate `json:"usual"` // of the defaults
	Best     scenario.Estimate `json:"best"`
	Delta    scenario.Estimate `json:"delta"`   // best − now, in pairs
	Verdict  string            `json:"verdict"` // better, worse, unresolved
	Harm     float64           `json:"harm"`    // by how much it is shown to be worse than the file and than the defaults
	beyond   stat.Interval     // by how much it is worse than both, or below zero better
	HoldsNow string            `json:"holds_now,omitempty"`
	Holds    string            `json:"holds,omitempty"` // of the best: yes, no, unresolved
}

// FrontRow is a candidate that no other beats in all of the objective and the costs, by
// the search's runs.
type FrontRow struct {
	Changes  []Change          `json:"changes"`
	Values   []scenario.Number `json:"values"` // by Columns
	Runs     int               `json:"runs"`
	Proposed bool              `json:"proposed"`
}

// Guard is a look at the scenarios that come with gabion. What is worse in one is not better.
type Guard struct {
	Scenarios int      `json:"scenarios"`
	Planned   int      `json:"planned"`
	Runs      int      `json:"runs"`    // of each
	Worse     []Judged `json:"worse"`   // than the file and than the defaults; it ends with the first scenario that has one
	Costs     []Judged `json:"costs"`   // worse than the file, and no worse than the defaults
	Missing   []string `json:"missing"` // that could not be run, and why
}

// round6 keeps six digits, as reports do.
func round6(x float64) float64 {
	if x == 0 || math.IsNaN(x) || math.IsInf(x, 0) {
		return x
	}
	y, err := strconv.ParseFloat(strconv.FormatFloat(x, 'g', 6, 64), 64)
	if err != nil {
		return x
	}
	return y
}

func estimate(i stat.Interval) scenario.Estimate {
	return scenario.Estimate{Interval: stat.Interval{Value: round6(i.Value), Low: round6(i.Low), High: round6(i.High)}}
}

// shown describes a column.
func (c Column) shown() Shown {
	m := c.metric()
	return Shown{Label: c.Label(), Name: m.name, Unit: m.unit, More: m.more}
}
