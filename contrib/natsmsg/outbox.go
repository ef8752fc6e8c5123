package natsmsg

import (
	"context"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/gabion-go/gabion/outbox"
)

// Publisher publishes the messages of an outbox: the topic of each is its subject. All messages
// of a call are on their way at once, so WithPublishAsyncMaxPending has to be no less than
// outbox.RelayOptions.Batch; by default it is 4000. Messages have the same Nats-Msg-Id
// as those of [Publish].
//
// A message that is larger than the server takes is refused for ever, so the relay parks it.
func Publisher(js jetstream.JetStream) outbox.Publisher { return publisher{js} }

type publisher struct{ js jetstream.JetStream }

// Publish implements outbox.Publisher.
func (p publisher) Publish(ctx context.Context, messages []outbox.Message) []error {
	errs := make([]error, len(messages))
	answers := make([]jetstream.PubAckFuture, len(messages))
	for i, m := range messages {
		to := &nats.Msg{Subject: m.Topic, Header: clone(natsHeaders(m.Headers)), Data: m.Payload}
		answers[i], errs[i] = p.js.PublishMsgAsync(to, jetstream.WithMsgID(m.ID+"/"+m.Topic), jetstream.WithRetryAttempts(0))
		errs[i] = meaning(errs[i])
	}
	for i, answer := range answers {
		if errs[i] != nil {
			continue
		}
		select {
		case <-answer.Ok():
		case err := <-answer.Err():
			errs[i] = meaning(err)
		case <-ctx.Done():
			errs[i] = context.Cause(ctx)
		}
	}
	return errs
}
