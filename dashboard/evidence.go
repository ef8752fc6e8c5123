package dashboard

import (
	"github.com/gabion-go/gabion/internal/formulas"
	"github.com/gabion-go/gabion/policy"
)

// evidence is what a page counted since it began to watch, besides what a dependency counts
// itself: what contrib/gabionprom exposes and recordings have, in the same buckets.
type evidence struct {
	took   formulas.Counts // attempts that succeeded
	cut    int64           // attempts that their timeout ended
	opened int64           // times that a breaker opened
}

func (v *evidence) settled(e *policy.Event) {
	if e.Reason == policy.AttemptTimeout {
		v.cut++
	}
	if e.Class == policy.ClassSuccess {
		v.took.Add(e.Took, 1)
	}
}

func (v *evidence) happened(e *policy.Event) {
	if e.Kind == policy.KindBreakerMoved && e.To == policy.StateOpen &&
		(e.From == policy.StateClosed || e.From == policy.StateDisabled || e.From == policy.StateObserveOnly) {
		v.opened++
	}
}
