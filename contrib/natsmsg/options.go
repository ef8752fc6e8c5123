package natsmsg

import (
	"log/slog"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
)

// Options is how messages are consumed. The zero value is sound, but needs a Consumer that
// keeps dead letters.
type Options struct {
	// Workers is how many messages are worked on at once where the policy's bulkhead is
	// off. Zero means 100.
	Workers int

	// SingleAck does not wait for the broker to confirm an acknowledgement. If that is lost, the
	// message comes again and is recognized as done.
	SingleAck bool

	// DeadSubject is where dead letters are published if the Consumer keeps none: with their
	// payload and headers, and those whose names begin with DeadPrefix. A stream must store
	// it, and this consumer must not read it.
	DeadSubject string

	// ID names a message that has neither the header Idempotency-Key nor Nats-Msg-Id, and
	// must give the same name for each delivery. Nil means that such a message is a dead
	// letter: without a name a message that its sender sent twice can't be recognized.
	ID func(*nats.Msg) string

	// Order returns what a message is ordered by, such as a part of its subject or a header.
	// Messages for which it returns the same text are worked on one at a time, in the order of
	// the stream, and one that failed is tried again before the next, while this process keeps
	// them all. The empty text means by nothing. Nil means that no order is kept. One process
	// at a time may consume then: the broker would give the messages of one key to several.
	Order func(*nats.Msg) string

	// Ahead is how many messages are kept, with Order, beyond those that are worked on. When
	// they all wait for keys that failed, nothing is fetched until one of these is done or
	// given up. Zero means 1000.
	Ahead int

	// Tenant returns whose message it is, for a bulkhead that shares its slots fairly.
	Tenant func(*nats.Msg) string

	// NoHeartbeat does not tell the broker that work still runs. The attempt's timeout must
	// be shorter than the time after which the broker delivers again.
	NoHeartbeat bool

	// Grace is how long work may go on after the context of Consume has ended; then its own
	// context ends. Zero means 10 s; negative means not at all.
	Grace time.Duration

	// Logger gets what the broker refuses. Nil means slog.Default.
	Logger *slog.Logger
}

// Sequence names a message by its stream and its place there, for Options.ID. Deliveries of
// one message are recognized by it. What its sender published twice, outside of the stream's
// window for duplicates, is two messages.
func Sequence(m *nats.Msg) string {
	meta, err := m.Metadata()
	if err != nil {
		return ""
	}
	return meta.Stream + "/" + strconv.FormatUint(meta.Sequence.Stream, 10)
}

func (o Options) resolved() Options {
	if o.Workers <= 0 {
		o.Workers = 100
	}
	if o.Ahead <= 0 {
		o.Ahead = 1000
	}
	if o.Grace == 0 {
		o.Grace = 10 * time.Second
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return o
}
