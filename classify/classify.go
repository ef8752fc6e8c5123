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
func Error(err error) (o policy.Outcome) {
	standard.decide(err, maxErrors, &o)
	return o
}

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
func (r Rules) Error(err error) (o policy.Outcome) {
	r.decide(err, maxErrors, &o)
	return o
}

// decide puts into o, which is zero, what err means. It looks at no more than
// left errors. Outcomes are filled in place, since each copy of one that was just
// written costs more than looking at an error.
func (r *Rules) decide(err error, left int, o *policy.Outcome) {
	if err == nil {
		return
	}
	if m, ok := err.(*mark); ok { // the walk would come to the same
		m.outcome(r, left, o)
		return
	}
	if m, ok := traitsOf(err).alone(err); ok {
		r.listed(m, err, o)
		return
	}
	r.search(err, left, o)
}

// search decides of an error that has to be looked into.
func (r *Rules) search(err error, left int, o *policy.Outcome) {
	f := facts{left: left}
	told, ok := f.walk(err)
	if !ok && f.left > 0 {
		r.listed(r.known(&f, err), err, o)
		return
	}
	if !ok { // errors.Is would not come back from a tree without an end
		r.known(&f, err).fill(o)
		return
	}
	if m, ok := told.(*mark); ok {
		m.outcome(r, f.left, o)
		return
	}
	*o = told.Outcome()
}

// listed lets the lists of r change the class that m says, and only the class: an
// error that was never sent stays so.
func (r *Rules) listed(m meaning, err error, o *policy.Outcome) {
	m.fill(o)
	switch {
	case isAny(err, r.Ignored):
		o.Class = policy.Ignored
	case isAny(err, r.Permanent):
		o.Class = permanent(o.Class)
	case isAny(err, r.Transient):
		o.Class = transient(o.Class)
	}
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
func (r *Rules) known(f *facts, err error) meaning {
	if f.seen == 0 {
		return inDoubt(policy.Unclassified)
	}
	m := r.ask(f, err)
	if !m.neverSent && f.neverSent() {
		return neverLeft(m.class)
	}
	return m
}

// ask goes from the surest knowledge to the vaguest.
func (r *Rules) ask(f *facts, err error) meaning {
	if m, ok := f.standard(r); ok {
		return m
	}
	if f.has(foreign) && f.left > 0 {
		if m, ok := r.driver(err); ok {
			return m
		}
	}
	return inDoubt(policy.Unclassified)
}

// standard is what the standard library's errors and SQLSTATE say: a context's end
// explains the network errors that it causes, a certificate explains a broken
// handshake.
func (f *facts) standard(r *Rules) (meaning, bool) {
	if m, ok := f.patience(); ok {
		return m, true
	}
	if m, ok := f.database(); ok {
		return m, true
	}
	if m, ok := f.certificate(); ok {
		return m, true
	}
	if m, ok := f.malformed(); ok {
		return m, true
	}
	if m, ok := f.reset(); ok {
		return m, true
	}
	return f.network(r)
}

// transient is c made worth a retry. It keeps a class that already is.
func transient(c policy.Class) policy.Class {
	if c.Transient() {
		return c
	}
	return policy.ServerError
}

// permanent is c made not worth a retry. It keeps a valid "no".
func permanent(c policy.Class) policy.Class {
	if c == policy.Business {
		return c
	}
	return policy.ClientError
}

// A meaning is the part of an outcome that an error's kind can say.
type meaning struct {
	class     policy.Class
	effect    policy.Effect
	neverSent bool
}

func (m meaning) fill(o *policy.Outcome) {
	o.Class, o.Effect, o.NeverSent = m.class, m.effect, m.neverSent
}

// inDoubt is said of work that may have had an effect.
func inDoubt(c policy.Class) meaning { return meaning{class: c, effect: policy.UnknownEffect} }

// neverLeft is said of work that provably never left.
func neverLeft(c policy.Class) meaning { return meaning{class: c, neverSent: true} }

// takenBack is said of work that the other side refused or undid.
func takenBack(c policy.Class) meaning { return meaning{class: c} }
