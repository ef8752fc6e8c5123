package inbox

import (
	"cmp"
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
	v.Timeout = cmp.Or(v.Timeout, 30*time.Second)
	v.Every = cmp.Or(v.Every, v.Timeout/3)
	v.Max = cmp.Or(v.Max, 5*time.Minute)
	return v
}

// KeepVisible calls extend again and again, so that the broker does not deliver a message to
// others while it is worked on for longer than the broker waits. It counts from its call: extend
// a message once before that lay in a buffer.
//
// The context that it returns ends when extensions have failed for as long as one
// lasts, with [ErrNotKept] as its cause, and after Max, with [ErrKeptTooLong], so
// that work that hangs keeps no message for ever. A failed extension is tried again
// sooner. extend is called by one goroutine at a time, with a context that ends when
// its result would come too late; it must return then.
//
// stop must be called when the work has ended, before the message is acknowledged or returned:
// it returns when no extension is under way.
func KeepVisible(ctx context.Context, v Visibility, extend func(context.Context) error) (alive context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	k := &keeping{Visibility: v.resolved(), begun: time.Now(), extend: extend, cancel: cancel, ended: make(chan struct{})}
	timer := time.AfterFunc(min(k.Every, k.Max), func() { k.keep(ctx) })
	return ctx, func() {
		cancel(nil)
		if timer.Stop() {
			close(k.ended)
		}
		<-k.ended
	}
}

// A keeping is a message that is kept. It has a goroutine only from the first extension on,
// since most work has ended by then.
type keeping struct {
	Visibility
	begun  time.Time
	extend func(context.Context) error
	cancel context.CancelCauseFunc
	ended  chan struct{}
}

func (k *keeping) keep(ctx context.Context) {
	defer close(k.ended)
	k.cancel(k.untilDone(ctx))
}

func (k *keeping) untilDone(ctx context.Context) error {
	until, last := k.begun.Add(k.Timeout), k.begun.Add(k.Max)
	timer := time.NewTimer(0)
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
		end := until
		if last.Before(end) {
			end = last
		}
		err := within(ctx, end, k.extend)
		pause := k.Every
		switch left := time.Until(until); {
		case err == nil:
			until = now.Add(k.Timeout) // it began no earlier than the call
		case left <= 0:
			return fmt.Errorf("%w: %w", ErrNotKept, err)
		default:
			pause = min(k.Every/4, left)
		}
		timer.Reset(min(pause, time.Until(last)))
	}
}

// within extends. A panic of extend counts as a failure: it runs on a goroutine of ours, where
// only we can recover.
func within(ctx context.Context, end time.Time, extend func(context.Context) error) (err error) {
	ctx, cancel := context.WithDeadline(ctx, end)
	defer cancel()
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("inbox: extending a message panicked: %v", v)
		}
	}()
	return extend(ctx)
}
