package lab

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/gabion-go/gabion/config"
	"github.com/gabion-go/gabion/lab/internal/family"
	"github.com/gabion-go/gabion/lab/internal/opponent"
	"github.com/gabion-go/gabion/lab/internal/scenario"
	"github.com/gabion-go/gabion/lab/internal/tournament"
	"github.com/gabion-go/gabion/policy"
)

// Generated is a scenario of a family around the library. [Load] takes its name.
type Generated struct {
	Name  string // it begins with family:
	Title string
	Group string // what is varied
}

// Families returns the generated scenarios, in the order in which to show them.
func Families() ([]Generated, error) {
	var made []Generated
	for _, w := range family.All() {
		f, err := scenario.Parse(w.Name, []byte(w.Text))
		if err != nil {
			return nil, err
		}
		made = append(made, Generated{w.Name, f.Title, w.Group})
	}
	return made, nil
}

// TournamentOptions say who plays whom, and where. The zero options are a quick
// tournament of gabion's defaults.
type TournamentOptions struct {
	// Config has further policies that are judged: each of its dependencies takes
	// part, with the timeouts, keys and safety of each scenario. Nil means none.
	Config *config.File

	// Full plays all generated scenarios and all opponents, which takes a quarter of an
	// hour and more, and not a choice of them.
	Full bool

	// Against are the names of opponents. Nil means the usual ones; the plain client
	// always takes part.
	Against []string

	// Scenarios are names that [Load] takes for those that come with gabion. Nil means
	// the usual ones.
	Scenarios []string

	// Replications is how often each scenario is run for each. Zero means the usual
	// number; one resolves nothing.
	Replications int

	// Seed is what all randomness comes from. Zero means each scenario's.
	Seed uint64

	// Workers is how many runs there are at once. Zero means GOMAXPROCS. It changes
	// nothing but the time that it takes.
	Workers int

	// Progress receives how much of how much work is done, from one goroutine at a time. Nil means
	// no reports.
	Progress func(done, all float64)
}

// ValidationSeed is a seed on which no default was tuned.
const ValidationSeed = tournament.ValidationSeed

// Tournament is what one came to. It is not changed once it is made, and safe for
// concurrent use.
type Tournament struct{ result *tournament.Result }

// RunTournament plays policies against opponents in many scenarios, with the same
// random numbers. The same options give the same tournament on every machine. The error says
// that a name is not known, or which policy is not possible where, or it is ctx's.
func RunTournament(ctx context.Context, o TournamentOptions) (*Tournament, error) {
	entrants, err := o.entrants()
	if err != nil {
		return nil, fmt.Errorf("lab: %w", err)
	}
	worlds, err := o.worlds()
	if err != nil {
		return nil, fmt.Errorf("lab: %w", err)
	}
	title := "Tournament"
	if o.Config != nil {
		title += " of " + o.Config.Name
	}
	result, err := tournament.Run(ctx, tournament.Options{
		Title: title, Entrants: entrants, Worlds: worlds, Seed: o.Seed, Workers: o.Workers, Progress: o.Progress,
	})
	if err != nil {
		return nil, fmt.Errorf("lab: %w", err)
	}
	return &Tournament{result}, nil
}

// entrants are those that are judged, then the opponents. Without a file the defaults
// are judged; with one they are an opponent.
func (o *TournamentOptions) entrants() ([]tournament.Entrant, error) {
	var judged []tournament.Entrant
	if o.Config != nil {
		for _, name := range slices.Sorted(maps.Keys(o.Config.Policies)) {
			judged = append(judged, tournament.Entrant{
				Name: name, Title: "of " + o.Config.Name, Judged: true, First: []string{"--config", o.Config.Name, "--as", "'*=" + name + "'"},
				Policies: scenario.Policies{Name: name, Change: like(o.Config.Policies[name])},
			})
		}
	}
	gabion := tournament.Gabion()
	gabion.Judged = len(judged) == 0
	names := o.Against
	switch {
	case names == nil && o.Full:
		names = opponent.Names()
	case names == nil:
		names = tournament.Usual
	case !slices.Contains(names, Plain):
		names = append([]string{Plain}, names...)
	}
	others, err := tournament.Opponents(names)
	return slices.Concat(judged, []tournament.Entrant{gabion}, others), err
}

// like makes a policy stand for others, with their timeouts, keys and safety.
func like(candidate policy.Policy) func(policy.Policy) policy.Policy {
	return func(p policy.Policy) policy.Policy { return opponent.Like(candidate, p) }
}

func (o *TournamentOptions) worlds() ([]tournament.World, error) {
	if o.Scenarios == nil {
		return tournament.Worlds(o.Full, o.Replications)
	}
	return tournament.Named(o.Scenarios, func(bool) int { return cmp.Or(o.Replications, 3) })
}

// Terminal writes the tables and the first losses as text, in colours if color is set.
func (t *Tournament) Terminal(w io.Writer, color bool) error { return t.result.Terminal(w, color) }

// HTML writes all of it as one page that needs nothing else: no script, no network.
func (t *Tournament) HTML(w io.Writer) error { return t.result.HTML(w) }

// Markdown writes the tables and all losses as a part of a document.
func (t *Tournament) Markdown(w io.Writer) error { return t.result.Markdown(w) }
