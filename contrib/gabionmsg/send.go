package gabionmsg

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/ThreeDotsLabs/watermill/components/delay"
	wm "github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"

	"github.com/gabion-go/gabion/messages/consumer"
	"github.com/gabion-go/gabion/messages/inbox"
	"github.com/gabion-go/gabion/messages/message"
)

// ReasonMetadata is the metadata of a dead letter that says why it is one, as an
// [inbox.Cause]. Beside it there are its key and the number of its runs (Idempotency-Key
// and Gabion-Attempt), and what Watermill's PoisonQueue writes: the error, the
// topic, the handler and the subscriber.
const ReasonMetadata = "Gabion-Reason"

// longestError is how much of an error is sent with a dead letter, in bytes.
const longestError = 1024

// poison is the message as a dead letter.
func (d *delivery) poison(v *inbox.Disposition) *wm.Message {
	c, ctx := d.copyOf(), d.msg.Context()
	text := string(v.Cause)
	if v.Err != nil {
		text = v.Err.Error()
	}
	set(c.Metadata, ReasonMetadata, string(v.Cause))
	if v.Attempt > 0 {
		set(c.Metadata, message.Attempt, strconv.Itoa(v.Attempt))
	}
	c.Metadata[middleware.ReasonForPoisonedKey] = strings.ToValidUTF8(text[:min(len(text), longestError)], "") // brokers want whole letters
	c.Metadata[middleware.PoisonedTopicKey] = d.m.Source
	c.Metadata[middleware.PoisonedHandlerKey] = wm.HandlerNameFromCtx(ctx)
	c.Metadata[middleware.PoisonedSubscriberKey] = wm.SubscriberNameFromCtx(ctx)
	return c
}

// publish publishes what the handler produced, in the context of the work. Each message gets a
// key that is the same however often the work runs, and the deadline of the work's own.
func (d *delivery) publish(ctx context.Context, produced []*wm.Message) error {
	g := d.g
	if g.Publisher == nil {
		return inbox.Reject(ErrNoPublisher)
	}
	topic := g.PublishTopic
	if topic == "" {
		topic = wm.PublishTopicFromCtx(ctx)
	}
	for n, msg := range produced {
		d.onward(ctx, msg, topic+"/"+strconv.Itoa(n))
	}
	if err := g.Publisher.Publish(topic, produced...); err != nil {
		return fmt.Errorf("gabionmsg: publishing what the handler produced: %w", err)
	}
	return nil
}

// ofOne is the metadata that says something of one message, and not of those that come of it.
var ofOne = []string{message.Key, message.Attempt, DueMetadata, delay.DelayedForKey, delay.DelayedUntilKey}

// onward gives a message metadata of its own, without what a handler copied that is about the message
// which came, and with what it lacks of the headers of [consumer.Onward].
func (d *delivery) onward(ctx context.Context, msg *wm.Message, step string) {
	given := msg.Metadata
	msg.Metadata = make(wm.Metadata, len(given)+2)
	for name, value := range given {
		if !d.copied(name, value) {
			msg.Metadata[name] = value
		}
	}
	has := headers(msg.Metadata)
	for _, h := range consumer.Onward(ctx, step) {
		if _, found := has.Lookup(h.Name); !found {
			msg.Metadata[h.Name] = h.Value
		}
	}
}

func (d *delivery) copied(name, value string) bool {
	at := slices.IndexFunc(ofOne, func(one string) bool { return strings.EqualFold(one, name) })
	if at < 0 {
		return false
	}
	came, found := d.m.Headers.Lookup(ofOne[at])
	return found && came == value || ofOne[at] == message.Key && value == d.m.ID
}
