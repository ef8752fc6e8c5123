package inbox

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Why the context that [KeepVisible] returns ends. See [context.Cause].
var (
	// ErrNotKept: the message could not be kept from others, who may have it by now.
	ErrNotKept = errors.New("inbox: the message could not be kept from other consumers")

	// ErrKeptTooLong: the message was kept for as long as it may be.
	ErrKeptTooLong = errors.New("inbox: the message was kept from other consumers for too long")
)

// A Visibility says how long a broker keeps a message from others, and for how long
// to prolong that.
type Visibility struct {
	Timeout time.Duration // how long delivery and each extension last; zero means 30 s
	Every   time.Duration // how often to extend; zero means every third of Timeout
	Max     time.Duration // how long to go on; zero means 5 min
}

func (v Visibility) resolved() Visibility {
	v.Timeout = or(v.Timeout, 30*time.Second)
	v.Every = or(v.Every, v.Timeout/3)
	v.Max = or(v.Max, 5*time.Minute)
	return v
}

// KeepVisible calls extend again and again, so that a message that is worked on for
// longer than the broker waits is not delivered to others meanwhile. It counts from
// its call: extend a message once before that lay in a buffer.
//
// The context that it returns ends when extensions have failed for as long as one
// lasts, with [ErrNotKept] as its cause, and after Max, with [ErrKeptTooLong], so
// that work that hangs keeps no message for ever. A failed extension is tried again
// sooner. extend is called by one goroutine at a time, with a context that ends when
// its result would come too late; it must return then.
//
// stop must be called when the work has ended, and before the broker is told so: it
// returns when no extension is under way.
func KeepVisible(ctx context.Context, v Visibility, extend func(context.Context) error) (alive context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	ended := make(chan struct{})
	begun := time.Now()
	go func() {
		defer close(ended)
		cancel(v.resolved().keep(ctx, begun, extend))
	}()
	return ctx, func() {
		cancel(nil)
		<-ended
	}
}

func (v Visibility) keep(ctx context.Context, begun time.Time, extend func(context.Context) error) error {
	until, last := begun.Add(v.Timeout), begun.Add(v.Max)
	timer := time.NewTimer(min(v.Every, v.Max))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-timer.C:
		}
		now := time.Now()
		if !now.Before(last) {
			return ErrKeptTooLong
		}
		err := within(ctx, until, extend)
		pause := v.Every
		switch left := time.Until(until); {
		case err == nil:
			until = now.Add(v.Timeout) // it began no earlier than the call
		case left <= 0:
			return fmt.Errorf("%w: %w", ErrNotKept, err)
		default:
			pause = min(v.Every/4, left)
		}
		timer.Reset(min(pause, time.Until(last)))
	}
}

func within(ctx context.Context, end time.Time, extend func(context.Context) error) error {
	ctx, cancel := context.WithDeadline(ctx, end)
	defer cancel()
	return extend(ctx)
}
