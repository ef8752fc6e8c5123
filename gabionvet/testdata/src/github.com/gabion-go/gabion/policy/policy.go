// Package policy stands in for the real one.
package policy

type Policy struct{}

type Reason uint8

const (
	BreakerOpen    Reason = 1
	OutcomeUnknown Reason = 2
)

func (Reason) Error() string { return "" }
