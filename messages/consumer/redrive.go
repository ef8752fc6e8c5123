package consumer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/messages/deadletter"
	"github.com/gabion-go/gabion/messages/inbox"
)

// Orders is what [Consumer.Redrive] needs of a [deadletter.Store].
type Orders interface {
	// Take takes up to n letters of the group's redrive that are due; again is when to ask next.
	Take(ctx context.Context, group string, n int, lease time.Duration) (taken []deadletter.Lease, again time.Duration, err error)
	// Extend prolongs the lease of a letter whose work still runs.
	Extend(ctx context.Context, l deadletter.Lease, lease time.Duration) error
	// Settle says how a letter came out.
	Settle(ctx context.Context, l deadletter.Lease, v deadletter.Verdict) error
}

// A Redrive is how letters are taken up again. The zero value is sound.
type Redrive struct {
	// Workers is how many letters are worked on at once, beside the messages of the broker.
	// The slots of the policy bound both together, and the rate of the order bounds how many
	// begin in a second. Zero means 16.
	Workers int

	// Lease is for how long a letter is taken; it is prolonged while its work runs. Zero
	// means 30 s.
	Lease time.Duration

	// Idle is how long to wait before the store is asked again when nothing is ordered. Zero
	// means 2 s.
	Idle time.Duration
}

// Redrive runs the work of letters that an operator ordered to be taken up again, until the
// context ends: under the same policy as messages, and with their own keys. A letter whose
// work succeeds is done. One whose work fails waits again. One that the policy does not admit
// is given back and taken again: while the breaker refuses, none is taken. The store keeps to the
// order's rate, and stops it when too few succeed. Every process of the group may run it: one of them
// has the redrive at a time, and another follows once that has not asked for as long as the Lease.
//
// It returns the context's error. It does not return for a store that fails: it asks again.
func (c *Consumer) Redrive(ctx context.Context, orders Orders, work func(context.Context) error, r Redrive) error {
	r = r.resolved()
	d := redriving{c, &r, orders, work}
	return d.run(ctx)
}

// redriving is a Redrive that runs.
type redriving struct {
	*Consumer
	r      *Redrive
	orders Orders
	work   func(context.Context) error
}

func (c *redriving) run(ctx context.Context) error {
	r, orders := c.r, c.orders
	var working sync.WaitGroup
	defer working.Wait()
	slots := make(chan struct{}, r.Workers)
	ended := make(chan struct{}, 1) // gets one when a letter was settled
	for {
		free, again := c.free(len(slots))
		if free > 0 {
			var taken []deadletter.Lease
			err := unpanicked(func() (err error) {
				limited, cancel := context.WithTimeout(ctx, r.Lease) // later all that it brings is lost
				defer cancel()
				taken, again, err = orders.Take(limited, c.options.Group, free, r.Lease)
				return err
			})
			if err != nil && ctx.Err() == nil {
				c.logger().LogAttrs(ctx, slog.LevelWarn, "the store of dead letters failed", slog.String("group", c.options.Group), slog.Any("error", err))
			}
			for _, l := range taken {
				slots <- struct{}{}
				working.Go(func() {
					defer func() {
						<-slots
						select {
						case ended <- struct{}{}:
						default:
						}
					}()
					c.redrive(ctx, l)
				})
			}
			switch {
			case len(taken) == free:
				again = 0
			case again <= 0:
				again = r.Idle
			default:
				again = min(again, r.Idle)
			}
		}
		if err := pause(ctx, again, ended); err != nil {
			return err
		}
	}
}

// resolved puts the defaults in place of what is zero, or no number of such things.
func (r Redrive) resolved() Redrive {
	r.Workers = cmp.Or(max(r.Workers, 0), 16)
	r.Lease, r.Idle = cmp.Or(max(r.Lease, 0), 30*time.Second), cmp.Or(max(r.Idle, 0), 2*time.Second)
	return r
}

// free says how many letters are worth taking while that many are being worked on, and if zero, when to
// ask again.
func (c *redriving) free(working int) (letters int, again time.Duration) {
	if working >= c.r.Workers {
		return 0, whileBusy
	}
	room, again := c.Room(working)
	return min(c.r.Workers-working, room), min(again, longestPause)
}

// unpanicked uses a store of letters. One that panics is one that fails.
func unpanicked(use func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("consumer: the store of dead letters panicked: %v", v)
		}
	}()
	return use()
}

// pause waits, or until something ends.
func pause(ctx context.Context, d time.Duration, ended <-chan struct{}) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-ended:
	}
	return ctx.Err()
}

// redrive runs the work of one letter.
func (c *redriving) redrive(ctx context.Context, l deadletter.Lease) {
	v, again := deadletter.Verdict{State: deadletter.Waiting}, c.r.Idle
	if no := c.unfit(&l.Letter); no != nil {
		v = *no
	} else if err := c.resolve(ctx, &l.Letter); err == nil {
		v, again = c.rerun(ctx, l)
	} else {
		c.logger().LogAttrs(ctx, slog.LevelWarn, "what was found out of a dead letter can't be stored", slog.String("letter", string(l.ID)), slog.Any("error", err))
	}
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.options.LetterTimeout)
	defer cancel()
	if err := unpanicked(func() error { return c.orders.Settle(ending, l, v) }); err != nil {
		c.logger().LogAttrs(ctx, slog.LevelWarn, "the end of a redriven letter can't be stored", slog.String("letter", string(l.ID)), slog.Any("error", err))
	}
	if v.State == deadletter.Waiting && v.Failure == nil { // it may be taken at once, and would come to the same
		_ = pause(ctx, min(again, c.r.Idle), nil)
	}
}

// unfit returns the verdict on a letter that can't run: its payload was not kept, or it is so old
// that the inbox may have forgotten that its work was done, by another delivery or by a redrive.
func (c *redriving) unfit(l *deadletter.Letter) *deadletter.Verdict {
	last, keeps := l.Last, c.inbox.Retention()
	if last.IsZero() {
		last = l.Kept
	}
	v := deadletter.Verdict{State: deadletter.Waiting, Failure: &deadletter.Failure{At: time.Now()}}
	switch {
	case l.Reason == deadletter.PayloadMissing:
		v.Reason, v.Failure.Message = l.Reason, "it did not run: its payload was not kept. Send the message anew, or drop the letter"
	case l.Resolved != deadletter.ResolvedAsFailed && !last.IsZero() && time.Since(last) > keeps:
		v.Reason = deadletter.Unknown
		v.Failure.Message = fmt.Sprintf("it did not run: its last failure is more than %v ago, and the inbox forgets after that what was done. Find out whether its work was done, and resolve it", keeps)
	default:
		return nil
	}
	v.Failure.Reason = v.Reason
	return &v
}

// rerun handles the letter as the message that it was. Again is what a message would wait.
func (c *redriving) rerun(ctx context.Context, l deadletter.Lease) (v deadletter.Verdict, again time.Duration) {
	m := Message{Source: l.Source, Position: l.Position, Order: l.Order, Again: true}
	m.ID, m.Payload, m.Headers = l.Key, l.Payload, l.Headers
	if at, err := m.Headers.Deadline(); err == nil && !at.IsZero() { // who orders it wants it all the same
		m.Headers = m.Headers.WithDeadline(time.Time{})
	}
	m.Extend = func(ctx context.Context) error { return c.orders.Extend(ctx, l, c.r.Lease) }
	h := c.handling(&m)
	h.caller, h.work, h.again, h.lease = ctx, c.work, true, c.r.Lease
	if l.Reason == deadletter.Unknown && l.Resolved == deadletter.ResolvedAsFailed {
		h.before = l.Attempts
	}
	begun := time.Now()
	d := h.handle()
	if c.told() {
		c.tell(ctx, &d, time.Since(begun))
	}
	switch {
	case d.Verb == inbox.Ack:
		return deadletter.Verdict{State: deadletter.Done}, 0
	case d.Cause == inbox.CauseNotRecorded && l.Reason == deadletter.Unknown: // what was found out was about the runs before
		d.Cause = inbox.CauseUnknown
	case d.Verb == inbox.Retry && d.Cause != inbox.CauseFailed:
		return deadletter.Verdict{State: deadletter.Waiting}, d.After
	}
	v = deadletter.Verdict{State: deadletter.Waiting, Reason: string(d.Cause)}
	if d.Cause == inbox.CauseFailed && l.Reason != deadletter.Unknown { // it failed as it had before, or had no effect for certain
		v.Reason = l.Reason
	}
	f := h.failure(&d)
	v.Failure = &f
	return v, 0
}

// resolve stores an operator's finding about work whose outcome was unknown, so that the inbox lets it
// run.
func (c *redriving) resolve(ctx context.Context, l *deadletter.Letter) error {
	if l.Reason != deadletter.Unknown || l.Resolved != deadletter.ResolvedAsFailed {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, c.options.LetterTimeout) // the letter's lease goes on
	defer cancel()
	err := idempotency.Admin{Store: c.store}.Resolve(ctx, inbox.RecordID(c.options.Group, l.Key), idempotency.Change{State: idempotency.StateRetryable})
	if errors.Is(err, idempotency.ErrRefused) { // it is known by now, or forgotten
		return nil
	}
	return err
}
