// Package opponent says what others do: the defaults, or the documented example, of
// libraries and proxies that call services, each as the policy that comes nearest.
//
// An opponent is like for like: it keeps the timeouts and the safety of the policy that
// it takes the place of, and brings everything else from its source. It makes no keys
// and asks for none, and sends those that its callers give.
// Nothing of an opponent is left to gabion's defaults.
package opponent

import (
	"errors"
	"fmt"
	"slices"

	"github.com/gabion-go/gabion/internal/suggest"
	"github.com/gabion-go/gabion/policy"
)

// Opponent is another library's way to retry.
type Opponent struct {
	Name    string   // as command lines spell it
	Aliases []string // other names that find it
	Title   string   // what it is, in a few words
	Source  string   // where its numbers stand: an address, or a module's version and file
	Lacks   string   // what of it a policy cannot express, and what stands there instead

	change func(p policy.Policy) policy.Policy
}

// Change returns the opponent's policy in place of p, with p's timeouts and safety.
func (o *Opponent) Change(p policy.Policy) policy.Policy {
	p = o.change(p)
	p.Retry.Hold = policy.Off // none of them lets a retry wait for others
	return p
}

// All returns all opponents, in the order in which to show them. Callers may change
// the list.
func All() []Opponent { return slices.Clone(all) }

// Names returns the names of all opponents, in the same order.
func Names() []string {
	names := make([]string, len(all))
	for i := range all {
		names[i] = all[i].Name
	}
	return names
}

// ErrUnknown is the error of a name that no opponent has.
var ErrUnknown = errors.New("there is no opponent")

// Find returns the opponent of a name. The error names the one that was most likely
// meant.
func Find(name string) (Opponent, error) {
	var known []string
	for i := range all {
		if all[i].Name == name || slices.Contains(all[i].Aliases, name) {
			return all[i], nil
		}
		known = append(append(known, all[i].Name), all[i].Aliases...)
	}
	return Opponent{}, fmt.Errorf("%w %.60q: %s", ErrUnknown, name, suggest.For(name, known, "gabion lab opponents shows them"))
}

// Like returns candidate in place of p: with p's timeouts, key, safety and trust, and
// with everything else of its own.
func Like(candidate, p policy.Policy) policy.Policy {
	made := candidate.Clone()
	made.Timeout, made.Trust, made.Key, made.Safe = p.Timeout, p.Trust, p.Key, p.Safe
	return made
}

// unasked is a policy by which all work is repeated, safe or not.
func unasked(p policy.Policy) policy.Policy {
	p.Safe = true
	return p
}
