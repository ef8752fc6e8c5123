package inbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/internal/terms"
	"github.com/gabion-go/gabion/messages/message"
	"github.com/gabion-go/gabion/policy"
)

// Options is how an [Inbox] works. The zero value is sound.
type Options struct {
	// RunnerConfig is how the work runs, with three differences. Its Stream gets one event
	// of policy.KindMessageDisposed for each message that was handled. Code is the Verb
	// and the Cause with a slash between, as in "dead_letter/mismatch"; Took is how long that
	// lasted. Retention is how long
	// the id of a message that is done is known: zero means as long as BrokerRetention
	// and DeadLetterRetention together, or 30 days if they are zero too. Under Hold an
	// error of the work is a dead letter, unless it called idempotency.NoEffect: so
	// consumers mostly want Tx, or Reexecute with work that may be repeated.
	idempotency.RunnerConfig

	// BrokerRetention is how long the broker may deliver a message again, and
	// DeadLetterRetention how long it may come back from the dead letters after that.
	// New refuses a Retention that is shorter than both together. Zero means not to
	// check.
	BrokerRetention, DeadLetterRetention time.Duration

	// Retry says how often the work may run and fail before the message is a dead letter,
	// and how long to wait after a failure. Only its Attempts, Backoff and
	// Contention.Backoff count. What is zero is that of the preset message-queue: 11
	// attempts, decorrelated jitter from 1 s to 60 s. The record counts runs, under Tx one
	// beside it, since a rollback leaves nothing in the message's own; what the broker
	// delivered without a run does not count. A run that was lost with its process counts, too; under
	// Tx from the third delivery on, of brokers that count them. A dead letter that is sent again has all attempts, also when its payload was mended. Where a Message has
	// a Judge, that decides.
	Retry policy.Retry

	// GiveUpAfter is how long a message is tried at least before it is a dead letter since its
	// work failed too often: else an outage makes letters of all messages of a small queue. Once its
	// runs are used up it is tried on, a sixteenth of that time apart at most, and such a run does not count. It is not for work
	// that panicked, did not return or took its process with it. Zero and less
	// mean that the runs alone decide.
	GiveUpAfter time.Duration

	// MaxPayload is the longest payload in bytes; a message with a longer one is a dead letter.
	// Zero means 16 MiB.
	MaxPayload int

	// DropExpired acknowledges messages whose deadline has passed before their work could
	// run. Else they are dead letters.
	DropExpired bool

	// Visibility is how long the broker keeps a message from others unless it is
	// extended (ack wait, visibility timeout). It is needed for messages that have an
	// Extend function: these are extended every third of it. Zero means 30 s.
	Visibility time.Duration

	// Secret keys the fingerprints of payloads. All consumers of the group need the
	// same. If it is empty, a reader of the store can test guesses of payloads.
	Secret []byte
}

const defaultRetention = 30 * 24 * time.Hour

// Validate returns everything that is wrong with the options.
func (o Options) Validate() error {
	all := []error{o.RunnerConfig.Validate()}
	for _, d := range []struct {
		name string
		time.Duration
	}{
		{"broker retention", o.BrokerRetention}, {"dead letter retention", o.DeadLetterRetention},
		{"visibility", o.Visibility},
	} {
		if d.Duration < 0 {
			all = append(all, fmt.Errorf("%s: %v is negative", d.name, d.Duration))
		}
	}
	all = append(all, o.counts())
	if r := o.resolved(); r.Retention < o.BrokerRetention+o.DeadLetterRetention {
		all = append(all, fmt.Errorf("retention: after %v a message is forgotten that may come again until %v: %v in the broker and %v in the dead letters",
			r.Retention, o.BrokerRetention+o.DeadLetterRetention, o.BrokerRetention, o.DeadLetterRetention))
	}
	return errors.Join(all...)
}

// Retention is for how long the id of a message is known that is done.
func (in *Inbox) Retention() time.Duration { return in.options.Retention }

// counts returns what is wrong with the numbers.
func (o Options) counts() error {
	var all []error
	if o.Retry.Attempts < 0 {
		all = append(all, fmt.Errorf("retry: attempts: %d is negative: a message that is tried for ever stops others", o.Retry.Attempts))
	}
	if o.MaxPayload < 0 {
		all = append(all, fmt.Errorf("max payload: %d is negative", o.MaxPayload))
	}
	return errors.Join(all...)
}

func (o Options) resolved() Options {
	o.Lease = cmp.Or(o.Lease, 30*time.Second)
	o.MaxExecution = cmp.Or(o.MaxExecution, 5*time.Minute)
	o.Retention = cmp.Or(o.Retention, cmp.Or(o.BrokerRetention+o.DeadLetterRetention, defaultRetention))
	p, _ := policy.Preset("message-queue")
	p.Retry.Attempts = cmp.Or(o.Retry.Attempts, p.Retry.Attempts)
	p.Retry.Backoff = cmp.Or(o.Retry.Backoff, p.Retry.Backoff)
	p.Retry.Contention = o.Retry.Contention
	attempts := p.Retry.Attempts
	p.Retry.Attempts = min(attempts, terms.MaxSends) // as far as a policy goes
	o.Retry = p.Resolved().Retry
	o.Retry.Attempts = attempts
	o.MaxPayload = cmp.Or(o.MaxPayload, 16<<20)
	o.Visibility = cmp.Or(o.Visibility, 30*time.Second)
	return o
}

// counter returns what counts failed runs under Tx.
func (o Options) counter() idempotency.RunnerConfig {
	return idempotency.RunnerConfig{Guarantee: idempotency.GuaranteeReexecute, Lease: o.Lease, Retention: o.Retention, StoreTimeout: o.StoreTimeout, Observer: silent{}}
}

// runs returns what runs the work. The inbox reports what becomes of a message, so the events of
// its key are left out.
func (o Options) runs() idempotency.RunnerConfig {
	o.RunnerConfig.Stream = nil
	return o.RunnerConfig
}

// silent drops events: the other runner reports what concerns the store.
type silent struct{}

// Observe implements idempotency.Observer.
func (silent) Observe(context.Context, idempotency.Event) {}

// An Inbox handles the messages of one consumer group. Make one with [New]. Safe
// for concurrent use.
type Inbox struct {
	scope    string
	options  Options
	runner   *idempotency.Runner
	failures *idempotency.Runner // under Tx: counts the runs that were rolled back
	made     time.Time           // the origin of the events' instants
	spares   sync.Pool           // of *handling
}

// New returns an Inbox. The group names the consumers that share the work: each
// group handles each message once. It returns everything that is wrong with its
// arguments.
func New(group string, store idempotency.Store, o Options) (*Inbox, error) {
	err := o.Validate()
	if group == "" {
		err = errors.Join(err, errors.New("the group is missing: say which consumers share the messages"))
	}
	in := &Inbox{scope: scopeOf(group), options: o.resolved(), made: time.Now()}
	in.options.Name = cmp.Or(in.options.Name, group)
	if err == nil {
		in.runner, err = idempotency.NewRunner(store, in.options.runs())
	}
	if err == nil && o.Guarantee == idempotency.GuaranteeTx {
		in.failures, err = idempotency.NewRunner(store, in.options.counter())
	}
	if err != nil {
		return nil, fmt.Errorf("inbox: %w", err)
	}
	return in, nil
}

// failures ends the scope of the counts: no group's, as those have no such end.
const failures = "\x00\x00failures"

// scopeOf keeps groups apart from the scopes of requests in the same store.
func scopeOf(group string) string { return "inbox\x00" + group }

// RecordID returns the ID of a message's record, for those who look it up or resolve it.
func RecordID(group, message string) idempotency.ID { return idempotency.IDOf(scopeOf(group), message) }

// A Message is what the broker delivered.
type Message struct {
	// ID is the sender's name for the message, the same in every delivery: the row
	// of an outbox, an event's id. Never the broker's own number for a delivery.
	ID string

	// Payload is what the message says. A message with the ID of another and a
	// different payload is a dead letter.
	Payload []byte

	// Headers are what came with the message. Of them Handle reads those of package message:
	// the work's context ends at the deadline, and what can't be read is a dead letter.
	Headers message.Headers

	// Delivery is how often the broker has delivered the message, this time
	// included. Zero means that it does not say. The more, the longer a retry waits.
	Delivery int

	// Extend tells the broker that the message is still worked on, and keeps it from
	// others for another Options.Visibility. Nil means that the broker has no such
	// thing. It must return when its context ends.
	Extend func(context.Context) error

	// Judge decides what becomes of the message if its work fails. Nil means that
	// Options.Retry and package classify do.
	Judge Judge
}

// A Judge decides what becomes of a message whose work failed, by its error and how many
// runs there were. With None the message comes again after the wait. With one of the
// reasons that are Local, too, and the run does not count: the work could not begin, since
// something that it needs refused. Any other reason makes it a dead letter. It must be
// quick and change nothing: it may be asked twice.
type Judge func(err error, runs int) (wait time.Duration, why policy.Reason)

// A PanicError is the error of work that panicked.
type PanicError struct {
	Value any
	Stack []byte // of the goroutine, as debug.Stack has it
}

// Error implements error.
func (e *PanicError) Error() string { return fmt.Sprintf("inbox: the work panicked: %v", e.Value) }

// Unwrap returns the value if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

type rejected struct{ error }

func (p rejected) Unwrap() error { return p.error }

// Outcome is what package classify asks of errors that know what they mean.
func (p rejected) Outcome() policy.Outcome { return policy.Outcome{Class: policy.ClassBusiness} }

// isRejected reports whether an error was marked by Reject.
func isRejected(err error) bool {
	var p rejected
	return errors.As(err, &p)
}

// Reject marks an error of the work that will be the same next time: the message
// is a dead letter at once. It is a business outcome ([policy.ClassBusiness]), and so no
// failure of what the work called. Nil stays nil.
func Reject(err error) error {
	if err == nil {
		return nil
	}
	return rejected{err}
}
