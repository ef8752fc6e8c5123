package tournament

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gabion-go/gabion/lab/internal/family"
	"github.com/gabion-go/gabion/lab/internal/opponent"
	"github.com/gabion-go/gabion/lab/internal/scenario"
)

// ValidationSeed is a seed on which nothing was tuned.
const ValidationSeed = 7_000_001

// The groups of worlds.
const (
	Library  = "scenarios of the library"
	Families = "families around them"
)

// Usual are the opponents of a quick tournament: of those that are alike, one.
var Usual = []string{"plain", "naive", "resilience4j", "polly", "aws-standard", "aws-2026", "grpc", "linkerd"}

// quickFamilies are the generated worlds of a quick tournament: small ones, one of a
// kind.
var quickFamilies = []string{
	"steady-5pct-100x2", "steady-30pct-5x20", "steady-30pct-1000x0.2", "steady-80pct-100x2", "down-2s-100x2", "down-10s-1000x0.2",
	"everyday-5pct-60x4", "humps-50pct-100x2", "overload-300pct-100x2", "one-of-3-swallows-100x2", "deploy-resets-100x2", "sdk-aws-2026-outage-3s-1x20",
	"black-hole-1m-100x2", "errors-100pct-1m-5x20", "flap-3s-of-10s-100x2", "spike-200pct-100x2", "cost-work-30pct-100x2", "limit-50pct-said-100x2",
}

// The replications: more than two, since two say hardly anything about a difference.
const (
	quickReplications   = 3
	libraryReplications = 5
	familyReplications  = 3
)

// Gabion is what each scenario goes by: its own policies, which are the defaults but
// for timeouts and what is safe.
func Gabion() Entrant {
	return Entrant{Name: "gabion", Title: "the defaults, with each scenario's timeouts"}
}

// Opponents are entrants by their names.
func Opponents(names []string) (made []Entrant, err error) {
	for _, name := range names {
		o, err := opponent.Find(name)
		if err != nil {
			return nil, err
		}
		made = append(made, Entrant{Name: o.Name, Title: o.Title, Policies: scenario.Policies{Name: o.Name, Change: o.Change}, Against: o.Name})
	}
	return made, nil
}

// Worlds are those of a full tournament, or of a quick one; replications is 0 for the
// usual number.
func Worlds(full bool, replications int) (made []World, err error) {
	names := slices.Clone(family.Core)
	for _, w := range family.All() {
		if full || slices.Contains(quickFamilies, strings.TrimPrefix(w.Name, family.Prefix)) {
			names = append(names, w.Name)
		}
	}
	return Named(names, func(generated bool) int {
		switch {
		case replications > 0:
			return replications
		case !full:
			return quickReplications
		case generated:
			return familyReplications
		}
		return libraryReplications
	})
}

// Named are worlds by their names.
func Named(names []string, replications func(generated bool) int) (made []World, err error) {
	for _, name := range names {
		f, err := family.Open(name)
		if err != nil {
			return nil, err
		}
		generated := strings.HasPrefix(name, family.Prefix)
		w := World{File: f, Group: Library, Replications: replications(generated), Dead: dead(name)}
		if generated {
			w.Group, w.Kind = Families, family.Group(name)
		}
		made = append(made, w)
	}
	if len(made) == 0 {
		return nil, fmt.Errorf("%w: no scenario is named", ErrNothing)
	}
	return made, nil
}

// dead reports whether a world's dependency answers nothing during the trouble, for
// longer than it takes to know that.
func dead(name string) bool {
	name, generated := strings.CutPrefix(name, family.Prefix)
	if !generated {
		return name == "black-hole"
	}
	for _, begin := range []string{"black-hole-", "down-"} {
		if rest, ok := strings.CutPrefix(name, begin); ok && (strings.HasPrefix(rest, "1m-") || strings.HasPrefix(rest, "10m-")) {
			return true
		}
	}
	return false
}
