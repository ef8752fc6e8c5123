// Package tournament plays policies against others in many scenarios, with the same
// random numbers, and says which of them is better at what, and by how much.
//
// The same entrants, worlds and seed give the same result, whatever the number of
// workers.
package tournament

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/gabion-go/gabion/lab/internal/family"
	"github.com/gabion-go/gabion/lab/internal/parallel"
	"github.com/gabion-go/gabion/lab/internal/scenario"
)

// Entrant is a policy that takes part.
type Entrant struct {
	Name     string
	Title    string            // what it is, in a few words
	Policies scenario.Policies // what it goes by in every world
	Judged   bool              // the losses of this one are listed
	First    []string          // the flags that make it the first side of gabion lab run
	Against  string            // what makes it the second one; empty if nothing does
}

// World is a scenario that is played.
type World struct {
	File         *scenario.File
	Group        string // what is averaged together
	Kind         string // its family, or empty for that of its group
	Replications int    // the same for all worlds of a group
	Dead         bool   // its dependency answers nothing during the trouble
}

// Options say what is played. Entrants[0] is the one that the others are compared
// with.
type Options struct {
	Title    string
	Entrants []Entrant
	Worlds   []World
	Seed     uint64 // 0 means that of each scenario
	Workers  int    // 0 means GOMAXPROCS

	// Progress receives how much of how much work is done, from one goroutine at a time.
	Progress func(done, all float64)
}

// Result is what a tournament came to. It is not changed once it is made.
type Result struct {
	Title    string
	Seed     uint64
	Entrants []Entrant
	Worlds   []World
	Groups   []Group
	Losses   []Loss
	Kinds    []Kind
	Below    []Below   // the most first
	Everyday *Everyday // nil without worlds of everyday errors
	Calls    float64   // about how many were played

	cells [][]cell // by entrant, then by world
	free  []cell   // by world: the first entrant without a budget, in everyday errors
}

// ErrNothing is the error of a tournament without entrants or worlds.
var ErrNothing = errors.New("a tournament wants entrants and worlds")

// Run plays all entrants in all worlds. The error says which entrant cannot play in
// which world, or it is ctx's.
func Run(ctx context.Context, o Options) (*Result, error) {
	if len(o.Entrants) == 0 || len(o.Worlds) == 0 {
		return nil, ErrNothing
	}
	r := &Result{Title: o.Title, Seed: o.Seed, Entrants: o.Entrants, Worlds: o.Worlds, cells: make([][]cell, len(o.Entrants))}
	for i := range r.cells {
		r.cells[i] = make([]cell, len(o.Worlds))
	}
	r.free = make([]cell, len(o.Worlds))
	if err := r.play(ctx, &o); err != nil {
		return nil, err
	}
	r.reduce()
	return r, nil
}

// withoutBudget is the first entrant again, with no retry budget.
const withoutBudget = -1

// game is one entrant in one world.
type game struct {
	entrant, world int
	work           float64
}

// games returns what is to be played, the longest first, so that no worker is left
// with a long one at the end.
func (r *Result) games() (games []game, all float64) {
	for w := range r.Worlds {
		work := r.Worlds[w].File.Expected() * float64(r.Worlds[w].Replications)
		for e := range r.Entrants {
			games = append(games, game{e, w, work})
			all += work
		}
		if r.Worlds[w].Kind == family.Everyday {
			games = append(games, game{withoutBudget, w, work})
			all += work
		}
	}
	slices.SortStableFunc(games, func(a, b game) int { return cmp.Compare(b.work, a.work) })
	return games, all
}

// play plays all games.
func (r *Result) play(ctx context.Context, o *Options) error {
	games, all := r.games()
	r.Calls = all
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	done := 0.0
	parallel.Run(len(games), o.Workers, func() bool { return ctx.Err() != nil },
		func(i int) {
			if err := r.game(ctx, games[i]); err != nil {
				stop(err)
			}
		},
		func(i, _ int) {
			if done += games[i].work; o.Progress != nil {
				o.Progress(done, all)
			}
		})
	return context.Cause(ctx)
}

// game plays one game.
func (r *Result) game(ctx context.Context, g game) error {
	w := &r.Worlds[g.world]
	e, into := r.Entrants[0], &r.free[g.world]
	if g.entrant == withoutBudget {
		e = unbudgeted(e)
	} else {
		e, into = r.Entrants[g.entrant], &r.cells[g.entrant][g.world]
	}
	study, err := w.File.Run(ctx, scenario.Options{
		Policies: e.Policies, Alone: true, Seed: r.Seed, Replications: w.Replications, Workers: 1,
	})
	if err != nil {
		return fmt.Errorf("%s in %s: %w", e.Name, w.File.Name, err)
	}
	*into = measure(study, w)
	return nil
}
