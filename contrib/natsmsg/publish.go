package natsmsg

import (
	"context"
	"errors"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/classify"
	"github.com/gabion-go/gabion/messages/message"
	"github.com/gabion-go/gabion/policy"
)

// ErrNoKey says that a message that is published has no header Idempotency-Key.
var ErrNoKey = errors.New("natsmsg: the message has no " + message.Key)

// Publish publishes a message through a dependency, and returns when JetStream has stored it.
// The headers must have a message.Key, as those of consumer.Onward do, and no two messages of
// a subject may have the same. It may be sent more than once, and the stream stores it once
// within its window for duplicates (two minutes unless configured): Nats-Msg-Id is made of
// key and subject. What is published again after that, consumers deduplicate by the key.
//
// The deadline of the context is that of the publishing. The message has one only if its
// headers say so (message.Headers.WithDeadline).
func Publish(ctx context.Context, d *gabion.Dependency, js jetstream.JetStream, subject string, payload []byte, h message.Headers) (*jetstream.PubAck, error) {
	key := h.Get(message.Key)
	if key == "" {
		return nil, ErrNoKey
	}
	header := natsHeaders(h)
	return gabion.Do(ctx, d, func(ctx context.Context) (*jetstream.PubAck, error) {
		ack, err := js.PublishMsg(ctx, &nats.Msg{Subject: subject, Header: clone(header), Data: payload}, jetstream.WithMsgID(key+"/"+subject), jetstream.WithRetryAttempts(0))
		return ack, meaning(err)
	}, gabion.WithIdempotent())
}

// clone copies headers, since publishing adds to them.
func clone(h nats.Header) nats.Header {
	c := make(nats.Header, len(h)+1)
	for name, values := range h {
		c[name] = values
	}
	return c
}

// meaning marks errors of publishing by what they mean for a retry.
func meaning(err error) error {
	var api *jetstream.APIError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, nats.ErrConnectionClosed):
		return closed{err}
	case errors.Is(err, nats.ErrMaxPayload), errors.Is(err, nats.ErrBadHeaderMsg), errors.Is(err, nats.ErrBadSubject), errors.Is(err, nats.ErrPermissionViolation):
		return classify.Permanent(err)
	case errors.Is(err, jetstream.ErrNoStreamResponse), errors.Is(err, nats.ErrNoResponders), errors.Is(err, nats.ErrReconnectBufExceeded):
		return classify.NotSent(err) // no stream stores it
	case errors.As(err, &api) && api.Code < 500:
		return classify.Permanent(err)
	case errors.As(err, &api), errors.Is(err, nats.ErrTimeout), errors.Is(err, nats.ErrDisconnected):
		return classify.Transient(err)
	}
	return err
}

// closed is the error of a connection that its program, or the client, has closed for good: no retry on it helps, and it says nothing
// against the message.
type closed struct{ error }

// Unwrap returns the client's error.
func (e closed) Unwrap() error { return e.error }

// Outcome is what package classify reads.
func (closed) Outcome() policy.Outcome {
	return policy.Outcome{Class: policy.ClassNetwork, Stop: true}
}
