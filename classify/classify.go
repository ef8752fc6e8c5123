// Package classify is the one place that decides what an error means.
//
// [Error] turns the error of one attempt into a [policy.Outcome]: what class of
// failure it is, whether it may have had an effect, whether it was sent at all.
// It checks types and sentinels, like errors.Is and errors.As, but in one walk for all of
// them. It never reads an error's text, because texts change between releases and between
// languages.
//
// There are four checks, and the first one that matches counts:
//
//  1. The error has a method Outcome() policy.Outcome anywhere in its chain. The marks of
//     this package ([Permanent], [Transient], …) have it. An Outcome without a
//     class does not count.
//  2. A list in [Rules] names it.
//  3. It is a type of the standard library: context, net, syscall, io, crypto,
//     database/sql, or an HTTP/2 stream error.
//  4. It is a type of a well-known driver: SQLSTATE, MySQL, SQLite, gRPC.
//
// All other errors are [policy.ClassUnclassified]: they are not retried, they count as
// failures of the dependency, and they may have had an effect. Treating them as network
// errors would retry refusals.
//
// An error that holds several errors, as errors.Join and fmt.Errorf with more than one %w
// make them, is checked branch by branch. The order of the branches does not matter:
//
//   - It may have had an effect if any branch may.
//   - It is safe to repeat only if every branch proves it, by work that was never sent or
//     was undone. An unknown error proves nothing.
//   - Its class is the one that is retried least: first the caller's cancel and others that
//     say nothing about the dependency, then permanent failures, then timeouts, server,
//     network, throttled, contention. A branch without a classification, often only a name
//     for the others, does not count.
//   - The retry must wait as long as the longest branch says. A mark that stops retries in
//     any branch stops them.
//
// The outcome is about one attempt that makes one call. Work that makes two calls, and
// fails to dial the second, must mark that error itself. Otherwise it counts as work that
// was never sent. The same holds for work of several statements outside of a transaction,
// of which the database undid the last.
package classify

import (
	"reflect"

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
// Lists are compared with errors.Is. When an error is in several of the first four,
// the first of them wins: the list that retries less. Marks beat all lists.
type Rules struct {
	// Ignored are errors that say nothing about the dependency.
	Ignored []error

	// Permanent are errors that are never retried.
	Permanent []error

	// Business are valid answers of "no", such as a driver's "not found": nothing
	// happened, and they are no failure.
	Business []error

	// Transient are errors to retry, such as a client's "no connection came free in
	// its pool in time".
	Transient []error

	// NotSent are errors of work that provably never left, which makes it safe to
	// repeat; an unclassified one becomes a network error. A client that tries
	// again on its own proves nothing by the error of its last try.
	NotSent []error

	// GRPC says which codes of gRPC mean something else than usual. A code that is in both
	// of its lists is never retried.
	GRPC policy.GRPC

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
		o.Class = policy.ClassSuccess
		return
	}
	if m, ok := err.(*mark); ok { // the walk would come to the same
		m.outcome(r, left, o)
		return
	}
	if reflect.TypeOf(err) == text && textOf(err) == 0 && r.listing(err) == 0 { // it is no more than a text
		inDoubt(policy.ClassUnclassified).fill(o)
		return
	}
	f := facts{left: left}
	f.judge(r, err, o)
}

// listed lets the lists of r change the class that m says. They do not unlearn that
// an error was never sent.
func (r *Rules) listed(in lists, m meaning, o *policy.Outcome) {
	m.fill(o)
	if in == 0 {
		return
	}
	if in&inNotSent != 0 {
		notSent(o)
	}
	switch {
	case in&inIgnored != 0:
		o.Class = policy.ClassIgnored
	case in&inPermanent != 0:
		o.Class = permanent(o.Class)
	case in&inBusiness != 0:
		o.Class, o.Effect = policy.ClassBusiness, policy.NoEffect
	case in&inTransient != 0:
		o.Class = transient(o.Class)
	}
}

// lists are those of [Rules] that name an error.
type lists uint8

const (
	inIgnored lists = 1 << iota
	inPermanent
	inBusiness
	inTransient
	inNotSent
)

// listing says in which lists err is, without looking into it.
func (r *Rules) listing(err error) (in lists) {
	if len(r.Ignored)+len(r.Permanent)+len(r.Business)+len(r.Transient)+len(r.NotSent) == 0 {
		return 0
	}
	for i, list := range [...][]error{r.Ignored, r.Permanent, r.Business, r.Transient, r.NotSent} {
		if isAny(err, list) {
			in |= 1 << i
		}
	}
	return in
}

// isAny is errors.Is for one error of a chain.
func isAny(err error, list []error) bool {
	x, asks := err.(interface{ Is(error) bool })
	for _, target := range list {
		switch {
		case target == nil:
		case reflect.TypeOf(target).Comparable() && err == target, asks && x.Is(target):
			return true
		}
	}
	return false
}

// known asks everybody who knows a kind of error, and then whether the work was
// ever sent, which is a question of its own.
func (r *Rules) known(f *facts) meaning {
	var m meaning
	ok := false
	if f.seen != 0 {
		m, ok = f.standard(r)
	}
	switch {
	case !ok && f.spoke:
		m = f.driver
	case !ok:
		m = inDoubt(policy.ClassUnclassified)
	}
	if f.seen != 0 && !m.neverSent && f.neverSent() {
		return neverLeft(m.class).named(m.code)
	}
	return m
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
	return policy.ClassServer
}

// permanent is c made not worth a retry. It keeps a valid "no".
func permanent(c policy.Class) policy.Class {
	if c == policy.ClassBusiness {
		return c
	}
	return policy.ClassClient
}

// A meaning is the part of an outcome that an error's kind can say.
type meaning struct {
	class     policy.Class
	effect    policy.Effect
	neverSent bool
	undone    bool
	busy      bool
	code      string // what the dependency calls it, if it has a word
}

func (m meaning) fill(o *policy.Outcome) {
	o.Class, o.Effect, o.NeverSent, o.Undone, o.Busy, o.Code = m.class, m.effect, m.neverSent, m.undone, m.busy, m.code
}

// named is m with the dependency's own word for it.
func (m meaning) named(code string) meaning {
	m.code = code
	return m
}

// inDoubt is said of work that may have had an effect.
func inDoubt(c policy.Class) meaning { return meaning{class: c, effect: policy.UnknownEffect} }

// neverLeft is said of work that provably never left.
func neverLeft(c policy.Class) meaning { return meaning{class: c, neverSent: true} }

// noRoom is said of work that the other side had no room for, so that it never left.
func noRoom() meaning { return meaning{class: policy.ClassServer, neverSent: true, busy: true} }

// refusedBy is said of work whose last request the other side refused.
func refusedBy(c policy.Class) meaning { return meaning{class: c} }

// takenBack is said of work of which the other side provably did nothing: it refused
// before it began, or undid all of it.
func takenBack(c policy.Class) meaning { return meaning{class: c, undone: true} }
