package consumer

import (
	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/internal/machine"
	"github.com/gabion-go/gabion/policy"
)

// refusal reports whether a run failed since a dependency that the work called was not
// called after all, as its policy refused: its breaker is open, or it had no room. The
// message can do nothing for that. Where the error holds several, no other may say that
// something was tried and failed.
func (c *Consumer) refusal(err error) bool {
	refused, tried := c.refusals(err, maxErrors)
	return refused && !tried
}

// maxErrors is how many errors are looked at, one inside the other.
const maxErrors = 32

func (c *Consumer) refusals(err error, left int) (refused, tried bool) {
	for ; err != nil && left > 0; left-- {
		if e, ok := err.(*gabion.Error); ok {
			return refuses(e), !refuses(e) && e.Reason != policy.Canceled
		}
		switch x := err.(type) { //nolint:errorlint // what it wraps is looked at in turn
		case interface{ Outcome() policy.Outcome }: // the work itself says what it means
			return false, c.tried(err)
		case interface{ Unwrap() error }:
			err = x.Unwrap()
		case interface{ Unwrap() []error }:
			for _, branch := range x.Unwrap() {
				r, t := c.refusals(branch, left-1)
				refused, tried = refused || r, tried || t
			}
			return refused, tried
		default:
			return false, c.tried(err)
		}
	}
	return false, err != nil
}

// tried reports whether an error that is not gabion's says that something failed. An unclassified one
// is mostly a name for the others.
func (c *Consumer) tried(err error) bool {
	switch c.means(err).Class {
	case policy.ClassUnclassified, policy.ClassIgnored, policy.ClassSuccess:
		return false
	}
	return true
}

func refuses(e *gabion.Error) bool {
	return e.Attempts == 0 && e.Effect == policy.NoEffect && machine.Refused(e.Reason)
}
