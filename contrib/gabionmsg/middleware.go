package gabionmsg

import (
	"context"
	"errors"
	"fmt"
	"time"

	wm "github.com/ThreeDotsLabs/watermill/message"

	"github.com/gabion-go/gabion/messages/consumer"
	"github.com/gabion-go/gabion/messages/inbox"
)

// ErrAgain is in the errors of messages that come again later. The message is not acknowledged.
var ErrAgain = errors.New("gabionmsg: the message comes again")

// ErrNacked is the error of work whose handler called Nack.
var ErrNacked = errors.New("gabionmsg: the handler called Nack")

// ErrNoPublisher is the error of work that produces messages where there is no
// [Options].Publisher.
var ErrNoPublisher = errors.New("gabionmsg: the handler's messages need Options.Publisher")

// Options is how messages of Watermill are handled. The zero value is sound for a Consumer
// that has Letters, and a handler that produces no messages.
type Options struct {
	// Later sends a message that has to wait, and the message itself is acknowledged. Nil means
	// to hold it. Messages with an Order are held in any case, and so are all while the policy
	// admits none.
	Later Later

	// NackDelay is how long the Pub/Sub waits by itself between Nack and the next delivery. Zero
	// means that it may deliver again at once.
	NackDelay time.Duration

	// MaxHold is how long a message is held at most in one delivery. With the time for the work
	// it must be less than what the broker waits for Ack. Zero means 10 s.
	MaxHold time.Duration

	// Poison publishes dead letters to PoisonTopic, for a Consumer that has no Letters. Their
	// metadata says why: see [ReasonMetadata].
	Poison      wm.Publisher
	PoisonTopic string

	// Publisher publishes what the handler produces, as a part of the work: it is out before the
	// message counts as done. The router publishes nothing then. Zero PublishTopic means that
	// of the router's handler. Under the guarantee Tx the transaction may still be rolled back
	// after that, and the work repeated: the keys of the messages stay the same.
	Publisher    wm.Publisher
	PublishTopic string

	// Amend changes what was read of a message: its ID, which is how the sender calls it, its
	// Position, its Order, its Tenant, how often it was delivered. It must be quick and may
	// be called from several goroutines. Nil means to take what [consumer.Message] needs
	// from the metadata and the UUID.
	Amend func(*wm.Message, *consumer.Message)
}

// defaultHold is less than any common broker waits for Ack, with the time for the work.
const defaultHold = 10 * time.Second

func (o *Options) validate(c *consumer.Consumer) error {
	var wrong []error
	add := func(bad bool, text string) {
		if bad {
			wrong = append(wrong, errors.New("gabionmsg: "+text))
		}
	}
	add(c == nil, "the consumer is nil")
	add(o.NackDelay < 0, "NackDelay is negative")
	add(o.MaxHold < 0, "MaxHold is negative")
	add(o.Poison != nil && o.PoisonTopic == "", "Poison has no PoisonTopic")
	add(o.Poison == nil && o.PoisonTopic != "", "PoisonTopic has no Poison")
	if c != nil {
		add(o.Poison == nil && !c.KeepsLetters(), "dead letters have no place: the consumer has no Letters, and there is no Poison")
		add(o.Poison != nil && c.KeepsLetters(), "dead letters have two places: the consumer's Letters, and Poison")
	}
	return errors.Join(wrong...)
}

// Middleware returns a middleware that runs the handler as the consumer's work. It returns
// what is wrong with its arguments. Handlers that do different work of the same messages need one
// each, of consumers of different groups: with one for both, a message that one handler has done is
// a duplicate for the other.
//
// A handler that returns no error is done, and what was done is not done again. The
// context of its message is that of the work: see [consumer.Consumer.Handle]. Ack means
// nothing there, as the message is acknowledged when its end is on record; Nack is an error.
func Middleware(c *consumer.Consumer, o Options) (wm.HandlerMiddleware, error) {
	if err := o.validate(c); err != nil {
		return nil, err
	}
	if o.MaxHold == 0 {
		o.MaxHold = defaultHold
	}
	g := &gate{c: c, Options: o}
	return func(next wm.HandlerFunc) wm.HandlerFunc {
		return func(msg *wm.Message) ([]*wm.Message, error) {
			return nil, g.take(msg, next)
		}
	}, nil
}

// A gate is what stands before a handler.
type gate struct {
	c *consumer.Consumer
	Options
	waiting waiting
}

// A delivery is a message while it is handled.
type delivery struct {
	g    *gate
	msg  *wm.Message
	next wm.HandlerFunc
	m    consumer.Message
	own  wm.Message // the handler's
}

// take handles a message. Nil means that it may be acknowledged.
func (g *gate) take(msg *wm.Message, next wm.HandlerFunc) (err error) {
	ended := false
	defer func() {
		if !ended { // a panic, or runtime.Goexit, which the router does not notice
			_ = hold(msg.Context(), g.MaxHold)
			msg.Nack()
		}
	}()
	d := delivery{g: g, msg: msg, next: next, m: read(msg), own: wm.Message{UUID: msg.UUID, Metadata: msg.Metadata, Payload: msg.Payload}}
	if g.Amend != nil {
		g.Amend(msg, &d.m)
	}
	name(&d.m)
	err = d.handle()
	ended = true
	return err
}

func (d *delivery) handle() error {
	g, ctx := d.g, d.msg.Context()
	if g.Publisher == nil && wm.PublishTopicFromCtx(ctx) != "" {
		_ = hold(ctx, g.MaxHold)
		return ErrNoPublisher
	}
	due, known := g.waiting.end(d.m.ID)
	d.m.Again = d.m.Again || known
	due = latest(due, dueOf(&d.m))
	if left := time.Until(due); left > 0 {
		if err := hold(ctx, min(left, g.MaxHold)); err != nil {
			return fmt.Errorf("%w: %w", ErrAgain, err)
		}
		if left > g.MaxHold {
			return fmt.Errorf("%w: in %v", ErrAgain, (left - g.MaxHold).Round(time.Millisecond))
		}
	}
	if known {
		g.waiting.forget(d.m.ID)
	}
	return d.settle(g.c.Handle(ctx, d.m, d.work))
}

// settle does what became of the message.
func (d *delivery) settle(v inbox.Disposition) error {
	switch {
	case v.Verb == inbox.Ack:
		return nil
	case v.Verb == inbox.Retry:
		return d.again(&v)
	case d.g.Poison == nil:
		return nil // the Consumer has put it away
	}
	err := d.g.Poison.Publish(d.g.PoisonTopic, d.poison(&v))
	if err == nil {
		return nil
	}
	v.Cause, v.After, v.Err = inbox.CauseNotPutAway, defaultHold, errors.Join(err, v.Err)
	return d.again(&v)
}

// work runs the handler with a message of its own, whose Ack and Nack tell the broker nothing.
func (d *delivery) work(ctx context.Context) error {
	own := &d.own
	own.SetContext(ctx)
	produced, err := d.next(own)
	if err != nil {
		return err
	}
	if consumer.Abandoned(ctx) {
		return inbox.ErrAbandoned // and another run publishes
	}
	select {
	case <-own.Nacked(): // nil unless it was called
		return ErrNacked
	default:
	}
	if len(produced) == 0 {
		return nil
	}
	return d.publish(ctx, produced)
}
