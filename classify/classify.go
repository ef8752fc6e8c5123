// Package classify is the one place that decides what an error means.
//
// [Error] turns the error of one attempt into a [policy.Outcome]: what class of
// failure it is, whether it may have had an effect, whether it was sent at all.
// It asks types and sentinels, as errors.Is and errors.As do but in one walk for
// all of them, and never reads an error's text: texts change between releases and
// between languages.
//
// An error can be asked in four ways, and the first that answers wins:
//
//  1. It says so itself, with a method Outcome() policy.Outcome anywhere in its
//     chain. The marks of this package ([Permanent], [Transient], …) are that.
//  2. A list in [Rules] names it.
//  3. The standard library's types say it: context, net, syscall, io, crypto,
//     database/sql, and HTTP/2 stream errors.
//  4. It is a type of a well-known driver: SQLSTATE, MySQL, SQLite, gRPC.
//
// Whatever is left is [policy.Unclassified]: it is not retried, it counts as a
// failure of the dependency, and it may have had an effect. A catch-all that
// took it for a network error would retry refusals.
//
// What it says is about one attempt that makes one call. Work that calls two
// things and fails to dial the second must mark that error itself, or it will be
// taken for work that never left.
package classify

import (
	"errors"

	"github.com/gabion-go/gabion/policy"
)

// Error decides what the error of an attempt means, by the zero [Rules]. A nil
// error is a success. It is safe for concurrent use.
func Error(err error) policy.Outcome { return standard.decide(err, maxErrors) }

var standard Rules

// Rules adjusts what errors mean for one dependency. The zero Rules is what
// [Error] uses. Rules are read only, so sharing them is safe.
//
// When an error is in several lists, Ignored beats Permanent and Permanent beats
// Transient: the list that retries less wins. Marks beat all lists.
type Rules struct {
	// Ignored are errors, compared with errors.Is, that say nothing about the
	// dependency.
	Ignored []error

	// Permanent are errors that are never retried.
	Permanent []error

	// Transient are errors to retry.
	Transient []error

	// GRPC are further gRPC codes to retry, such as "RESOURCE_EXHAUSTED" and
	// "ABORTED". Case does not matter. UNAVAILABLE needs no listing.
	GRPC []string

	// HostNotFound makes DNS's "no such host" transient, for names that come and
	// go. Zero means that it is permanent, as a mistyped name is.
	HostNotFound bool
}

// Error decides what the error of an attempt means. A nil error is a success.
func (r Rules) Error(err error) policy.Outcome { return r.decide(err, maxErrors) }

// decide looks at no more than left errors.
func (r *Rules) decide(err error, left int) policy.Outcome {
	if err == nil {
		return policy.Outcome{}
	}
	if m, ok := err.(*mark); ok { // the walk would say the same
		return m.outcome(r, left)
	}
	f := facts{left: left}
	told, ok := f.walk(err)
	if !ok {
		return r.listed(&f, err)
	}
	if m, ok := told.(*mark); ok {
		return m.outcome(r, f.left)
	}
	return told.Outcome()
}

// listed lets the lists of r change the class, and only the class: an error that
// was never sent stays so. A tree without an end is not compared with lists, since
// errors.Is would not come back from it.
func (r *Rules) listed(f *facts, err error) policy.Outcome {
	if f.left <= 0 || len(r.Ignored)+len(r.Permanent)+len(r.Transient) == 0 {
		return r.known(f, err)
	}
	o := r.known(f, err)
	switch {
	case isAny(err, r.Ignored):
		o.Class = policy.Ignored
	case isAny(err, r.Permanent):
		permanent(&o)
	case isAny(err, r.Transient):
		transient(&o)
	}
	return o
}

func isAny(err error, list []error) bool {
	for _, target := range list {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}

// known asks everybody who knows a kind of error, and then whether the work was
// ever sent, which is a question of its own.
func (r *Rules) known(f *facts, err error) policy.Outcome {
	if f.seen == 0 {
		return maybe(policy.Unclassified)
	}
	o := r.ask(f, err)
	if !o.NeverSent && f.neverSent() {
		return unsent(o.Class)
	}
	return o
}

// ask goes from the surest knowledge to the vaguest: a context's end explains
// the network errors that it causes, a certificate explains a broken handshake.
func (r *Rules) ask(f *facts, err error) policy.Outcome {
	if o, ok := f.patience(); ok {
		return o
	}
	if o, ok := f.database(); ok {
		return o
	}
	if o, ok := f.certificate(); ok {
		return o
	}
	if o, ok := f.malformed(); ok {
		return o
	}
	if o, ok := f.reset(); ok {
		return o
	}
	if o, ok := f.network(r); ok {
		return o
	}
	if f.has(foreign) && f.left > 0 {
		if o, ok := r.driver(err); ok {
			return o
		}
	}
	return maybe(policy.Unclassified)
}

// transient makes o worth a retry, keeping its class if it already is.
func transient(o *policy.Outcome) {
	if !o.Class.Transient() {
		o.Class = policy.ServerError
	}
	o.Once = false
}

// permanent makes o not worth a retry, keeping its class if it already is.
func permanent(o *policy.Outcome) {
	if o.Class != policy.Business {
		o.Class = policy.ClientError
	}
}

// The outcomes that knowledge leads to are kept ready, by class, and copied whole:
// one that is put together field by field has to wait for its fields at each copy.
var (
	doubtful  = byClass(policy.Outcome{Effect: policy.UnknownEffect})
	neverLeft = byClass(policy.Outcome{NeverSent: true})
	takenBack = byClass(policy.Outcome{})
)

func byClass(o policy.Outcome) (all [policy.Crashed + 1]policy.Outcome) {
	for i := range all {
		all[i], all[i].Class = o, policy.Class(i)
	}
	return all
}

// maybe is an outcome of work that may have had an effect.
func maybe(c policy.Class) policy.Outcome { return doubtful[c] }

// unsent is an outcome of work that provably never left.
func unsent(c policy.Class) policy.Outcome { return neverLeft[c] }

// undone is an outcome of work that the other side took back.
func undone(c policy.Class) policy.Outcome { return takenBack[c] }
