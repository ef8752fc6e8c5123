package idempotency

import (
	"errors"
	"testing"
)

// An operator settles unknown outcomes and deletes records that are not running. A run does
// neither.
func TestWhatAnOperatorMayChange(t *testing.T) {
	const now, past, future = Moment(100), Moment(50), Moment(200)
	hold := Record{State: StateRunning, LeaseUntil: future, Retention: 10}
	lapsed, repeat := hold, hold
	lapsed.LeaseUntil, repeat.LeaseUntil, repeat.Guarantee, repeat.Retention = past, past, GuaranteeReexecute, 1000
	ended := func(s State, expires Moment) Record { return Record{State: s, Expires: expires} }
	for _, c := range []struct {
		name                     string
		record                   Record
		resolved, released, gone bool // whether such a change is made
	}{
		{"no record", Record{}, false, false, false},
		{"a run", hold, false, false, false},
		{"a run that was lost under hold", lapsed, true, true, true},
		{"a run that was lost under reexecute", repeat, false, false, true},
		{"a released key", ended(StateRetryable, future), false, false, true},
		{"a result", ended(StateDone, future), false, false, true},
		{"an unknown outcome", ended(StateUnknown, future), true, true, true},
		{"an expired record", ended(StateDone, past), false, false, false},
	} {
		for change, want := range map[*Change]bool{
			{State: StateDone, Operator: true, Result: Result{Status: 201}}: c.resolved,
			{State: StateRetryable, Operator: true}:                         c.released,
			{State: StateAbsent, Operator: true}:                            c.gone,
		} {
			next, changed, err := c.record.Apply(Ref{}, *change, now)
			if changed != want || changed && (err != nil || next.State != change.State) {
				t.Errorf("%s to %v: %v, %v, %v", c.name, change.State, changed, next.State, err)
			}
			if changed, same := changed, c.record.State == change.State; !changed && !same && !errors.Is(err, ErrLeaseLost) {
				t.Errorf("%s to %v: refused with %v", c.name, change.State, err)
			}
			if _, changed, _ := c.record.Apply(Ref{Token: 1}, *change, now); changed {
				t.Errorf("%s to %v by another token", c.name, change.State)
			}
		}
	}
}

// A change of which nothing is said must not delete a record.
func TestChangesThatAreNone(t *testing.T) {
	for _, c := range []Change{{}, {Operator: true, State: StateRunning}, {Operator: true, State: StateUnknown}, {State: StateUnknown + 1}} {
		r := Record{State: StateUnknown, Expires: 10}
		if _, changed, err := r.Apply(Ref{}, c, 0); changed || err == nil || errors.Is(err, ErrLeaseLost) {
			t.Errorf("%+v: %v, %v", c, changed, err)
		}
	}
}
