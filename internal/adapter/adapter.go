// Package adapter is what the adapters of this module may ask of package gabion, and
// users may not.
package adapter

import (
	"context"
	"time"

	"github.com/gabion-go/gabion/internal/breaker"
	"github.com/gabion-go/gabion/internal/machine"
	"github.com/gabion-go/gabion/policy"
)

// EnderKey finds the Ender in the context of an attempt.
type EnderKey struct{}

// Ender ends its attempt, whose context is then canceled. It may be called from any goroutine, and
// more than once.
type Ender interface{ End() }

// Dependency is a *gabion.Dependency as adapters see it.
type Dependency interface {
	// PolicyInForce returns the policy with every default written out. It is shared
	// and must not be changed.
	PolicyInForce() *policy.Policy

	// Classifier returns the function that WithClassify was given, nil if none. An
	// adapter whose calls bring a classifier of their own asks it first.
	Classifier() any

	// Resent says that something below the policy sent an attempt n more times, as
	// net/http does on reused connections. The re-sends are charged to the retry
	// budget as far as it has any left, and reported.
	Resent(ctx context.Context, n int)

	// Inside reports whether ctx belongs to an attempt of this dependency that has not ended,
	// so that what is done with it was admitted already.
	Inside(ctx context.Context) bool

	// Means reads an error as the dependency's classifier does for calls without a result.
	Means(err error) policy.Outcome

	// Room says how many calls the breaker and the dependency's own wishes let begin now. If it
	// returns zero calls, after is when to ask again.
	Room() (calls int, after time.Duration)

	// Slots returns the limit of the bulkhead, the learned one where it learns. Zero means no
	// limit.
	Slots() int

	// Redelivery decides what becomes of a message whose work failed: with policy.None
	// it is delivered again after the wait. The seed names the message.
	Redelivery(o *policy.Outcome, runs int, seed uint64) (wait time.Duration, why policy.Reason)

	// PutOff is the wait of a message that came that often, whatever was the reason that
	// nothing came of it.
	PutOff(times int, seed uint64) time.Duration

	// PutOffRefused is the wait of a message that was not admitted, or could not begin.
	PutOffRefused(seed uint64) time.Duration

	// NewAddress makes what is known of one of several addresses behind the dependency, among
	// which something below the policy chooses for each attempt.
	NewAddress(name string) Address

	// Spent counts what an answer used, and what that costs at the policy's prices. It returns all
	// that it counted.
	Spent(used []policy.Spend) []policy.Spend

	// Observed reports whether anybody observes the dependency.
	Observed() bool

	// Lease puts in force what this process may use of limits that it shares with others. Nil ends that: then the
	// policy's own limits hold.
	Lease(*Lease)

	// Wants returns what calls wanted of limits that can be shared.
	Wants() machine.Wants

	// Doubt says that other processes find that partition broken, until then.
	Doubt(partition string, until time.Time)

	// Memory returns what the dependency has learned by itself.
	Memory() machine.Memory

	// Remember gives a dependency that has counted nothing what others have learned, until then.
	Remember(m *machine.Memory, until time.Time)

	// Tell tells those who observe the dependency. It sets the event's time and the
	// dependency's name.
	Tell(ctx context.Context, e policy.Event)
}

// Lease is a [machine.Lease] with a time of the process's clock.
type Lease struct {
	Until       time.Time
	Share, Lost machine.Share
}

// Address is one of several addresses behind a dependency. It is safe for concurrent use.
type Address interface {
	// Shut reports whether an attempt would not be let in now. It takes nothing.
	Shut() bool

	// Enter asks to send an attempt there. Leave must be called once if that was granted.
	Enter() (Visit, bool)

	// Leave says what the attempt brought.
	Leave(Visit, policy.Class)
}

// Visit is an attempt at an address.
type Visit struct {
	Permit breaker.Permit
	Began  time.Duration // since the dependency was made
}

// These are of type gabion.CallOption.
var (
	// NoSlot is for what is bounded elsewhere: the call takes no slot of the bulkhead.
	NoSlot any

	// NoQueue is for what has a connection of a pool that is no larger than the bulkhead: the
	// call takes a slot only if one is free.
	NoQueue any

	// Inside is for what is part of work that was admitted, such as a statement of a
	// transaction: nothing refuses or delays the call, it takes no slot, and what it shows of
	// the dependency counts.
	Inside any

	// NoEndpoint is for work that goes to none of the policy's endpoints.
	NoEndpoint any

	// Repeat is for work that was tried before in a call of its own, such as a message that
	// is delivered again: the retry budget pays for the call's first attempt.
	Repeat any

	// Strict is for work of which other calls bring more attempts, such as the deliveries of a
	// message: the attempt keeps its timeout, also while attempts are cut off in series.
	Strict any
)

// HoldSlot makes the result of a *gabion.Attempt hold its slot until it is closed, however
// long that takes: timeout.body and timeout.idle do not end it.
var HoldSlot func(gabionAttempt any)

// Spare gives back the memory of a *gabion.Attempt that Begin returned and that was closed.
// The attempt must not be used afterwards. Its context may live on.
var Spare func(gabionAttempt any)

// Unspent says of a *gabion.Attempt that was begun with Repeat that its work had no need to
// run. What it has cost of the retry budget is given back. It must be neither settled nor closed.
var Unspent func(gabionAttempt any)

// IsAnswer reports whether the result of a call is an answer that tells by itself how it went,
// as an *http.Response does. Package gabionhttp sets it; nil means that it is not linked.
var IsAnswer func(result any) bool

// IsPart reports whether a *gabion.Attempt is part of another attempt of the same dependency,
// which has the verdict on the whole.
var IsPart func(gabionAttempt any) bool

// Sends says that what is done with ctx sends that idempotency key, which may have come to it
// in another way than by gabion.Key.
var Sends func(ctx context.Context, key string)

// Join notes that a *gabion.Registry is a member of a fleet, and reports false if it is one already. Leave ends
// that.
var (
	Join  func(gabionRegistry any) (ok bool)
	Leave func(gabionRegistry any)
)

// Of returns a *gabion.Dependency as adapters see it. Package gabion sets it before
// anything else runs.
var Of func(gabionDependency any) Dependency
