package configcmd

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gabion-go/gabion/config"
	"github.com/gabion-go/gabion/policy"
)

// note is what follows from the settings of one dependency and stands in none of
// them. Its keys are part of the JSON's version.
type note struct {
	Dependency string `json:"dependency"`
	Text       string `json:"text"`
}

const nothingSafe = "nothing is declared safe: only what provably never left is retried, " +
	"unless a call brings a key, is declared idempotent or has a safe HTTP method"

// A rule says what follows from a policy, or "".
type rule struct {
	about func(path string) bool // the settings that it follows from
	says  func(p policy.Policy) string
}

var rules = []rule{
	{aboutRetries, attemptsOfNothing},
	{aboutHedges, hedgesOfNothing},
	{aboutHedges, hedgesWithoutBound},
	{aboutHedges, hedgesAtOnce},
}

// notesOn returns the notes on what lines show.
func notesOn(f *config.File, lines []line) []note {
	notes := []note{}
	for _, name := range f.Names() {
		p := f.Policies[name].Resolved()
		for _, r := range rules {
			shown := slices.ContainsFunc(lines, func(l line) bool { return l.Dependency == name && r.about(l.Path) })
			if text := r.says(p); shown && text != "" {
				notes = append(notes, note{name, text})
			}
		}
	}
	return notes
}

func aboutRetries(path string) bool {
	return path == "safe" || path == "key" || strings.HasPrefix(path, "retry.")
}

func aboutHedges(path string) bool {
	return path == "safe" || path == "key" || strings.HasPrefix(path, "hedge.") || strings.HasPrefix(path, "retry.budget")
}

// undeclared reports that only a call itself can say that it may be repeated.
func undeclared(p policy.Policy) bool { return !p.Safe && p.Key == policy.KeyDeclared }

func attemptsOfNothing(p policy.Policy) string {
	if undeclared(p) && p.Retry.Attempts > 1 {
		return nothingSafe
	}
	return ""
}

// hedgesOfNothing: a hedge runs the same work a second time while the first is out.
func hedgesOfNothing(p policy.Policy) string {
	switch {
	case p.Hedge.Max <= 0:
		return ""
	case undeclared(p):
		return "nothing is declared safe: no call is hedged, unless it brings a key, is declared idempotent or has a safe HTTP method"
	case !p.Safe:
		return "hedges send the same key twice at once: is the dependency ready for that, and not only for one after the other?"
	}
	return ""
}

func hedgesWithoutBound(p policy.Policy) string {
	if p.Hedge.Max > 0 && p.Retry.Budget.Off {
		return fmt.Sprintf("hedges have no bound: with retry.budget off, a dependency that becomes slow gets up to %d times the load", p.Hedge.Max+1)
	}
	return ""
}

func hedgesAtOnce(p policy.Policy) string {
	if p.Hedge.Max > 0 && p.Hedge.Delay == 0 && p.Hedge.Percentile <= 0 {
		return fmt.Sprintf("hedges wait for nothing: with hedge.percentile off and no hedge.delay every call is sent %d times at once, as far as the budget goes", p.Hedge.Max+1)
	}
	return ""
}
