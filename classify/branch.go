package classify

import (
	"time"

	"github.com/gabion-go/gabion/policy"
)

// say is how much a class weighs among those of other branches: the one that is
// retried least wins. Among what is retried, a failure outweighs a request to wait,
// or it would be hidden from the breaker, and a deadline explains what it broke off.
var say = [...]uint8{
	policy.ClassUndecided:    0,
	policy.ClassSuccess:      0,
	policy.ClassUnclassified: 1, // often just a name for the others
	policy.ClassContention:   2,
	policy.ClassThrottled:    3,
	policy.ClassNetwork:      4,
	policy.ClassServer:       5,
	policy.ClassTimeout:      6,
	policy.ClassBusiness:     7,
	policy.ClassClient:       8,
	policy.ClassRejected:     9,
	policy.ClassCrashed:      10,
	policy.ClassIgnored:      11,
}

func weight(c policy.Class) uint8 {
	if int(c) < len(say) {
		return say[c]
	}
	return say[policy.ClassUnclassified]
}

// merge makes of o what two branches, o and b, mean together. In which order many
// branches are merged makes no difference.
func merge(o, b *policy.Outcome) {
	if w, v := weight(o.Class), weight(b.Class); v > w || v == w && b.Class < o.Class {
		o.Class = b.Class
	}
	o.Effect = max(o.Effect, b.Effect)
	proven := (o.NeverSent || o.Undone) && (b.NeverSent || b.Undone)
	o.NeverSent = o.NeverSent && b.NeverSent
	o.Undone = proven && !o.NeverSent
	o.Once = o.Once || b.Once
	o.Stop = o.Stop || b.Stop
	o.Fixed = o.Fixed || b.Fixed
	o.Busy = o.Busy || b.Busy
	o.Open = o.Open || b.Open
	o.Alone = o.Alone && b.Alone
	o.Elsewhere = o.Elsewhere && b.Elsewhere
	o.Exact = o.Exact && b.Exact
	o.After = max(asked(o), asked(b))
	o.HasAfter = o.HasAfter || b.HasAfter
	o.Code = max(o.Code, b.Code) // either says something; which one must not depend on the order
}

// asked is the time that the dependency asked for.
func asked(o *policy.Outcome) time.Duration {
	if o.HasAfter {
		return max(o.After, 0)
	}
	return 0
}
