package lab

import (
	"errors"
	"fmt"

	"github.com/gabion-go/gabion/lab/internal/opponent"
	"github.com/gabion-go/gabion/lab/internal/scenario"
)

// Opponent is what others do when they call a service: the defaults, or the documented
// example, of a library, an SDK or a proxy, as the policy that comes nearest. It keeps
// the timeouts and the safety of the policy in whose place it stands, and sends the keys
// that callers give.
type Opponent struct {
	Name    string   // as Options.Rival takes it
	Aliases []string // other names for it
	Title   string   // what it is, in a few words
	Source  string   // where its numbers stand
	Lacks   string   // what of it a policy cannot express
}

// ErrNoOpponent is the error of a rival whose name no opponent has.
var ErrNoOpponent = opponent.ErrUnknown

// Opponents returns all opponents that there are.
func Opponents() []Opponent {
	var made []Opponent
	for _, o := range opponent.All() {
		made = append(made, Opponent{o.Name, o.Aliases, o.Title, o.Source, o.Lacks})
	}
	return made
}

// everything is the name in As that stands for all policies of a scenario.
const everything = "*"

// first is the side of Config.
func (o *Options) first() (scenario.Policies, error) {
	name, all := o.As[everything]
	if !all {
		return scenario.Policies{File: o.Config, As: o.As}, nil
	}
	switch {
	case len(o.As) > 1:
		return scenario.Policies{}, errors.New("lab: * is all policies of the scenario: name no other")
	case o.Config == nil || o.Against != nil:
		return scenario.Policies{}, errors.New("lab: * is for one file, and not for a comparison of two")
	}
	candidate, ok := o.Config.Policies[name]
	if !ok {
		return scenario.Policies{}, fmt.Errorf("lab: %s has no dependency %q", o.Config.Name, name)
	}
	return scenario.Policies{Name: name, Change: like(candidate)}, nil
}

// rival is the side of an opponent: it takes the place of what the first side goes by,
// or of the scenario's policies where that stands for all of them.
func (o *Options) rival() (*scenario.Policies, error) {
	file, as := o.Config, o.As
	if _, all := as[everything]; all {
		file, as = nil, nil
	}
	if o.Rival == None || o.Rival == Plain || o.Rival == Naive {
		return &scenario.Policies{File: file, As: as, Name: o.Rival, Rival: o.Rival}, nil
	}
	found, err := opponent.Find(o.Rival)
	if err != nil {
		return nil, fmt.Errorf("lab: %w", err)
	}
	return &scenario.Policies{File: file, As: as, Name: found.Name, Change: found.Change}, nil
}
