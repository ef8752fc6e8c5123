package deadletter

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/gabion-go/gabion/policy"
)

// An Overflow says what a full store does with one more letter.
type Overflow uint8

// What a full store does.
const (
	Refuse     Overflow = iota // returns ErrFull: the message stays with the broker. The default
	DropOldest                 // removes the letters that wait the longest, and tells Options.Dropping and Stream before
)

// Options are a store's bounds. The zero value is sound. For each bound zero means the default, and
// a negative number no bound.
type Options struct {
	// MaxPayload bounds one letter: its payload, headers, and what else came with the message,
	// in bytes. A larger one gets ErrTooLarge, and a Consumer puts it away without its payload.
	// Zero means 65 MiB: the longest that common brokers take, and what comes with it.
	MaxPayload int64

	// MaxLetters and MaxBytes bound all letters together, the done and dropped ones too. What
	// is done or dropped is removed first when there is no room. Zero means 1,000,000 letters
	// with 4 GiB; in one of [NewMemory] 10,000 with 64 MiB.
	MaxLetters int
	MaxBytes   int64

	// Overflow says what becomes of one more letter when all others wait or are
	// taken. Letters that are taken are never removed.
	Overflow Overflow

	// Retention is how long a letter stays that is done or was dropped. Zero means 30 days. It
	// is also how long the failures of a message stay that has not become a letter.
	Retention time.Duration

	// Dropping is called before letters that wait are removed to make room. The removal waits for
	// it, and so do other calls of Put that need room: it may use the store, but not put letters
	// into it. Several processes with one store may report the same letters. Nil means no call.
	Dropping func(context.Context, Notice)

	// Stream is called then, too, and must not put letters into the store either. It receives one
	// [policy.Event] of [policy.KindLettersLost] for each group of consumers, so that metrics, logs
	// and pages that take gabion's events take these. A gabion.Observer is one. Dependency is the
	// group, Count how many of its letters go, and Numbers say what room they take and how long the
	// oldest waited. Nil means none.
	Stream interface {
		Observe(context.Context, policy.Event)
	}

	// Clock is what the time is. Nil means the database's clock for a store that has one for
	// many machines, and time.Now for others. For tests.
	Clock func() time.Time
}

// Validate returns everything that is wrong with the options.
func (o Options) Validate() error {
	var all []error
	if o.Overflow > DropOldest {
		all = append(all, fmt.Errorf("overflow: there is no %d", o.Overflow))
	}
	if o.MaxBytes > 0 && o.MaxPayload > o.MaxBytes {
		all = append(all, fmt.Errorf("max payload: %d bytes are more than max bytes, %d", o.MaxPayload, o.MaxBytes))
	}
	return errors.Join(all...)
}

// Resolved returns the options with their defaults; "no bound" becomes the largest number. It is
// for those who write stores.
func (o Options) Resolved() Options {
	o.MaxPayload = bound(o.MaxPayload, 65<<20, math.MaxInt64)
	o.MaxLetters = bound(o.MaxLetters, 1_000_000, math.MaxInt)
	o.MaxBytes = bound(o.MaxBytes, 4<<30, math.MaxInt64)
	o.Retention = bound(o.Retention, 30*24*time.Hour, math.MaxInt64)
	return o
}

// bound returns the bound that was asked for.
func bound[T int | int64 | time.Duration](v, otherwise, none T) T {
	switch {
	case v < 0:
		return none
	case v == 0:
		return otherwise
	}
	return v
}

// now is the time by the options' clock.
func (o *Options) now() time.Time {
	if o.Clock == nil {
		return time.Now()
	}
	return o.Clock()
}
