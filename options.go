package gabion

import (
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/gabion-go/gabion/internal/machine"
	"github.com/gabion-go/gabion/internal/quota"
	"github.com/gabion-go/gabion/policy"
)

// CallOption adjusts one call. Options are plain values and may be kept.
type CallOption struct {
	set     callField
	text    string
	num     int64
	judge   classifier
	discard func(any)
}

type callField uint8

const (
	setKey callField = iota + 1
	setKeyMadeAt
	setKeyRetention
	setIdempotent
	setNoRetry
	setNoHedge
	setNoSlot
	setNoQueue
	setInside
	setRepeat
	setStrict
	setTimeout
	setPriority
	setOperation
	setTenant
	setPartition
	setJudge
	setDiscard
	setCost
)

// WithKey gives the call an idempotency key. The key is the same on every
// attempt, the work finds it with [Key], and it declares that the work is safe to
// repeat: the dependency must honour it, and where the policy hedges, also for two
// attempts at once. An attempt that did not read it is not repeated because of it, since a
// key that goes nowhere makes nothing safe: it ends the call as [policy.NotSafe] if it may
// have had an effect, and is not hedged. Work that gets its key by another way says
// [WithIdempotent]. The key is used as it is. One that is empty, or is not 1 to 255
// visible ASCII characters, bare or as one quoted string, ends the call before
// anything is sent, with [KeyMalformed]: leave the option out where there is no key.
func WithKey(key string) CallOption { return CallOption{set: setKey, text: key} }

// WithKeyRetention says for how long the dependency remembers a key. An operation
// whose key is older than nine tenths of that is not sent: it might be carried out
// again. Such a call ends with [policy.OutcomeUnknown], [KeyExpired] in it, and one that gets
// there under way ends then. Zero means that nothing is known and every key is sent;
// less than a second can't be meant, and ends the call before anything is sent. It needs to know the key's age: see [WithKeyMadeAt].
func WithKeyRetention(d time.Duration) CallOption {
	return CallOption{set: setKeyRetention, num: int64(d)}
}

// WithKeyMadeAt says when the key was made, or first sent, for [WithKeyRetention].
// Keys of [NewKey] and other UUIDs of version 7 carry that time; this is for others,
// and for UUIDs that are older than their use as a key. A zero time says nothing.
func WithKeyMadeAt(t time.Time) CallOption {
	if t.IsZero() {
		return CallOption{set: setKeyMadeAt}
	}
	return CallOption{set: setKeyMadeAt, num: t.UnixMilli()}
}

// WithIdempotent declares that this call's work may be repeated without a key.
func WithIdempotent() CallOption { return CallOption{set: setIdempotent} }

// WithoutRetry makes one attempt, whatever the policy allows.
func WithoutRetry() CallOption { return CallOption{set: setNoRetry} }

// WithoutHedge never hedges this call.
func WithoutHedge() CallOption { return CallOption{set: setNoHedge} }

// WithTimeout replaces the policy's call timeout for this call. The caller's own
// deadline still counts. Zero means the policy's; less than 1 µs can't be meant, and
// ends the call before anything is sent.
func WithTimeout(d time.Duration) CallOption { return CallOption{set: setTimeout, num: int64(d)} }

// WithPriority places the call in the bulkhead's queue. Zero is policy.PriorityNormal.
func WithPriority(p policy.Priority) CallOption { return CallOption{set: setPriority, num: int64(p)} }

// WithOperation names what the call does, for events: a route template or a
// method, never a URL, since names become labels. One longer than 128 bytes is cut
// and ends in a hash of the whole; so are partitions.
func WithOperation(name string) CallOption { return CallOption{set: setOperation, text: name} }

// WithTenant says for whom the call is made; a fair bulkhead shares its slots
// among tenants. The empty name is a tenant like any other.
func WithTenant(name string) CallOption { return CallOption{set: setTenant, text: name} }

// WithPartition says which part of the dependency is called, such as a host or an
// endpoint. Each partition has its own breaker and latency; budget, bulkhead and
// throttle belong to the dependency. The empty name is that of calls without one.
func WithPartition(name string) CallOption { return CallOption{set: setPartition, text: name} }

// DiscardWith makes f get this call's results that no caller will see, in place of the
// dependency's; see [WithDiscard].
func DiscardWith(f func(result any)) CallOption { return CallOption{set: setDiscard, discard: f} }

// callOptions is what the options of one call come to.
type callOptions struct {
	machine.Params
	key, operation string
	noKey          bool  // WithKey was given an empty one
	madeAt         int64 // of the key, in milliseconds since 1970; 0 = what the key says
	retention      time.Duration
	judge          classifier
	discard        func(any)
}

func (c *callOptions) collect(opts []CallOption) {
	for i := range opts {
		c.apply(&opts[i])
	}
}

// problem says which option can't be meant: a key that is not there, and times that are
// over before the call, or so short that they were written without their unit.
func (c *callOptions) problem() error {
	switch {
	case c.noKey:
		return errEmptyKey
	case c.Timeout < 0:
		return fmt.Errorf("WithTimeout(%v): the time is over before the call; zero is the policy's", c.Timeout)
	case c.Timeout > 0 && c.Timeout < time.Microsecond:
		return fmt.Errorf("WithTimeout(%v): did you mean %d * time.Second?", c.Timeout, int64(c.Timeout))
	case c.Cost != nil && c.Cost.Wrong() != nil:
		return c.Cost.Wrong()
	case c.retention < 0:
		return fmt.Errorf("WithKeyRetention(%v): zero means that nothing is known", c.retention)
	case c.retention > 0 && c.retention < time.Second:
		return fmt.Errorf("WithKeyRetention(%v): did you mean %d * time.Hour?", c.retention, int64(c.retention))
	}
	return nil
}

var errEmptyKey = fmt.Errorf("the key given to WithKey is empty: leave the option out to send no key: %w", KeyMalformed)

func (c *callOptions) apply(o *CallOption) {
	switch o.set {
	case setKey:
		c.key, c.noKey = o.text, o.text == ""
	case setKeyMadeAt:
		c.madeAt = o.num
	case setKeyRetention:
		c.retention = time.Duration(o.num)
	case setIdempotent:
		c.Safe = true
	case setNoRetry:
		c.NoRetry = true
	case setNoHedge:
		c.NoHedge = true
	case setNoSlot:
		c.NoSlot = true
	case setNoQueue:
		c.NoQueue = true
	case setInside:
		c.Inside = true
	case setRepeat:
		c.Repeat = true
	case setStrict:
		c.Strict = true
	case setTimeout:
		c.Timeout = time.Duration(o.num)
	case setPriority:
		c.Priority = policy.Priority(o.num)
	case setOperation:
		c.operation = machine.BoundedName(o.text)
	case setTenant:
		c.Tenant = o.text
	case setPartition:
		c.Partition = o.text
	case setJudge:
		c.judge = o.judge
	case setDiscard:
		c.discard = o.discard
	case setCost:
		c.Cost = &quota.Cost{Unit: o.text, Amount: math.Float64frombits(uint64(o.num)), Next: c.Cost}
	}
}

// Option sets what a dependency has besides its policy: code, and where its
// randomness comes from.
type Option func(*Dependency)

// WithObserver sends every event about the dependency and its calls to o. Several
// WithObserver add up. [Dependency.Observe] does the same while the program runs.
func WithObserver(o Observer) Option {
	return func(d *Dependency) { d.attach(newSubscription(o)) }
}

// WithDiscard makes f get every result that no caller will see: of attempts that were retried, and
// of hedges that lost. It should close what the result holds. It runs under no lock, on the
// goroutine of the attempt or of the caller.
func WithDiscard(f func(result any)) Option { return func(d *Dependency) { d.discard = f } }

// WithSeed names the stream of the dependency's random draws, which otherwise is
// drawn at random. With the same seed and the same order of calls, the same
// jitter is drawn.
func WithSeed(seed uint64) Option { return func(d *Dependency) { d.seed = seed } }

// WithLogger is where a dependency reports that an observer of its panicked, or work in an
// attempt that another one had beaten. Zero means slog.Default.
func WithLogger(l *slog.Logger) Option { return func(d *Dependency) { d.logger = l } }
