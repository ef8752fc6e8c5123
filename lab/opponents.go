package lab

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/gabion-go/gabion/config"
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

// side is what goes by the dependencies of a file, under the names that as gives them.
func side(file *config.File, as map[string]string) (scenario.Policies, error) {
	name, all := as[everything]
	if !all {
		return scenario.Policies{File: file, As: as}, nil
	}
	switch {
	case len(as) > 1:
		return scenario.Policies{}, errors.New("lab: * is all policies of the scenario: name no other")
	case file == nil:
		return scenario.Policies{}, errors.New("lab: * is a dependency of a file, and no file is given")
	}
	candidate, ok := file.Policies[name]
	if !ok {
		return scenario.Policies{}, fmt.Errorf("lab: %s has no dependency %q: %s", file.Name, name, oneOf(name, file.Names()))
	}
	return scenario.Policies{Name: name, Change: like(candidate)}, nil
}

// tellApart names two sides after their files, too, where dependencies of one name stand for
// everything.
func tellApart(a *scenario.Policies, first *config.File, b *scenario.Policies, second *config.File) {
	if a.Name == "" || a.Name != b.Name {
		return
	}
	one, other := filepath.Base(first.Name), filepath.Base(second.Name)
	if one == other {
		one, other = first.Name, second.Name
	}
	a.Name, b.Name = one+" "+a.Name, other+" "+b.Name
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

// errNoAgainst is the error of names for a side that there is not.
var errNoAgainst = errors.New("lab: AgainstAs names dependencies of a file to compare with, and none is given")

// first is the side of Config.
func (o *Options) first() (scenario.Policies, error) {
	if o.Theirs == nil {
		return side(o.Config, o.As)
	}
	if o.Config != nil {
		return scenario.Policies{}, errors.New("lab: Config and Theirs are for the same side: give one")
	}
	return o.Theirs.side(o.As)
}

// other is the side of Against, if there is one.
func (o *Options) other(first *scenario.Policies) (*scenario.Policies, error) {
	as, against, theirs := o.As, o.Against, o.AgainstTheirs
	if len(o.AgainstAs) > 0 {
		if as = o.AgainstAs; against == nil && theirs == nil {
			against, theirs = o.Config, o.Theirs
		}
		if o.Rival != "" || against == nil && theirs == nil {
			return nil, errNoAgainst
		}
	}
	switch {
	case against != nil && theirs != nil:
		return nil, errors.New("lab: Against and AgainstTheirs are for the same side: give one")
	case theirs != nil:
		if len(o.AgainstAs) == 0 && o.Theirs == nil {
			as = nil // As is of Config's dependencies
		}
		made, err := theirs.side(as)
		return &made, err
	case against != nil:
		if len(o.AgainstAs) == 0 && o.Theirs != nil {
			as = nil // As is of Theirs' routes
		}
		made, err := side(against, as)
		made.Against = true
		if o.Config != nil {
			tellApart(first, o.Config, &made, against)
		}
		return &made, err
	case o.Rival != "":
		return o.rival()
	}
	return nil, nil
}
