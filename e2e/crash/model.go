package crash

import (
	"fmt"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/gabion-go/gabion/idempotency"
)

// A modelOp is one operation on one key and what came back. The model is written
// from the table of docs/idempotency.md, and calls nothing of package idempotency
// that decides.
type modelOp struct {
	guarantee idempotency.Guarantee
	lease     time.Duration // that a begin or extend asks for
	tick      time.Duration // how far the store's clock may be off
	call      time.Duration
	back      time.Duration

	begin, get bool
	request    byte              // of a begin: which of the key's requests, from 1
	to         idempotency.State // of a change
	operator   bool              // of a change
	free       bool              // of a release: the key is free for any request
	token      int64             // of a change; what came back otherwise
	attempt    int
	result     string
	decision   idempotency.Decision
	state      idempotency.State // of a get
	lost       bool              // a change was refused
	err        error             // anything else, which ends the test
}

// String returns the operation for people.
func (o modelOp) String() string {
	span := fmt.Sprintf("%v to %v: ", o.call, o.back)
	switch {
	case o.begin:
		return span + fmt.Sprintf("begin of request %d: %v, token %d, attempt %d, %q", o.request, o.decision, o.token, o.attempt, o.result)
	case o.get:
		return span + fmt.Sprintf("get: %v, token %d, attempt %d, %q", o.state, o.token, o.attempt, o.result)
	}
	return span + fmt.Sprintf("to %v (operator: %v) by %d %q (free: %v): refused: %v", o.to, o.operator, o.token, o.result, o.free, o.lost)
}

// A modelState is all that a key's future depends on.
type modelState struct {
	is          idempotency.State
	token       int64
	attempt     int
	result      string
	request     byte          // that the record belongs to; 0 means no request
	early, late time.Duration // the lease ends between these, while running
}

// recordModel is what every store must behave like.
var recordModel = porcupine.Model{
	Init: func() any { return modelState{} },
	Step: func(state, input, _ any) (bool, any) {
		s, o := state.(modelState), input.(modelOp)
		switch {
		case o.begin:
			return s.begin(o)
		case o.get:
			return o.state == s.is && o.token == s.token && o.attempt == s.attempt && o.result == s.result, s
		}
		return s.change(o)
	},
}

// over reports whether the lease may have ended when the operation was made.
func (s modelState) over(o modelOp) bool { return o.back+o.tick >= s.early }

// holds reports whether the lease may still have held when the operation was made.
func (s modelState) holds(o modelOp) bool { return o.call-o.tick <= s.late }

func (s modelState) begin(o modelOp) (bool, modelState) {
	running := s.is == idempotency.StateRunning
	freed := s.is == idempotency.StateRetryable && s.request == 0
	if o.decision == idempotency.DecisionMismatch {
		return s.is != idempotency.StateAbsent && o.request != s.request && !freed, s
	}
	if s.is != idempotency.StateAbsent && o.request != s.request && !freed {
		return false, s
	}
	switch o.decision {
	case idempotency.DecisionInProgress:
		return running && s.holds(o), s
	case idempotency.DecisionReplay:
		return s.is == idempotency.StateDone && o.result == s.result, s
	case idempotency.DecisionUnknown:
		lapsed := running && o.guarantee == hold && s.over(o)
		legal := s.is == idempotency.StateUnknown || lapsed
		s.is = idempotency.StateUnknown
		return legal, s
	case idempotency.DecisionRun:
		open := s.is == idempotency.StateAbsent || s.is == idempotency.StateRetryable || running && o.guarantee == reexecute && s.over(o)
		legal := open && o.token > s.token && o.attempt == s.attempt+1
		next := modelState{is: idempotency.StateRunning, token: o.token, attempt: o.attempt, request: o.request}
		next.early, next.late = o.call+o.lease, o.back+o.lease
		return legal, next
	}
	return false, s
}

func (s modelState) change(o modelOp) (bool, modelState) {
	next, accepted, refused := s.changed(o)
	switch {
	case o.token != s.token:
		return o.lost, s
	case o.lost:
		return refused, s
	}
	return accepted, next
}

// changed returns what a holder's change makes of the record, and whether it may be
// accepted or refused: both, where that is a question of when exactly the lease ends.
func (s modelState) changed(o modelOp) (next modelState, accepted, refused bool) {
	if o.operator && s.is == idempotency.StateRunning && o.guarantee == hold {
		return s.ended(idempotency.StateRetryable, ""), s.over(o), s.holds(o)
	}
	next, accepted = s.timeless(o)
	return next, accepted, !accepted
}

// timeless is changed of what does not depend on the time.
func (s modelState) timeless(o modelOp) (modelState, bool) {
	running := s.is == idempotency.StateRunning
	switch {
	case o.operator:
		return s.ended(idempotency.StateRetryable, ""), s.is == idempotency.StateUnknown || s.is == idempotency.StateRetryable
	case o.to == idempotency.StateRunning:
		s.early, s.late = o.call+o.lease, o.back+o.lease
		return s, running
	case o.to == idempotency.StateDone:
		legal := running || s.is == idempotency.StateDone && s.result == o.result
		return s.ended(idempotency.StateDone, o.result), legal
	case o.to == idempotency.StateRetryable:
		next := s.ended(idempotency.StateRetryable, "")
		if o.free {
			next.request, next.attempt = 0, 0
		}
		return next, running || s.is == idempotency.StateRetryable && next.request == s.request
	case o.to == idempotency.StateUnknown:
		return s.ended(idempotency.StateUnknown, ""), running || s.is == idempotency.StateUnknown
	}
	return s, false
}

func (s modelState) ended(as idempotency.State, result string) modelState {
	return modelState{is: as, token: s.token, attempt: s.attempt, result: result, request: s.request}
}

// The guarantees, by names that fit into tables.
const (
	hold      = idempotency.GuaranteeHold
	reexecute = idempotency.GuaranteeReexecute
	tx        = idempotency.GuaranteeTx
)
