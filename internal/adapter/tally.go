package adapter

import (
	"context"
	"time"

	"github.com/gabion-go/gabion/policy"
)

// PlainSuccess is a call that made one attempt, at once, which succeeded. It says what the call's
// events would say.
type PlainSuccess struct {
	Dependency string
	Operation  string        // empty if the call named none
	Took       time.Duration // the attempt, and so the call
	Left       time.Duration // until the call's deadline when the attempt was sent; policy.NoDeadline if it has none
	Slow       bool          // it took longer than the slow limit
	Shard      uint32        // any number: calls that end at once mostly have different ones, so that what counts them can be divided
}

// Tallier is an observer that counts plain successes without their events, which cost a call
// more than all else that observes it. All else comes as events.
//
// A dependency tallies where each of its observers is a Tallier and none of them wants
// policy.KindAttemptSent. Where one is not, all of them get the events of all calls, and no Tally: so a
// Tallier must count both alike. Of one call it never gets both.
type Tallier interface {
	// Observe is that of a gabion.Observer.
	Observe(context.Context, policy.Event)

	// Wants is that of a gabion.Selective.
	Wants(policy.Kind) bool

	// Tally takes in a plain success, once the call is over. It comes outside every lock, with the
	// caller's context, and should be quick: the call waits for it. It may come on any number of
	// goroutines at once. A panic is treated like one of Observe.
	Tally(context.Context, PlainSuccess)
}
