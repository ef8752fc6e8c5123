package policy

import "time"

// Class says how an attempt ended. Slowness is orthogonal: a success may be slow.
type Class uint8

// The classes of outcome, in the order success, transient, permanent, neutral.
const (
	ClassUndecided    Class = iota // the zero Class says nothing: a classifier leaves the decision to the next one
	ClassSuccess                   // the work was done
	ClassNetwork                   // transient: refused, reset, unreachable, broken off
	ClassTimeout                   // transient: no answer in time
	ClassServer                    // transient: the server failed or is overloaded
	ClassThrottled                 // transient: the server asked us to come back later
	ClassContention                // transient: the dependency works, and undid this work because of another call's
	ClassClient                    // permanent: the request is wrong and stays wrong
	ClassBusiness                  // permanent: a valid "no", such as a declined card
	ClassUnclassified              // no classifier knows it: not retried, a failure to the breaker
	ClassIgnored                   // the caller gave up: says nothing about the dependency
	ClassRejected                  // a layer of gabion's below refused it unasked: says nothing of what this layer calls
	ClassCrashed                   // the work panicked or called runtime.Goexit: says nothing either
	numClasses
)

// Transient reports whether trying again may help.
func (c Class) Transient() bool { return c >= ClassNetwork && c <= ClassContention }

// Effect answers what a payment engineer asks first: may it have happened?
type Effect uint8

// What may have happened.
const (
	NoEffect      Effect = iota // it did not happen
	UnknownEffect               // it may have happened: sent, and no answer that says otherwise
)

// Outcome is what a driver reports of one attempt. The zero Outcome says nothing, not
// even that the work succeeded: see ClassUndecided. A machine takes it for an unclassified failure.
type Outcome struct {
	Class  Class
	Effect Effect

	// NeverSent says that the work provably never reached the dependency, which
	// makes it safe to repeat whatever it is.
	NeverSent bool

	// Undone says that the dependency did nothing: it refused before it began, as
	// with 429, or undid all of it, as with a transaction that it rolled back. It
	// makes work safe to repeat, as NeverSent does. It is never implied by the zero
	// Effect, which a classifier that knows nothing of effects leaves.
	Undone bool

	// Once allows at most one retry of this kind of failure: it may be a bug and
	// not a blip.
	Once bool

	// Stop is the dependency's or a lower layer's mark: do not retry.
	Stop bool

	// Fixed says that the body or stream can't be sent again.
	Fixed bool

	// HasAfter says that the dependency named a time to come back: After.
	HasAfter bool

	// Alone says that After concerns this call and no other, such as a key that is
	// still being worked on: the dependency is not held back for it.
	Alone bool

	// Empty says that no attempt was refused: the dependency answered, and After is when a quota
	// of its own has something left again. Calls of the same partition are held until then, and one of them goes
	// first to find out whether that is true. Meaningless without HasAfter, and of a transient failure.
	Empty bool

	// Exact says that a retry is to wait for After exactly, without jitter, and that the
	// backoff begins anew after it, as with the pushback of gRPC. Meaningless without HasAfter.
	Exact bool

	// Busy says that the dependency answered that it has no room, as with 503, or as a
	// database that has too many connections. A learned limit goes by it.
	Busy bool

	// Exhausted says that the work was not sent because the client's own pool had no
	// connection for it in time. It goes with ClassRejected and NeverSent: the dependency
	// was not asked, and the call ends with PoolExhausted.
	Exhausted bool

	// Elsewhere says that another attempt would go to another address of the dependency,
	// which is thought to work. So it needs no wait, unless the dependency asked for one. The
	// retry budget pays for it all the same.
	Elsewhere bool

	// Open says that the result lives on after the verdict, as a response body
	// does. It keeps its slot until it ends, or until its attempt's time is over.
	Open bool

	// After is when to come back, from now. Meaningless without HasAfter.
	After time.Duration

	// Code is the dependency's own word for it, for people and metrics: the status "503", an
	// SQLSTATE, "UNAVAILABLE". Nothing is decided by it. It must come from a small set,
	// since metrics count each by itself. Empty means no code.
	Code string
}

// Succeeded is the outcome of work that was done. With [Failed], [Refused] and [Unsent] a
// classifier says what a class alone does not: whether the work may have happened. Outcome{}
// leaves the decision to the next classifier.
func Succeeded() Outcome { return Outcome{Class: ClassSuccess} }

// Failed is the outcome of work that was sent and may have had an effect. It is repeated
// where the work is declared safe.
func Failed(c Class) Outcome { return Outcome{Class: c, Effect: UnknownEffect} }

// Refused is the outcome of work of which the dependency did nothing, or undid all. If c is
// transient, it is safe to repeat whatever it is.
func Refused(c Class) Outcome { return Outcome{Class: c, Undone: true} }

// Unsent is the outcome of work that provably never reached the dependency. If c is
// transient, it is safe to repeat whatever it is.
func Unsent(c Class) Outcome { return Outcome{Class: c, NeverSent: true} }

// ComeBack returns o with the time in which the dependency asked to be called again, from now.
// Less than zero counts as zero.
func (o Outcome) ComeBack(after time.Duration) Outcome {
	o.HasAfter, o.After = true, max(after, 0)
	return o
}

// WithCode returns o with the dependency's own word for it: see the field Code.
func (o Outcome) WithCode(code string) Outcome {
	o.Code = code
	return o
}

var classText = [numClasses]string{
	ClassUndecided:    "undecided",
	ClassSuccess:      "success",
	ClassNetwork:      "network",
	ClassTimeout:      "timeout",
	ClassServer:       "server",
	ClassThrottled:    "throttled",
	ClassContention:   "contention",
	ClassClient:       "client",
	ClassBusiness:     "business",
	ClassUnclassified: "unclassified",
	ClassIgnored:      "ignored",
	ClassRejected:     "rejected",
	ClassCrashed:      "crashed",
}

// String returns the text that logs use.
func (c Class) String() string {
	if c < numClasses {
		return classText[c]
	}
	return "class(unknown)"
}

// String returns "none" or "unknown".
func (e Effect) String() string {
	if e == NoEffect {
		return "none"
	}
	return "unknown"
}
