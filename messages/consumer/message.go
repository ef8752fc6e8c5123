package consumer

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/messages/deadletter"
	"github.com/gabion-go/gabion/messages/inbox"
	"github.com/gabion-go/gabion/messages/internal/joined"
	"github.com/gabion-go/gabion/messages/message"
)

// A Message is what the broker delivered, and where it was.
type Message struct {
	inbox.Message

	Source   string // the stream, topic or queue
	Position string // which one it is there, in the broker's words; it must not change between deliveries
	Order    string // what it is ordered by, such as a partition key; empty means by nothing

	// Tenant is whose message it is, for a bulkhead that shares its slots fairly.
	Tenant string

	// Again says that the message was delivered before, for brokers that do not count.
	// Else Delivery and the header message.Attempt say so.
	Again bool

	// Visibility is how long the broker keeps this message from others, for adapters that
	// learn it from the broker. Zero means the inbox's.
	Visibility time.Duration
}

// repeated reports whether the message was delivered before.
func (m *Message) repeated() bool {
	if m.Again || m.Delivery > 1 {
		return true
	}
	n, _ := m.Headers.Attempts()
	return n > 0
}

// letter names the dead letter that the message may become. A message without a key is
// named by its place.
func (c *Consumer) letter(m *Message) deadletter.ID {
	key := m.ID
	if key == "" {
		key = "\x00" + m.Source + "\x00" + m.Position
	}
	return deadletter.LetterID(c.options.Group, key, m.Payload)
}

type (
	messageKey struct{}
	workingKey struct{}
)

// MessageFrom returns the message whose work has that context, nil if none has. It must not be
// changed.
func MessageFrom(ctx context.Context) *Message {
	m, _ := ctx.Value(messageKey{}).(*Message)
	return m
}

// Onward returns the headers for a message that the work of a message sends: the deadline
// of its own message, and a key derived from its key and the name of the step, which is the
// same however often the work runs. So the next consumer deduplicates what this one sends
// twice. The context must be that of the work.
func Onward(ctx context.Context, step string) message.Headers {
	h := message.Headers{{Name: message.Key, Value: idempotency.StepKey(ctx, step)}}
	if m := MessageFrom(ctx); m != nil {
		if end, err := m.Headers.Deadline(); err == nil {
			h = h.WithDeadline(end)
		}
	}
	return h
}

// A working is the context of work: the inbox's and the attempt's, and the message.
type working struct {
	joined.Context
	message Message
	left    atomic.Pointer[leftRun] // if it was left, or the one for returned
}

// Value implements context.Context.
func (w *working) Value(key any) any {
	switch key.(type) {
	case messageKey:
		return &w.message
	case workingKey:
		return w
	}
	return w.Context.Value(key)
}
