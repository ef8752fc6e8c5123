package gabion

import (
	"context"
	"fmt"
	"hash/fnv"
	"slices"

	"github.com/gabion-go/gabion/internal/chance"
	"github.com/gabion-go/gabion/policy"
)

// Fallback is what answers in place of a dependency. Prefer failing: a fallback is
// a second system that runs only when the first is down, so it is the least tested
// code of all, it hides the outage from those who could mend it, and it often calls
// something that the same outage took along. If it must be, name the reasons that
// it is for, and set Share so that it is exercised on good days too.
type Fallback[T any] struct {
	// On names the reasons that the fallback answers; [Unavailable] returns all those
	// of a dependency that could not be had. An outage ends calls for many reasons: most
	// are refused by the breaker or end without a retry, and few with AttemptsExhausted.
	// A call without any is refused as Invalid. The fallback never answers when the
	// effect is unknown, since what it would do may have been done.
	On []Reason

	// Answer makes the result; it must not be nil. It gets the error that it answers, which is nil
	// when it is being exercised. If the call has an idempotency key, [Key] returns another one
	// here, derived from it: another system's answer is a thing of its own, and a call that is run
	// again finds it by the same key.
	Answer func(context.Context, error) (T, error)

	// Share is the part of calls that the fallback answers although nothing is
	// wrong, so that it is known to work. Zero means none. Of calls with a key it
	// always takes the same, so that one that is run again goes where it went.
	Share policy.Ratio
}

// Unavailable returns the reasons of calls that ended because the dependency could not
// be had: see [policy.Reason.Unavailable]. The caller may append others.
func Unavailable() (reasons []Reason) {
	for _, r := range policy.Reasons() {
		if r.Unavailable() {
			reasons = append(reasons, r)
		}
	}
	return reasons
}

// DoOr is [Do] with a fallback around it. Each use of the fallback is an event and
// counts in [Stats].
//
// The effect that keeps a fallback from answering is that of this call. An operation
// that an earlier run may have sent ([KeyFor] says so) belongs into Do.
func DoOr[T any](ctx context.Context, d *Dependency, work func(context.Context) (T, error), f Fallback[T], opts ...CallOption) (T, error) {
	var zero T
	if work == nil || mistaken(ctx, d) || ctx.Err() != nil {
		return zero, inadmissible(ctx, d, work == nil)
	}
	if err := f.problem(); err != nil {
		return zero, &Error{Dependency: d.name, Reason: policy.Invalid, Err: err}
	}
	o, err := optionsOf(ctx, d, opts)
	if err != nil {
		return zero, err
	}
	if f.Share > 0 && d.exercise(float64(f.Share), o.key) {
		d.fellBack(ctx, &o, policy.None)
		return f.Answer(forFallback(ctx, o.key), nil)
	}
	v, had, err := call(ctx, d, opts, work)
	if err == nil {
		return v, nil
	}
	why := ReasonOf(err)
	if EffectOf(err) == policy.UnknownEffect || !slices.Contains(f.On, why) {
		return v, err
	}
	if had && o.discard != nil { // the fallback's answer takes its place
		o.discard(v)
	}
	d.fellBack(ctx, &o, why)
	return f.Answer(forFallback(ctx, o.key), err)
}

// problem says why the fallback can't be meant.
func (f *Fallback[T]) problem() error {
	switch {
	case f.Answer == nil:
		return errNoAnswer
	case !(f.Share >= 0 && f.Share <= 1):
		return fmt.Errorf("the fallback's share of %v is not between 0 and 1", float64(f.Share))
	case len(f.On) == 0:
		return errNoReasons
	}
	return nil
}

// exercise draws whether this call goes to the fallback to keep it in use. The draw
// of a call with a key is the key's own, in every process.
func (d *Dependency) exercise(share float64, key string) bool {
	if key != "" {
		h := fnv.New64a()
		h.Write([]byte(key))
		return chance.U(0, h.Sum64(), 0, chance.Exercise) < share
	}
	return chance.U(d.seed, d.exercised.Add(1), 0, chance.Exercise) < share
}

// optionsOf are those of the call. Its key is the one that the caller gave it, or that of
// the call around it. A key that can't be one is an error.
func optionsOf(ctx context.Context, d *Dependency, opts []CallOption) (c callOptions, err error) {
	c.discard = d.discard
	c.collect(opts)
	switch problem := c.problem(); {
	case problem != nil:
		return c, d.turnAway(ctx, &c, &Error{Dependency: d.name, Reason: policy.Invalid, Err: problem})
	case c.key == "":
		if k := keyOf(ctx); k != nil {
			c.key = k.key
		}
		return c, nil
	}
	if err := c.checkKey(d); err != nil {
		return c, d.turnAway(ctx, &c, err)
	}
	return c, nil
}

func (d *Dependency) fellBack(ctx context.Context, o *callOptions, why Reason) {
	d.fallbacks.Add(1)
	if d.observed() {
		d.publish(ctx, &Event{Kind: policy.KindFellBack, At: d.now(), Reason: why, Operation: o.operation})
	}
}
