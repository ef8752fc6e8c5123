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
	other      bool              // begin with another request
	event      idempotency.Event // of a change
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
		return span + fmt.Sprintf("begin (other request: %v): %v, token %d, attempt %d, %q", o.other, o.decision, o.token, o.attempt, o.result)
	case o.get:
		return span + fmt.Sprintf("get: %v, token %d, attempt %d, %q", o.state, o.token, o.attempt, o.result)
	}
	return span + fmt.Sprintf("%v by %d %q: refused: %v", o.event, o.token, o.result, o.lost)
}

// A modelState is all that a key's future depends on.
type modelState struct {
	is          idempotency.State
	token       int64
	attempt     int
	result      string
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

func (s modelState) begin(o modelOp) (bool, modelState) {
	running := s.is == idempotency.Running
	switch o.decision {
	case idempotency.Mismatch:
		return o.other && s.is != idempotency.Absent, s
	case idempotency.InProgress:
		return !o.other && running && o.call-o.tick <= s.late, s
	case idempotency.Replay:
		return !o.other && s.is == idempotency.Done && o.result == s.result, s
	case idempotency.OutcomeUnknown:
		lapsed := running && o.guarantee == hold && s.over(o)
		legal := !o.other && (s.is == idempotency.Unknown || lapsed)
		s.is = idempotency.Unknown
		return legal, s
	case idempotency.Run:
		free := s.is == idempotency.Absent || s.is == idempotency.Retryable || running && o.guarantee == reexecute && s.over(o)
		legal := free && o.token > s.token && o.attempt == s.attempt+1 && (!o.other || s.is == idempotency.Absent)
		return legal, modelState{is: idempotency.Running, token: o.token, attempt: o.attempt, early: o.call + o.lease, late: o.back + o.lease}
	}
	return false, s
}

func (s modelState) change(o modelOp) (bool, modelState) {
	next, legal := s.changed(o)
	if o.token != s.token {
		legal = false
	}
	if o.lost {
		return !legal, s
	}
	return legal, next
}

// changed returns what a holder's change makes of the record, and whether it may.
func (s modelState) changed(o modelOp) (modelState, bool) {
	running := s.is == idempotency.Running
	switch o.event {
	case idempotency.Extend:
		s.early, s.late = o.call+o.lease, o.back+o.lease
		return s, running
	case idempotency.Complete:
		legal := running || s.is == idempotency.Done && s.result == o.result
		return s.ended(idempotency.Done, o.result), legal
	case idempotency.Release:
		return s.ended(idempotency.Retryable, ""), running || s.is == idempotency.Retryable
	case idempotency.Abandon:
		return s.ended(idempotency.Unknown, ""), running || s.is == idempotency.Unknown
	case idempotency.ResolveNothing:
		return s.ended(idempotency.Retryable, ""), s.is == idempotency.Unknown || s.is == idempotency.Retryable
	}
	return s, false
}

func (s modelState) ended(as idempotency.State, result string) modelState {
	return modelState{is: as, token: s.token, attempt: s.attempt, result: result}
}

// The guarantees, by names that fit into tables.
const (
	hold      = idempotency.Hold
	reexecute = idempotency.Reexecute
	tx        = idempotency.Tx
)
