package sim

import (
	"time"

	"github.com/gabion-go/gabion/classify"
	"github.com/gabion-go/gabion/internal/grpccode"
	"github.com/gabion-go/gabion/internal/outcome"
	"github.com/gabion-go/gabion/policy"
)

// answer is what a service says, or what becomes of asking it: a status of HTTP, a code of gRPC as package outcome
// has it in the place of a status, or one of those that a status does not tell.
type answer uint16

// The answers that no status tells.
const (
	answered  answer = iota
	refused          // no connection: nothing was sent
	broken           // the connection broke after the request was sent
	stopBelow        // 502: a service below failed, and it says not to retry
	shed             // 503 of an Admission: no work was done, and only this caller or priority has no room
	shedAll          // the same in an overload: it says not to retry
	tooLate          // 504 of an Admission: the caller's time was over, and it says not to retry
	numAnswers
)

// The statuses that services answer of their own.
const (
	throttled  answer = 429
	failed     answer = 500 // the work failed
	badBelow   answer = 502 // a service below failed
	busy       answer = 503 // there was no room, and no work was done
	expired    answer = 504 // the caller's time was over, and no work was done
	overloaded answer = 529 // the same as busy, in the word of some APIs
)

// told are the statuses of the others.
var told = [numAnswers]int{answered: 200, stopBelow: 502, shed: 503, shedAll: 503, tooLate: 504}

// The codes of gRPC that are failures of the work, as 500 is.
var (
	unknown  = answer(outcome.OfCode(grpccode.Unknown))
	internal = answer(outcome.OfCode(grpccode.Internal))
)

// status is that of HTTP or what stands in its place, or 0 where there is no answer.
func (a answer) status() int {
	if a < numAnswers {
		return told[a]
	}
	return int(a)
}

// outcome is what a driver makes of an answer, by the code of gabionhttp for the status and by what package
// classify says of the code or the error. What an Admission says of the work counts only if the service is the
// caller's own: another company's gateway may pass it on.
func (a answer) outcome(after time.Duration, p *policy.Policy) policy.Outcome {
	status := a.status()
	switch a {
	case answered:
		return policy.Outcome{Class: policy.ClassSuccess, Code: "200"}
	case refused:
		return policy.Outcome{Class: policy.ClassNetwork, Effect: policy.NoEffect, NeverSent: true}
	case broken:
		return policy.Outcome{Class: policy.ClassNetwork, Effect: policy.UnknownEffect}
	}
	if code, ok := outcome.CodeOf(status); ok {
		o := classify.Rules{GRPC: p.GRPC}.GRPCCode(code)
		if code == grpccode.Cancelled { // not by the caller
			o.Class = policy.ClassUnclassified
		}
		return o
	}
	o := outcome.Listed(status, &p.HTTP, outcome.ByStatus(status))
	stop := a == stopBelow || a == shedAll || a == tooLate
	if a == shed || a == shedAll || a == tooLate {
		o = outcome.Declined(status, o, stop)
		if p.Trust == policy.External {
			o.Effect, o.Undone = policy.UnknownEffect, false
		}
	}
	o.Stop = stop
	if after > 0 && o.Class.Transient() {
		o.HasAfter, o.After = true, after
	}
	o.Code = outcome.StatusText(status)
	return o
}
