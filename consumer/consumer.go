package consumer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/deadletter"
	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/idempotency/inbox"
	"github.com/gabion-go/gabion/internal/adapter"
	"github.com/gabion-go/gabion/policy"
)

// Letters is what a Consumer needs of a [deadletter.Store]. One that has the Store's Count, too, is
// asked about deliveries that came before: where the letter waits already, the work does not run.
type Letters interface {
	// Fail writes down one failure of a message that may become a letter.
	Fail(ctx context.Context, id deadletter.ID, f deadletter.Failure) error
	// Forget takes back what Fail wrote, once the work is done.
	Forget(ctx context.Context, id deadletter.ID) error
	// Put puts a letter away. It may be called again for the same letter.
	Put(ctx context.Context, l deadletter.Letter) error
}

// Options is how a [Consumer] works. The zero value is sound, but keeps no dead letters.
type Options struct {
	// Inbox is how work is deduplicated. Its zero value has idempotency.GuaranteeHold, under which
	// work that fails is a dead letter at once, whatever the policy's attempts: nobody knows whether
	// it had its effect. Its Retry does not count, since the dependency's policy decides. Its
	// Stream gets what the dependency's observers get: one event of policy.KindMessageDisposed for
	// each message.
	Inbox inbox.Options

	// Group names the consumers that share the work, in the inbox and at dead letters.
	// Zero means the dependency's name.
	Group string

	// Letters keeps dead letters. Nil means that the adapter has to put them somewhere: what
	// a broker is told to forget is gone.
	Letters Letters

	// LetterTimeout bounds each use of Letters. Zero means 5 s.
	LetterTimeout time.Duration

	// Logger is told when Letters fails. Nil means slog.Default.
	Logger *slog.Logger
}

// A Consumer handles the messages of one consumer group. Make one with [New]. Safe for
// concurrent use.
type Consumer struct {
	d       *gabion.Dependency
	seen    adapter.Dependency
	inbox   *inbox.Inbox
	store   idempotency.Store
	options Options
	made    time.Time // the origin of the events' instants
	stream  stream
	spares  sync.Pool // of *handling
}

// stream is the Stream of the inbox's options.
type stream interface {
	Observe(context.Context, policy.Event)
}

// New returns a Consumer that works under the dependency's policy, and remembers in the
// store what was done. It returns everything that is wrong with its arguments.
func New(d *gabion.Dependency, store idempotency.Store, o Options) (*Consumer, error) {
	if d == nil {
		return nil, errors.New("consumer: the dependency is nil")
	}
	c := &Consumer{d: d, seen: adapter.Of(d), store: store, options: o, made: time.Now(), stream: o.Inbox.Stream}
	c.options.Group = or(o.Group, d.Name())
	c.options.LetterTimeout = or(o.LetterTimeout, 5*time.Second)
	var wrong error
	if o.LetterTimeout < 0 {
		wrong = fmt.Errorf("letter timeout: %v is negative", o.LetterTimeout)
	}
	o.Inbox.Stream, o.Inbox.Retry = nil, c.seen.PolicyInForce().Retry // told by the Consumer; decided by Judge
	in, err := inbox.New(c.options.Group, store, o.Inbox)
	if c.inbox = in; errors.Join(wrong, err) != nil {
		return nil, fmt.Errorf("consumer: %s: %w", d.Name(), errors.Join(wrong, err))
	}
	return c, nil
}

func or[T comparable](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
}

func (c *Consumer) logger() *slog.Logger {
	if c.options.Logger != nil {
		return c.options.Logger
	}
	return slog.Default()
}

// Dependency returns the dependency under whose policy messages are handled.
func (c *Consumer) Dependency() *gabion.Dependency { return c.d }

// Group returns the name of the consumers that share the work.
func (c *Consumer) Group() string { return c.options.Group }

// KeepsLetters reports whether Handle puts dead letters away. If not, the adapter has to.
func (c *Consumer) KeepsLetters() bool { return c.options.Letters != nil }

// Slots returns how many messages may be worked on at once: the limit of the policy's
// bulkhead, as it is now where it is learned, and without one the given number.
func (c *Consumer) Slots(otherwise int) int {
	if n := c.seen.Slots(); n > 0 {
		return n
	}
	return otherwise
}

// Room says how many messages are worth fetching while that many are being worked on, and
// if that is none, when to ask again. It is none while the breaker refuses and while the
// dependency asked for time, and one while it is not known whether it works again. So
// a subscription pauses, and what cannot be worked on stays where it is. An adapter asks
// before it fetches. Without a bulkhead as many are worth fetching as the adapter likes.
func (c *Consumer) Room(working int) (messages int, again time.Duration) {
	calls, after := c.seen.Room()
	if calls == 0 {
		return 0, after
	}
	slots := c.Slots(calls)
	if n := min(slots, calls) - working; n > 0 {
		return n, 0
	}
	return 0, whileBusy
}

// whileBusy is how long an adapter waits before it asks again when all slots are taken and
// it is not told when one comes free.
const whileBusy = 20 * time.Millisecond

// longestPause is how long an adapter waits at most before it asks again: somebody may have
// moved the breaker by hand.
const longestPause = time.Second

// Await returns when at least one message is worth fetching, or with the context's error.
// For adapters that get one message at a time; working is as at [Consumer.Room].
func (c *Consumer) Await(ctx context.Context, working int) error {
	for {
		n, again := c.Room(working)
		if n > 0 {
			return ctx.Err()
		}
		timer := time.NewTimer(min(again, longestPause))
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-timer.C:
		}
	}
}
