package consumer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/internal/adapter"
	"github.com/gabion-go/gabion/messages/deadletter"
	"github.com/gabion-go/gabion/messages/inbox"
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

// A Guarantee says what a failure of the work means: see [idempotency.Guarantee]. There is no
// default, since each is wrong for some work.
type Guarantee uint8

const (
	// Hold is for work that must not run twice. Work that fails is a dead letter with the reason
	// outcome_unknown at once, whatever the policy's attempts, unless it called idempotency.NoEffect.
	Hold Guarantee = iota + 1

	// Reexecute is for work that may run twice. What failed comes again.
	Reexecute

	// Tx is for work whose effects are in the SQL database of the store, and happen once. What
	// failed was rolled back and comes again.
	Tx
)

// guarantees are those of package idempotency.
var guarantees = map[Guarantee]idempotency.Guarantee{Hold: idempotency.GuaranteeHold, Reexecute: idempotency.GuaranteeReexecute, Tx: idempotency.GuaranteeTx}

// Options is how a [Consumer] works. All but Guarantee may be zero; then no dead letters are kept.
type Options struct {
	// Guarantee says what a failure of the work means. It must be said, here or as the Guarantee
	// of Inbox, whose zero value counts as not said.
	Guarantee Guarantee

	// GiveUpAfter is how long a message is tried at least before it is a dead letter since its work
	// failed too often. Once its runs are used up it is tried on, at most a sixteenth of that
	// time apart. So an outage makes no letters of the messages of a small queue, whose
	// breaker sees too few calls to pause it. What panics, does not return, or takes its process with it is
	// given up by its runs alone. Zero means 15 min; negative means that the runs alone decide.
	GiveUpAfter time.Duration

	// Inbox is how work is deduplicated. Its Retry does not count, nor does its GiveUpAfter, since the dependency's policy decides. Its
	// Stream gets what the dependency's observers get: one event of policy.KindMessageDisposed for
	// each message.
	Inbox inbox.Options

	// Group names the consumers that share the work, in the inbox and at dead letters.
	// Zero means the dependency's name.
	Group string

	// Grace is how long work may go on after its context has ended, as by the attempt's timeout.
	// Work that is not back then is left: its run has failed, whatever it still does, and the
	// message goes on. Zero means 5 s.
	Grace time.Duration

	// Lend is how many messages that were left lend their slots of the bulkhead to others.
	// The next keep theirs until their work returns. So what the bulkhead protects
	// sees no more than its limit and Lend together. Zero means as many as there are slots, and at least
	// 16; negative means none.
	Lend int

	// Letters keeps dead letters. Nil means that the adapter has to put them somewhere: the
	// broker forgets a message that is terminated.
	Letters Letters

	// LetterTimeout bounds each use of Letters. Zero means 5 s.
	LetterTimeout time.Duration

	// Logger gets the failures of Letters. Nil means slog.Default.
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
	left    leaving   // runs that go on after their time

	uncounted atomic.Int64 // since made: until when Letters are not counted; zero if they answer
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
	c.options.Group = cmp.Or(o.Group, d.Name())
	c.options.LetterTimeout = cmp.Or(o.LetterTimeout, 5*time.Second)
	c.options.Grace = cmp.Or(o.Grace, 5*time.Second)
	var wrong error
	if o.LetterTimeout < 0 {
		wrong = fmt.Errorf("letter timeout: %v is negative", o.LetterTimeout)
	}
	if o.Grace < 0 {
		wrong = errors.Join(wrong, fmt.Errorf("grace: %v is negative", o.Grace))
	}
	var unsaid error
	if o.Inbox.Guarantee, unsaid = o.guarantee(); unsaid != nil {
		wrong = errors.Join(wrong, unsaid)
	}
	c.options.Inbox.Guarantee = o.Inbox.Guarantee
	o.Inbox.GiveUpAfter = cmp.Or(o.GiveUpAfter, 15*time.Minute)
	o.Inbox.Stream, o.Inbox.Retry = nil, c.seen.PolicyInForce().Retry // told by the Consumer; decided by Judge
	in, err := inbox.New(c.options.Group, store, o.Inbox)
	if c.inbox = in; errors.Join(wrong, err) != nil {
		return nil, fmt.Errorf("consumer: %s: %w", d.Name(), errors.Join(wrong, err))
	}
	return c, nil
}

// guarantee returns what Guarantee and that of Inbox say together.
func (o *Options) guarantee() (idempotency.Guarantee, error) {
	g, said := guarantees[o.Guarantee]
	switch {
	case o.Guarantee == 0 && o.Inbox.Guarantee == 0:
		return 0, errors.New("guarantee: it is missing: say Tx (the work's effects are in the store's SQL database), Reexecute (the work may run twice) or Hold (it must not: what fails is a dead letter at once)")
	case o.Guarantee == 0:
		return o.Inbox.Guarantee, nil
	case !said:
		return 0, fmt.Errorf("guarantee: there is no %d", o.Guarantee)
	case o.Inbox.Guarantee != 0 && o.Inbox.Guarantee != g:
		return 0, fmt.Errorf("guarantee: it is %v, and %v in Inbox", g, o.Inbox.Guarantee)
	}
	return g, nil
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
// bulkhead, as it is now where it is learned, and without one the given number; less those
// that work holds which was left.
func (c *Consumer) Slots(otherwise int) int {
	if n := c.seen.Slots(); n > 0 {
		otherwise = n
	}
	return max(otherwise-int(c.left.held.Load()), 0)
}

// Room says how many messages are worth fetching while that many are being worked on, and if zero, when
// to ask again. It is zero while the breaker refuses and while the dependency asked for time, and one
// while it is not known whether it works again. So a subscription pauses, and what cannot be worked on
// stays where it is. An adapter asks before it fetches. Without a bulkhead as many are worth fetching
// as the adapter likes.
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

// longestPause is how long an adapter waits at most before it asks again: an operator may have moved
// the breaker by hand.
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
