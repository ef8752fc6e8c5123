package gabionmsg

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ThreeDotsLabs/watermill/components/delay"
	wm "github.com/ThreeDotsLabs/watermill/message"

	"github.com/gabion-go/gabion/messages/inbox"
	"github.com/gabion-go/gabion/messages/message"
)

// Later sends a copy of a message so that it arrives after the wait, or any time before: a
// middleware where it arrives holds what is left. It returns when the broker has it.
// The message itself is acknowledged after that. A process that ends in between leaves
// both, and the inbox runs their work once.
type Later func(ctx context.Context, msg *wm.Message, wait time.Duration) error

// Republish returns a Later that publishes to a topic. A Pub/Sub that understands the metadata
// of Watermill's package delay delivers the message late. Of any other the topic should be
// one where messages wait, beside the one where they work, with a handler that has
// the same middleware.
func Republish(pub wm.Publisher, topic string) Later {
	return func(_ context.Context, msg *wm.Message, wait time.Duration) error {
		delay.Message(msg, delay.For(wait))
		return pub.Publish(topic, msg)
	}
}

// again sees to it that the message comes again, and not too soon. Nil means that a copy
// of it does.
func (d *delivery) again(v *inbox.Disposition) error {
	g, ctx := d.g, d.msg.Context()
	if v.Cause == inbox.CauseStopped {
		return fmt.Errorf("%w: %s: %w", ErrAgain, v.Cause, v.Err)
	}
	due := time.Now().Add(v.After)
	if g.Later != nil && d.m.Order == "" && v.Cause != inbox.CauseRefused {
		if err := g.Later(ctx, d.later(v, due), v.After); err == nil {
			return nil
		}
	}
	if d.m.ID != "" {
		g.waiting.until(d.m.ID, due)
	}
	_ = hold(ctx, min(time.Until(due)-g.NackDelay, g.MaxHold))
	if v.Err == nil {
		return fmt.Errorf("%w: %s", ErrAgain, v.Cause)
	}
	return fmt.Errorf("%w: %s: %w", ErrAgain, v.Cause, v.Err)
}

// later is the copy that arrives later.
func (d *delivery) later(v *inbox.Disposition, due time.Time) *wm.Message {
	c := d.copyOf()
	if before, err := d.m.Headers.Attempts(); err == nil {
		set(c.Metadata, message.Attempt, strconv.Itoa(max(before, v.Attempt)))
	}
	set(c.Metadata, DueMetadata, strconv.FormatInt(due.UnixMilli(), 10))
	return c
}

// hold waits, and returns early with the context's error.
func hold(ctx context.Context, wait time.Duration) error {
	if wait <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// mostWaiting is how many messages' waits are remembered.
const mostWaiting = 10_000

// waiting has the messages that said Nack, and when their work may run again. What another
// process gets is not in it: there the work may run sooner. The zero value is ready.
type waiting struct {
	some atomic.Bool          // there may be one
	mu   sync.Mutex           // guards due
	due  map[string]time.Time // by ID
}

func (w *waiting) until(id string, due time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.due == nil {
		w.due = map[string]time.Time{}
	}
	w.some.Store(true)
	if len(w.due) >= mostWaiting {
		w.evict()
	}
	w.due[id] = due
}

// evict forgets the one that waits the shortest of a few.
func (w *waiting) evict() {
	var id string
	var first time.Time
	looked := 0
	for other, due := range w.due {
		if looked == 0 || due.Before(first) {
			id, first = other, due
		}
		if looked++; looked == 8 {
			break
		}
	}
	delete(w.due, id)
}

func (w *waiting) end(id string) (due time.Time, known bool) {
	if !w.some.Load() {
		return due, false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	due, known = w.due[id]
	return due, known
}

func (w *waiting) forget(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.due, id)
	w.some.Store(len(w.due) > 0)
}
