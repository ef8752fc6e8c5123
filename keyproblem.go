package gabion

import "github.com/gabion-go/gabion/policy"

// KeyProblem says what is wrong between a call and its idempotency key, or what the
// dependency knows of an earlier request with it. Each is an error, so that
// errors.Is(err, gabion.KeyReused) asks for one. The zero value is no problem.
//
// Work that speaks to its dependency itself can return one: but for [KeyInFlight]
// each ends the call, since another attempt would get the same answer.
type KeyProblem uint8

// What can be wrong with a key.
const (
	KeyMalformed      KeyProblem = iota + 1 // it is not 1 to 255 visible ASCII characters; nothing was done
	KeyReused                               // it belongs to another request: a bug of the caller's, for one key is for one intent
	KeyExpired                              // it is older than the dependency remembers, or nearly: find out before making another
	KeyInFlight                             // the first request with it has not ended: repeat with the same key, later
	KeyAnswerNotKept                        // the work was done, and its answer is not there any more
	KeyOutcomeUnknown                       // the work was begun, and the dependency does not know how it ended: find out
)

var keyProblems = [...]struct {
	text    string
	outcome policy.Outcome
}{
	0:                 {text: "ok"},
	KeyMalformed:      {"the idempotency key is malformed", policy.Outcome{Class: policy.ClassClient}},
	KeyReused:         {"the idempotency key was used for a different request", refusedInDoubt},
	KeyExpired:        {"the idempotency key is too old to be remembered for certain", refusedInDoubt},
	KeyInFlight:       {"a request with the idempotency key is in progress", policy.Outcome{Class: policy.ClassThrottled, Effect: policy.UnknownEffect, Alone: true}},
	KeyAnswerNotKept:  {"the request was carried out and its answer was not kept", refusedInDoubt},
	KeyOutcomeUnknown: {"it is unknown whether the request was carried out", refusedInDoubt},
}

// refusedInDoubt is an answer that stays the same and does not say that nothing
// happened. That holds for a key that was reused, too: the other request may be an
// earlier run of the same intent that wrote its body differently.
var refusedInDoubt = policy.Failed(policy.ClassClient)

// Error says what the problem is. It never holds the key.
func (p KeyProblem) Error() string {
	if int(p) < len(keyProblems) {
		return keyProblems[p].text
	}
	return "unknown problem with the idempotency key"
}

// Outcome is what the problem means to the call that met it.
func (p KeyProblem) Outcome() policy.Outcome {
	if int(p) < len(keyProblems) {
		return keyProblems[p].outcome
	}
	return policy.Failed(policy.ClassUnclassified)
}
