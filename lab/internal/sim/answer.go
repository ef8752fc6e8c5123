package sim

import (
	"time"

	"github.com/gabion-go/gabion/policy"
)

// answer is what a service says, or what becomes of asking it.
type answer uint8

// The answers.
const (
	answered   answer = iota
	refused           // no connection: nothing was sent
	broken            // the connection broke after the request was sent
	busy              // 503: there was no room, and no work was done
	failed            // 500: the work failed
	throttled         // 429
	expired           // 504: the caller's time was over, and no work was done
	badBelow          // 502: a service below failed
	stopBelow         // the same, and it says not to retry
	shed              // 503 of an Admission: no work was done, and only this caller or priority has no room
	shedAll           // the same in an overload: it says not to retry
	tooLate           // 504 of an Admission: the caller's time was over, and it says not to retry
	overloaded        // 529: the same as busy, in the word of some APIs
	numAnswers
)

// outcome is what a driver makes of an answer: what gabionhttp makes of the status,
// and package classify of the error. What an Admission says of the work counts only if
// the service is the caller's own: another company's gateway may pass it on.
func (a answer) outcome(after time.Duration, trust policy.Trust) policy.Outcome {
	o := policy.Outcome{Effect: policy.UnknownEffect}
	switch a {
	case answered:
		return policy.Outcome{Class: policy.ClassSuccess, Code: codes[a]}
	case refused:
		o = policy.Outcome{Class: policy.ClassNetwork, NeverSent: true}
	case broken:
		o.Class = policy.ClassNetwork
	case failed:
		o.Class, o.Once = policy.ClassServer, true // a 500 may be a bug and not a blip
	case busy, overloaded:
		o.Class, o.Busy = policy.ClassServer, true
	case badBelow:
		o.Class = policy.ClassServer
	case expired:
		o.Class = policy.ClassTimeout
	case stopBelow:
		o.Class, o.Stop = policy.ClassServer, true
	case throttled:
		o = policy.Outcome{Class: policy.ClassThrottled, Undone: true}
	case shed:
		o = policy.Outcome{Class: policy.ClassThrottled, Undone: true, Alone: true}
	case shedAll:
		o = policy.Outcome{Class: policy.ClassThrottled, Undone: true, Busy: true, Stop: true}
	case tooLate:
		o = policy.Outcome{Class: policy.ClassTimeout, Undone: true, Stop: true}
	}
	if after > 0 && (a == busy || a == overloaded || a == throttled || a == shed || a == shedAll) {
		o.HasAfter, o.After = true, after
	}
	if trust == policy.External && (a == shed || a == shedAll || a == tooLate) {
		o.Effect, o.Undone = policy.UnknownEffect, false
	}
	o.Code = codes[a]
	return o
}

// codes are the statuses of the answers that are some, for recordings.
var codes = [numAnswers]string{answered: "200", failed: "500", busy: "503", badBelow: "502", stopBelow: "502", throttled: "429", expired: "504", shed: "503", shedAll: "503", tooLate: "504", overloaded: "529"}
