// Package outcome puts together what is said of one attempt.
package outcome

import "github.com/gabion-go/gabion/policy"

// Add adds to o what was said beside a class that was not: marks are kept, and what may
// have happened may.
func Add(o, said *policy.Outcome) {
	switch {
	case said.Effect == policy.UnknownEffect:
		o.NeverSent, o.Undone, o.Effect = false, false, policy.UnknownEffect
	case said.NeverSent || said.Undone:
		o.NeverSent, o.Undone, o.Effect = o.NeverSent || said.NeverSent, o.Undone || said.Undone, policy.NoEffect
	}
	o.Once, o.Stop, o.Fixed = o.Once || said.Once, o.Stop || said.Stop, o.Fixed || said.Fixed
	o.Elsewhere = o.Elsewhere || said.Elsewhere
	if said.HasAfter {
		o.HasAfter, o.After, o.Alone, o.Exact, o.Empty = true, said.After, said.Alone, said.Exact, said.Empty
	}
}
