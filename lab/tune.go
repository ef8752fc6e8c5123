package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/gabion-go/gabion/config"
	"github.com/gabion-go/gabion/internal/suggest"
	"github.com/gabion-go/gabion/lab/internal/family"
	"github.com/gabion-go/gabion/lab/internal/opponent"
	"github.com/gabion-go/gabion/lab/internal/scenario"
	"github.com/gabion-go/gabion/lab/internal/tune"
	"github.com/gabion-go/gabion/policy"
)

// UsualGoal is what [Tune] aims at if no goal is given: more calls are answered in time, and
// nothing else gets worse than it is with the file or with the defaults.
const UsualGoal = tune.UsualGoal

// GoalError is the error of a goal that can't be read. Its text has a caret at the place.
type GoalError = tune.GoalError

// TuneChange is a key of a policy that gets another value.
type TuneChange = tune.Change

// TuneProgress is how far [Tune] is.
type TuneProgress = tune.Progress

// TuneOptions say what is tuned, and for what.
type TuneOptions struct {
	// Scenarios are those in which candidates are measured: one at least. A policy that is
	// tuned for one fault may do worse in others.
	Scenarios []*Scenario

	// Config is the file that the dependency is in. It must not be nil.
	Config *config.File

	// Dependency is the one whose policy is tuned. Empty means the one that As names, or
	// the only one of Config.
	Dependency string

	// As names dependencies of Config for policies of the scenarios, as Options.As does. In
	// a scenario that has neither of these names nor that of Dependency, all calls go by the
	// tuned policy, and the scenario says which of them may be repeated.
	As map[string]string

	// Goal is such as "goodput first, amplification <= 1.2, recovery <= 10s". Empty means
	// UsualGoal.
	Goal string

	// Vary are the keys that are varied: PATH, PATH=FROM..TO or PATH=VALUE,VALUE. Nil means
	// the usual five.
	Vary []string

	// Seed is what all randomness of the search comes from. Zero means each scenario's. The
	// validation has other seeds.
	Seed uint64

	// Runs is a bound on the runs of the search, of all scenarios each. Zero means none. Those
	// of the defaults and the presets come on top, and those of the validation.
	Runs int

	// Workers is how many runs there are at once. Zero means GOMAXPROCS. It changes nothing
	// but the time that it takes.
	Workers int

	// NoGuard leaves out the look at the scenarios that judge the defaults. Otherwise what
	// is worse in one of them, than the file and than the defaults, is not better.
	NoGuard bool

	// Used returns the share of the time that is used: the search ends at a half, and all of
	// it soon after 1. Nil means that there is no bound. With one, the result depends on how
	// fast the machine is. It is called from several goroutines.
	Used func() float64

	// Command is what reproduces the result, for the report.
	Command string

	// Propose returns the difference that a proposal makes to a file, as text for the
	// report. It is called only for a win, and an error is noted. Nil means that none is
	// shown.
	Propose func(changes []TuneChange) (diff string, err error)

	// Progress receives how far it is, from one goroutine at a time. Nil means no reports.
	Progress func(TuneProgress)
}

// Tuning is what [Tune] came to. It is not changed once it is made, and safe for concurrent
// use.
type Tuning struct{ result *tune.Result }

// Tune searches numbers of a dependency's policy, and compares the best with today's, with
// seeds and trouble that the search has not seen. The defaults and the presets are always
// candidates, with the file's timeout.call and what it says of the dependency; the search goes
// on from the best of them and the file. The same options give the same Tuning,
// unless time ends it. If ctx is over, the Tuning says what was known until then. The error is
// a *[GoalError], one that names a key that can't be varied, that a name is not known,
// or that a policy is not possible; it is ctx's only if nothing is known yet.
func Tune(ctx context.Context, o TuneOptions) (*Tuning, error) {
	switch {
	case o.Config == nil:
		return nil, errors.New("lab: no file is given whose policy could be tuned")
	case len(o.Scenarios) == 0:
		return nil, errors.New("lab: no scenario is given to tune in")
	case o.Runs < 0:
		return nil, errors.New("lab: a bound of runs is not negative")
	}
	goal, err := tune.ParseGoal(o.Goal)
	if err != nil {
		return nil, err
	}
	dependency, err := o.dependency()
	if err != nil {
		return nil, fmt.Errorf("lab: %w", err)
	}
	made := tune.Options{
		Config: o.Config, Dependency: dependency, Goal: goal, Seed: o.Seed, Validation: ValidationSeed, MaxRuns: o.Runs, Workers: o.Workers,
		Command: o.Command, Used: o.Used, Progress: o.Progress,
	}
	dims, notes, err := tune.Space(o.Config, dependency, o.Vary)
	if err != nil {
		return nil, err
	}
	made.Notes, made.Starts = notes, tune.Starts(o.Config, dependency, o.Vary, dims)
	if made.Worlds, err = o.worlds(dependency); err != nil {
		return nil, fmt.Errorf("lab: %w", err)
	}
	if !o.NoGuard {
		if made.Guards, err = o.guards(); err != nil {
			return nil, fmt.Errorf("lab: %w", err)
		}
	}
	result, err := tune.Run(ctx, made)
	if err != nil {
		return nil, fmt.Errorf("lab: %w", err)
	}
	if o.Propose != nil && result.Verdict == tune.Win {
		if result.Diff, err = o.Propose(slices.Clone(result.Changes)); err != nil {
			result.Notes = append(result.Notes, "the file can't be changed by itself, make the changes by hand: "+err.Error())
		}
	}
	return &Tuning{result}, nil
}

// dependency is the one that is tuned.
func (o *TuneOptions) dependency() (string, error) {
	names := o.Config.Names()
	name := o.Dependency
	if name == "" {
		for _, as := range slices.Sorted(maps.Values(o.As)) {
			if name != "" && name != as {
				return "", fmt.Errorf("%s and %s are named: say which of them is tuned", name, as)
			}
			name = as
		}
	}
	if name == "" && len(names) == 1 {
		name = names[0]
	}
	switch {
	case len(names) == 0:
		return "", fmt.Errorf("%s has no dependencies", o.Config.Name)
	case name == "":
		return "", fmt.Errorf("%s has %d dependencies: say which of them is tuned, such as %s", o.Config.Name, len(names), names[0])
	case !slices.Contains(names, name):
		return "", fmt.Errorf("%s has no dependency %q: %s", o.Config.Name, name, oneOf(name, names))
	}
	return name, nil
}

// oneOf says which name was meant, or which there are.
func oneOf(name string, names []string) string {
	return suggest.For(name, names, "there is "+strings.Join(names[:min(len(names), 10)], ", "))
}

// worlds say how the candidates are placed in the scenarios.
func (o *TuneOptions) worlds(dependency string) (worlds []tune.World, err error) {
	if o.As[everything] != "" && len(o.As) > 1 {
		return nil, errors.New("* is all policies of the scenario: name no other")
	}
	unused := maps.Clone(o.As)
	for i, s := range o.Scenarios {
		if slices.ContainsFunc(o.Scenarios[:i], func(t *Scenario) bool { return t.Name() == s.Name() }) {
			return nil, fmt.Errorf("%s is there twice", s.Name())
		}
		as := map[string]string{}
		tuned := map[string]bool{}
		for _, name := range s.Policies() {
			if called, ok := o.As[name]; ok {
				as[name] = called
				delete(unused, name)
				tuned[name] = called == dependency
			} else if name == dependency {
				tuned[name] = true
			}
		}
		worlds = append(worlds, tune.World{File: s.file, Place: o.place(dependency, as, tuned)})
	}
	delete(unused, everything)
	if len(unused) > 0 {
		name := slices.Sorted(maps.Keys(unused))[0]
		return nil, fmt.Errorf("nothing in these scenarios goes by the policy %q: %s", name, oneOf(name, o.Scenarios[0].Policies()))
	}
	return worlds, nil
}

// place returns what puts a candidate into a scenario.
func (o *TuneOptions) place(dependency string, as map[string]string, tuned map[string]bool) func(policy.Policy) scenario.Policies {
	named := slices.Contains(slices.Collect(maps.Values(tuned)), true)
	return func(candidate policy.Policy) scenario.Policies {
		switch {
		case o.As[everything] != "":
			return scenario.Policies{Name: dependency, Change: func(p policy.Policy) policy.Policy { return opponent.Like(candidate, p) }}
		case !named:
			return scenario.Policies{Name: dependency, Change: tune.Like(candidate)}
		}
		return scenario.Policies{File: o.Config, As: as, Edit: func(name string, p policy.Policy) (policy.Policy, error) {
			if tuned[name] {
				return candidate, nil
			}
			return p, nil
		}}
	}
}

// guards are the scenarios that judge the defaults, without those that are tuned in.
func (o *TuneOptions) guards() (worlds []tune.World, err error) {
	for _, name := range family.Core {
		if slices.ContainsFunc(o.Scenarios, func(s *Scenario) bool { return s.Name() == name }) {
			continue
		}
		f, err := scenario.Open(name)
		if err != nil {
			return nil, err
		}
		worlds = append(worlds, tune.World{File: f, Place: func(candidate policy.Policy) scenario.Policies {
			return scenario.Policies{Name: "tuned", Change: tune.Like(candidate)}
		}})
	}
	return worlds, nil
}

// Won reports whether the validation shows that a better policy was found, and no guard that it
// is worse elsewhere.
func (t *Tuning) Won() bool { return t.result.Verdict == tune.Win }

// Interrupted reports whether ctx ended it. Then nothing is claimed, and what is said is the
// best that was known.
func (t *Tuning) Interrupted() bool {
	return t.result.Verdict == tune.Unfinished && t.result.Interrupted
}

// Changes returns what the best that was found changes. It is a proposal only if Won.
func (t *Tuning) Changes() []TuneChange { return slices.Clone(t.result.Changes) }

// Terminal writes the verdict, the validation, the front and the costs as text.
func (t *Tuning) Terminal(w io.Writer) error { return t.result.Terminal(w) }

// WriteJSON writes all of it as JSON. Its key version says which keys there are.
func (t *Tuning) WriteJSON(w io.Writer) error {
	return writeJSON(w, t.result)
}
