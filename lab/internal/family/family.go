// Package family makes scenarios around those of the library: other loads, other
// fleets, longer and shorter trouble, other shares of errors, and errors that cost
// more. Each is a file like any other, and has a name that does not change.
package family

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/gabion-go/gabion/lab/internal/scenario"
)

// Prefix is what the names of all generated scenarios begin with.
const Prefix = "family:"

// Core are the scenarios of the library by which policies are judged. The others of
// the library are about something else: hedging, a healthy service, a day.
var Core = []string{
	"black-hole", "brown-out", "cron-burst", "error-storm", "expired-work", "flap", "fleet-rate-limit", "layered-retries",
	"lost-answers", "metastable-collapse", "one-bad-replica", "restart-storm", "rush-hour", "short-blip", "short-lived-clients", "slow-dependency",
}

// World is a generated scenario.
type World struct {
	Name  string // with the prefix
	Group string // what is varied, in a word or two
	Text  string
}

// all makes them once; they depend on nothing.
var all = sync.OnceValue(func() []World {
	var made []World
	for _, w := range slices.Concat(
		everyday(), steady(), troubles(), sparse(), flaps(), humps(), creeping(), overloads(), crowds(),
		instances(), deploys(), costs(), limits(), halved(), sdks(), variations(),
	) {
		w.Name = Prefix + w.Name
		made = append(made, w)
	}
	return made
})

// All returns all generated scenarios, in the order in which to show them.
func All() []World { return slices.Clone(all()) }

// Group returns what is varied in a generated scenario, empty for an unknown name.
func Group(name string) string {
	for _, w := range all() {
		if w.Name == name {
			return w.Group
		}
	}
	return ""
}

// ErrUnknown is the error of a name that no generated scenario has.
var ErrUnknown = errors.New("there is no scenario")

// Text returns the file of a generated scenario; name has the prefix.
func Text(name string) ([]byte, error) {
	for _, w := range all() {
		if w.Name == name {
			return []byte(w.Text), nil
		}
	}
	return nil, fmt.Errorf("%w %.80q: gabion lab list --families shows them", ErrUnknown, name)
}

// Open reads a scenario of the library, or a generated one.
func Open(name string) (*scenario.File, error) {
	if !strings.HasPrefix(name, Prefix) {
		return scenario.Open(name)
	}
	text, err := Text(name)
	if err != nil {
		return nil, err
	}
	return scenario.Parse(name, text)
}
