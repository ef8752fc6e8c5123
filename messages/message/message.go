// Package message has the words that senders and consumers of messages share: the
// headers that travel with a message, and what they mean. It decides nothing, and knows
// no broker.
package message

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// The headers that gabion reads and writes. Their names are compared without regard to
// case, since brokers differ in it.
const (
	// Key is the sender's name for what the message asks for, the same however often it
	// is sent: consumers deduplicate by it. It is the header of package idempotency.
	Key = "Idempotency-Key"

	// Deadline is when the work is no longer wanted, in milliseconds since 1970 UTC.
	// It is a time and not a duration, since a message may lie in a queue.
	Deadline = "Gabion-Deadline"

	// Attempt is how often the work of the message was begun before it was sent, for
	// brokers that do not count deliveries.
	Attempt = "Gabion-Attempt"

	// Version is which meaning of these headers the sender knows. Without it, it is 1.
	Version = "Gabion-Version"
)

// Newest is the version of the headers that this package knows.
const Newest = 1

// A Header is one line about a message. The value may be any bytes.
type Header struct{ Name, Value string }

// Headers are the lines about a message, in their order. A name may stand there more
// than once. The zero value has none. No method changes the headers that it is called on, so
// messages may share them.
type Headers []Header

// Get returns the first value of that name, or the empty string.
func (h Headers) Get(name string) string {
	value, _ := h.Lookup(name)
	return value
}

// Lookup returns the first value of that name, and whether there is one.
func (h Headers) Lookup(name string) (value string, found bool) {
	for i := range h {
		if strings.EqualFold(h[i].Name, name) {
			return h[i].Value, true
		}
	}
	return "", false
}

// With returns the headers with one value of that name, the given one. It changes
// nothing that others see.
func (h Headers) With(name, value string) Headers {
	return append(h.Without(name), Header{Name: name, Value: value})
}

// Without returns the headers that have other names, in a slice of their own. It changes
// nothing that others see.
func (h Headers) Without(name string) Headers {
	others := make(Headers, 0, len(h)+1)
	for _, one := range h {
		if !strings.EqualFold(one.Name, name) {
			others = append(others, one)
		}
	}
	return others
}

// WithDeadline returns the headers with that deadline. The zero time takes it away.
func (h Headers) WithDeadline(t time.Time) Headers {
	if t.IsZero() {
		return h.Without(Deadline)
	}
	return h.With(Deadline, strconv.FormatInt(t.UnixMilli(), 10))
}

// Errors of headers that can't be read. The message itself may be sound.
var (
	ErrVersion = errors.New("message: its headers are of a version that this program does not know")
	ErrHeader  = errors.New("message: a header can't be read")
)

// latest is the last deadline that is believed: year 10000 and later are mistakes, such as
// a time in nanoseconds.
const latest = 253402300800000

// Deadline returns when the message expires. The zero time means never.
func (h Headers) Deadline() (time.Time, error) {
	text, found := h.Lookup(Deadline)
	if !found || text == "" {
		return time.Time{}, nil
	}
	ms, err := strconv.ParseInt(text, 10, 64)
	if err != nil || ms <= 0 || ms >= latest {
		return time.Time{}, fmt.Errorf("%w: %s: %s is no time in milliseconds since 1970", ErrHeader, Deadline, shown(text))
	}
	return time.UnixMilli(ms), nil
}

// Attempts returns how often the work was begun before the message was sent. Zero means never, or
// unknown.
func (h Headers) Attempts() (int, error) {
	text, found := h.Lookup(Attempt)
	if !found || text == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return 0, fmt.Errorf("%w: %s: %s is no number of attempts", ErrHeader, Attempt, shown(text))
	}
	return int(n), nil
}

// Check returns ErrVersion if the headers are of a version that is not known, and
// ErrHeader if one of them can't be read.
func (h Headers) Check() error {
	if text, found := h.Lookup(Version); found && text != "" {
		switch n, err := strconv.ParseUint(text, 10, 16); {
		case err != nil || n == 0:
			return fmt.Errorf("%w: %s: %s is no version", ErrHeader, Version, shown(text))
		case n > Newest:
			return fmt.Errorf("%w: %s is %d, the newest known is %d", ErrVersion, Version, n, Newest)
		}
	}
	_, late := h.Deadline()
	_, tries := h.Attempts()
	return errors.Join(late, tries)
}

// shown is a value as errors show it: quoted, and not for ever.
func shown(text string) string {
	if len(text) > 40 {
		text = text[:40] + "…"
	}
	return strconv.Quote(text)
}
