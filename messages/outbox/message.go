package outbox

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/gabion-go/gabion/internal/idemkey"
	"github.com/gabion-go/gabion/messages/message"
)

// A Message is what is published. It needs a Topic.
type Message struct {
	// ID is the message's name at the broker and the key by which consumers deduplicate: 1
	// to 255 visible ASCII characters without quotes. If it is empty it is that of the header
	// message.Key, and without one Enqueue makes one (gabion.NewKey). Published messages have
	// it in that header too.
	ID string

	// Topic is where to publish it: a subject, topic, exchange or queue, as the Publisher
	// understands it.
	Topic string

	// Aggregate is what the message is about, such as "order-7". The messages of one
	// are published in order. Empty means that the message has no order with others.
	Aggregate string

	// Payload may be any bytes, as many as Options.MaxPayload says.
	Payload []byte

	// Headers travel with the message, all of them. Enqueue leaves the list itself as it is, so messages
	// may share it. To what is stored it adds message.Key, and message.Deadline if the options say so.
	Headers message.Headers
}

// Errors of messages that can't be enqueued. Nothing of the call is in the table then.
var (
	ErrTooLarge  = errors.New("outbox: the message is too large")
	ErrMalformed = errors.New("outbox: the message is malformed")
)

// Bounds of what is not payload. A topic or aggregate is a name, and is in an index.
const (
	maxName    = 1 << 10
	maxHeaders = 64 << 10
)

// defaultSize is what NATS takes unless told otherwise, headers included, and little less than Kafka.
const defaultSize = 1 << 20

// addedByClient is what a broker's client adds to payload, headers, topic and ID, at most: the names of
// headers that have the ID or are of its own.
const addedByClient = 256

// room returns how many bytes of payload a message may have. It is sent with its ID twice: as the key,
// and with its topic as what the broker deduplicates by.
func (m *Message) room(maxPayload int) int {
	if maxPayload > 0 {
		return maxPayload
	}
	size := defaultSize - addedByClient - 2*len(m.ID) - 2*len(m.Topic)
	for _, h := range m.Headers {
		size -= len(h.Name) + len(h.Value) + len(": \r\n")
	}
	return size
}

// check returns the message with its ID, or what is wrong with it. fresh makes an ID.
func (m Message) check(maxPayload int, fresh func() string) (Message, error) {
	key, keyed := m.Headers.Lookup(message.Key)
	switch {
	case m.ID == "" && keyed:
		m.ID = key
	case m.ID == "":
		m.ID = fresh()
	case keyed && key != m.ID:
		return m, m.bad("its header %s is another than its ID: consumers would deduplicate by one of them", message.Key)
	}
	if bare, ok := idemkey.Parse(m.ID); !ok || bare != m.ID {
		return m, m.bad("its ID is not 1 to 255 visible ASCII characters without quotes")
	}
	if m.Topic == "" {
		return m, m.bad("it has no topic")
	}
	for _, name := range []struct{ what, text string }{{"topic", m.Topic}, {"aggregate", m.Aggregate}} {
		if !utf8.ValidString(name.text) || strings.ContainsRune(name.text, 0) {
			return m, m.bad("its %s is not UTF-8, or has a zero byte", name.what)
		}
		if len(name.text) > maxName {
			return m, m.bad("its %s has %d bytes, more than %d", name.what, len(name.text), maxName)
		}
	}
	for _, h := range m.Headers {
		if h.Name == "" {
			return m, m.bad("a header has no name")
		}
	}
	if n, room := len(m.Payload), m.room(maxPayload); n > room {
		return m, fmt.Errorf("%w: %s: its payload has %d bytes, more than %d", ErrTooLarge, shown(m.ID), n, room)
	}
	if n := len(encode(m.Headers)); n > maxHeaders {
		return m, fmt.Errorf("%w: %s: its headers have %d bytes, more than %d", ErrTooLarge, shown(m.ID), n, maxHeaders)
	}
	return m, nil
}

func (m Message) bad(format string, args ...any) error {
	return fmt.Errorf("%w: %s: %s", ErrMalformed, shown(m.ID), fmt.Sprintf(format, args...))
}

// shown is an id as errors show it: quoted, and not for ever.
func shown(id string) string {
	if len(id) > 64 {
		id = id[:64] + "…"
	}
	return fmt.Sprintf("%q", id)
}

// encode writes headers as they are stored: their number, then name and value of each,
// each behind its length. Values may be any bytes.
func encode(h message.Headers) []byte {
	b := binary.AppendUvarint([]byte{}, uint64(len(h)))
	for _, one := range h {
		for _, text := range []string{one.Name, one.Value} {
			b = append(binary.AppendUvarint(b, uint64(len(text))), text...)
		}
	}
	return b
}

var errHeaders = errors.New("outbox: the headers of a row can't be read")

// decode reads what encode wrote.
func decode(b []byte) (message.Headers, error) {
	n, size := binary.Uvarint(b)
	if size <= 0 || n > uint64(len(b)) {
		return nil, errHeaders
	}
	b = b[size:]
	h := make(message.Headers, 0, n)
	for range n {
		var texts [2]string
		for i := range texts {
			length, size := binary.Uvarint(b)
			if size <= 0 || length > uint64(len(b)-size) {
				return nil, errHeaders
			}
			texts[i], b = string(b[size:size+int(length)]), b[size+int(length):]
		}
		h = append(h, message.Header{Name: texts[0], Value: texts[1]})
	}
	if len(b) != 0 {
		return nil, errHeaders
	}
	return h, nil
}
