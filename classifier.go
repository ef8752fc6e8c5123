package gabion

import (
	"fmt"
	"reflect"

	"github.com/gabion-go/gabion/classify"
	"github.com/gabion-go/gabion/internal/outcome"
	"github.com/gabion-go/gabion/policy"
)

// WithClassify reads results with by. It is an option of a call, and of a dependency for all
// calls that bring no classifier of their own. Without one, package classify reads their errors.
//
// A classifier says what the result of an attempt means. It sees the result too, since
// a 200 may be a failure. It must be quick and safe for concurrent use. T is the
// type of the call's result, or an interface that it implements; any fits all calls,
// and those of [Dependency.Run] and [Dependency.Begin], which have no result, fit any
// alone. A call whose result has another type ends as [policy.Invalid], and nothing is
// sent. A nil classifier counts as absent.
//
// An outcome without a class, such as the zero Outcome, decides nothing: after the call's
// classifier the dependency's is asked then, and in the end package classify reads the
// error; a nil error is a success. What else such an outcome says counts all the same.
func WithClassify[T any](by func(result T, err error) policy.Outcome) CallOption {
	return CallOption{set: setJudge, judge: classifierOf(by)}
}

// classifier is a function that reads results of some type.
type classifier interface {
	given() any
	fits(result reflect.Type) bool
	read(result any, err error) policy.Outcome
	wants() reflect.Type
}

type classifies[T any] func(T, error) policy.Outcome

func classifierOf[T any](by func(T, error) policy.Outcome) classifier {
	if by == nil {
		return nil
	}
	return classifies[T](by)
}

func (c classifies[T]) given() any { return (func(T, error) policy.Outcome)(c) }

func (c classifies[T]) wants() reflect.Type { return reflect.TypeFor[T]() }

func (c classifies[T]) fits(result reflect.Type) bool {
	t := c.wants()
	return result == t || t.Kind() == reflect.Interface && result.Implements(t)
}

// read is for results of another type that fits; no result is T's zero.
func (c classifies[T]) read(result any, err error) policy.Outcome {
	v, _ := result.(T)
	return c(v, err)
}

// suits refuses a call whose results its classifier can't read.
func suits[T any](r *runner) error {
	by := r.o.judge
	if by == nil {
		by = r.d.judge
	}
	if by == nil || reads[T](by) {
		return nil
	}
	has := "those of this call are " + reflect.TypeFor[T]().String()
	if reflect.TypeFor[T]() == reflect.TypeFor[struct{}]() {
		has = "this call has none"
	}
	return r.d.turnAway(r.ctx, &r.o, &Error{Dependency: r.d.name, Reason: policy.Invalid,
		Err: fmt.Errorf("the classifier reads results of type %v, and %s: a classifier of any reads all", by.wants(), has)})
}

func reads[T any](by classifier) bool {
	_, same := by.(classifies[T])
	return same || by.fits(reflect.TypeFor[T]())
}

// judge classifies the result of an attempt: it asks the call's classifier, then the
// dependency's, then package classify, until one decides. It fills o in place: to copy an
// Outcome whose fields were just written one by one is slow.
func judge[T any](by classifier, d *Dependency, v T, err error, o *policy.Outcome) {
	if by == nil {
		byDependency(d, v, err, o)
		return
	}
	ask(by, v, err, o)
	if o.Class == policy.ClassUndecided {
		next[T](d, v, err, o)
	}
}

// next asks the dependency's classifier, if it can read what the call's did not decide.
func next[T any](d *Dependency, v T, err error, o *policy.Outcome) {
	said := *o
	if by := d.judge; by == nil || reads[T](by) {
		byDependency(d, v, err, o)
	} else {
		byDefault(d, err, o)
	}
	outcome.Add(o, &said)
}

func byDependency[T any](d *Dependency, v T, err error, o *policy.Outcome) {
	if d.judge == nil {
		byDefault(d, err, o)
		return
	}
	ask(d.judge, v, err, o)
	decide(d, err, o)
}

func ask[T any](by classifier, v T, err error, o *policy.Outcome) {
	if typed, ok := by.(classifies[T]); ok {
		*o = typed(v, err)
		return
	}
	*o = by.read(v, err)
}

func byDefault(d *Dependency, err error, o *policy.Outcome) {
	if err == nil {
		*o = policy.Outcome{Class: policy.ClassSuccess}
		return
	}
	if codes := &d.state.Rules().Policy.GRPC; len(codes.Transient)+len(codes.Permanent) > 0 {
		*o = classify.Rules{GRPC: *codes}.Error(err)
		return
	}
	*o = classify.Error(err)
}

// decide gives an outcome without a class that of err.
func decide(d *Dependency, err error, o *policy.Outcome) {
	if o.Class == policy.ClassUndecided {
		said := *o
		byDefault(d, err, o)
		outcome.Add(o, &said)
	}
}
