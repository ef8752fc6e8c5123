package classify

import (
	"time"

	"github.com/gabion-go/gabion/policy"
)

// A mark is an error together with what the work knows about it. Its text is the
// marked error's.
type mark struct {
	err   error
	says  saying
	after time.Duration
}

// A saying is what a mark says. It is a number and no function, since a function
// could keep the outcome that it changes, and outcomes would be allocated.
type saying uint8

const (
	isTransient saying = iota
	isPermanent
	isBusiness
	isThrottled
	isNotSent
	isFinal
	isContention
)

func (m *mark) Error() string { return m.err.Error() }

func (m *mark) Unwrap() error { return m.err }

// Outcome makes marks tellers, so that the outermost of all tellers wins.
func (m *mark) Outcome() (o policy.Outcome) {
	m.outcome(&standard, maxErrors, &o)
	return o
}

// outcome changes what is known of the marked error by what the mark says. What
// the mark does not speak of stays: a dial error marked permanent was still
// never sent.
func (m *mark) outcome(r *Rules, left int, o *policy.Outcome) {
	r.decide(m.err, left-1, o)
	switch m.says {
	case isTransient:
		o.Class, o.Once = transient(o.Class), false
	case isPermanent:
		o.Class = permanent(o.Class)
	case isBusiness:
		o.Class, o.Effect = policy.ClassBusiness, policy.NoEffect
	case isThrottled:
		o.Class, o.Effect = policy.ClassThrottled, policy.NoEffect
		o.HasAfter, o.After = m.after > 0, max(m.after, 0)
		o.Undone = true
	case isContention:
		o.Class, o.Effect, o.Undone, o.Once = policy.ClassContention, policy.NoEffect, true, false
	case isNotSent:
		notSent(o)
	case isFinal:
		o.Stop = true
	}
}

func notSent(o *policy.Outcome) {
	o.NeverSent, o.Effect = true, policy.NoEffect
	if o.Class == policy.ClassUnclassified {
		o.Class = policy.ClassNetwork
	}
}

func newMark(err error, says saying) error {
	if err == nil {
		return nil
	}
	return &mark{err: err, says: says}
}

// Transient marks err as worth a retry. Whether it may be retried is still the
// policy's decision: work that is not declared safe is not repeated. The mark
// does not lift a [DoNotRetry] below it, or a layer that gave up would be
// retried by the next one. Like all marks it returns nil for a nil error, keeps
// the error's text, can be looked through by errors.Is and errors.As, and yields
// to marks put around it.
func Transient(err error) error { return newMark(err, isTransient) }

// Permanent marks err as not worth a retry: the request is wrong and stays
// wrong. It is not a failure of the dependency.
func Permanent(err error) error { return newMark(err, isPermanent) }

// Business marks err as a valid "no", such as a declined card: the dependency
// worked, nothing happened, and asking again gives the same answer.
func Business(err error) error { return newMark(err, isBusiness) }

// Throttled marks err as the dependency's request to come back after the given
// time, which holds its other calls back too. Nothing happened, so the work is safe
// to repeat whatever it is. A time that is not positive means that none was named.
func Throttled(err error, after time.Duration) error {
	if err == nil {
		return nil
	}
	return &mark{err: err, says: isThrottled, after: after}
}

// Contention marks err as a conflict with another call that works at the same
// data, such as a transaction that the database rolled back: the dependency works,
// nothing of this work happened, and it may succeed a moment later. It is repeated
// soon, even where nothing declares it safe, and is no failure of the dependency.
func Contention(err error) error { return newMark(err, isContention) }

// NotSent marks err as one of work that provably never left, which makes it safe to repeat whatever it
// is. An error that is not classified otherwise becomes a network error; a permanent one stays
// permanent.
func NotSent(err error) error { return newMark(err, isNotSent) }

// DoNotRetry marks err as not to be retried by anybody, whatever its class: a
// lower layer has tried enough, or the dependency asked for peace.
func DoNotRetry(err error) error { return newMark(err, isFinal) }
