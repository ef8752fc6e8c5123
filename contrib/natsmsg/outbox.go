package natsmsg

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/gabion-go/gabion/classify"
	"github.com/gabion-go/gabion/messages/outbox"
)

// Publisher publishes the messages of an outbox through js's connection: the topic of each is its
// subject. All messages of a call are on their way at once. They have the same Nats-Msg-Id as those of
// [Publish]. Options of js for asynchronous publishing have no effect.
//
// A message that is larger than the server takes is refused for ever, so the relay parks it. One
// whose topic no stream stores is outbox.ErrNoTopic, if the server says so when it is asked.
func Publisher(js jetstream.JetStream) outbox.Publisher {
	// A JetStream keeps what is not answered for ever unless it has a timeout, and stops at a maximum of that.
	own, err := jetstream.New(js.Conn(), jetstream.WithPublishAsyncTimeout(unanswered), jetstream.WithPublishAsyncMaxPending(math.MaxInt))
	if err != nil { // these options are sound
		own = js
	}
	return publisher{own, js}
}

// unanswered is for how long an answer is waited for whose attempt has ended.
const unanswered = 30 * time.Second

type publisher struct{ js, asked jetstream.JetStream }

// Publish implements outbox.Publisher.
func (p publisher) Publish(ctx context.Context, messages []outbox.Message) []error {
	errs := make([]error, len(messages))
	answers := make([]jetstream.PubAckFuture, len(messages))
	for i, m := range messages {
		if errs[i] = context.Cause(ctx); errs[i] != nil {
			continue
		}
		to := &nats.Msg{Subject: m.Topic, Header: clone(natsHeaders(m.Headers)), Data: m.Payload}
		answers[i], errs[i] = p.js.PublishMsgAsync(to, jetstream.WithMsgID(m.ID+"/"+m.Topic), jetstream.WithRetryAttempts(0))
		if errs[i] != nil && p.js.Conn().IsClosed() { // which not every error says
			errs[i] = fmt.Errorf("%w: %w", nats.ErrConnectionClosed, errs[i])
		}
	}
	for i, answer := range answers {
		if errs[i] != nil {
			continue
		}
		select {
		case <-answer.Ok():
		case err := <-answer.Err():
			errs[i] = err
		case <-ctx.Done():
			errs[i] = context.Cause(ctx)
		}
	}
	asked := map[string]bool{} // whether a topic has no stream
	for i, err := range errs { // after all answers: it may take its time
		if errors.Is(err, jetstream.ErrNoStreamResponse) || errors.Is(err, nats.ErrNoResponders) {
			topic := messages[i].Topic
			if _, known := asked[topic]; !known {
				asked[topic] = p.homeless(ctx, topic)
			}
			if asked[topic] {
				errs[i] = classify.Permanent(fmt.Errorf("%w: no stream stores %s", outbox.ErrNoTopic, topic))
				continue
			}
		}
		errs[i] = meaning(err)
	}
	return errs
}

// asking bounds how long a server is asked whether it has a stream for a topic.
const asking = 2 * time.Second

// homeless reports whether no stream stores a topic. A message then gets no answer, nor where
// JetStream is away: only the server can tell.
func (p publisher) homeless(ctx context.Context, topic string) bool {
	ctx, cancel := context.WithTimeout(ctx, asking)
	defer cancel()
	_, err := p.asked.StreamNameBySubject(ctx, topic)
	return errors.Is(err, jetstream.ErrStreamNotFound)
}
