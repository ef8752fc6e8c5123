package gabionmsg

import (
	"context"

	"github.com/ThreeDotsLabs/watermill"
	wm "github.com/ThreeDotsLabs/watermill/message"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/messages/message"
)

// Publisher returns a publisher that publishes under the policy of a dependency: each
// Publish is a call, with the context of its first message. A message without an
// Idempotency-Key gets its UUID as one, and without a UUID both; where its context has a
// deadline, it gets that too. Publish of Watermill takes no context, so a timeout of the policy
// cannot interrupt it. A message that is sent twice, because an answer was lost, is handled
// once by consumers that deduplicate.
func Publisher(pub wm.Publisher, d *gabion.Dependency) wm.Publisher {
	return &publisher{Publisher: pub, d: d}
}

type publisher struct {
	wm.Publisher
	d *gabion.Dependency
}

// Publish implements message.Publisher.
func (p *publisher) Publish(topic string, messages ...*wm.Message) error {
	if len(messages) == 0 {
		return nil
	}
	for _, msg := range messages {
		stamp(msg)
	}
	_, err := gabion.Do(messages[0].Context(), p.d, func(context.Context) (struct{}, error) {
		return struct{}{}, p.Publisher.Publish(topic, messages...)
	}, gabion.WithIdempotent(), gabion.WithoutHedge())
	return err
}

// stamp gives a message a key, and the deadline of its context, unless it has them.
func stamp(msg *wm.Message) {
	if msg.Metadata == nil {
		msg.Metadata = wm.Metadata{}
	}
	if msg.UUID == "" {
		msg.UUID = watermill.NewUUID()
	}
	has := headers(msg.Metadata)
	if has.Get(message.Key) == "" {
		set(msg.Metadata, message.Key, msg.UUID)
	}
	if end, limited := msg.Context().Deadline(); limited {
		if _, found := has.Lookup(message.Deadline); !found {
			for _, h := range (message.Headers{}).WithDeadline(end) {
				msg.Metadata[h.Name] = h.Value
			}
		}
	}
}
