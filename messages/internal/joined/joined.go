// Package joined has a context that ends when the first of several ends. It costs nothing but
// itself until its end is asked for, which most quick work never does.
package joined

import (
	"context"
	"sync"
	"time"
)

// A Context has the values of two contexts and ends with either, or at a time of its own.
// What ends it is made when Done is first called, and then is the standard library's, so that
// causes, children and AfterFunc behave as everywhere else. Make it as a literal; it must not be
// copied after first use, and End must be called.
type Context struct {
	context.Context                 // whose values are asked first
	Other           context.Context // nil means none
	Unread          bool            // of Other only the end is of interest, and not its values and deadline
	At              time.Time       // when it ends by itself; zero means never
	Cause           error           // of that end

	mu     sync.Mutex // guards all below
	armed  context.Context
	cancel context.CancelCauseFunc
	stop   func() bool
	over   bool
	err    error // what Err has answered; nil before the end
}

// Deadline implements [context.Context]: the first of all.
func (c *Context) Deadline() (at time.Time, has bool) {
	at, has = c.Context.Deadline()
	if !c.At.IsZero() && (!has || c.At.Before(at)) {
		at, has = c.At, true
	}
	if c.Other != nil && !c.Unread {
		if other, too := c.Other.Deadline(); too && (!has || other.Before(at)) {
			at, has = other, true
		}
	}
	return at, has
}

// Done implements [context.Context].
func (c *Context) Done() <-chan struct{} { return c.arm().Done() }

// Err implements [context.Context].
func (c *Context) Err() error {
	if c.untouched() && c.Context.Err() == nil && (c.Other == nil || c.Other.Err() == nil) && (c.At.IsZero() || time.Now().Before(c.At)) {
		return nil
	}
	err := c.arm().Err()
	if err == context.Canceled && c.Other != nil && c.Context.Err() == nil && c.Other.Err() == context.DeadlineExceeded {
		err = context.DeadlineExceeded
	}
	return c.first(err)
}

// first returns the error that was the first answer. Whatever ends later changes nothing of it.
func (c *Context) first(err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = err
	}
	return c.err
}

// Value implements [context.Context]. Once the end was asked for, the standard library
// finds its cause here.
func (c *Context) Value(key any) any {
	first := c.Context
	c.mu.Lock()
	if c.armed != nil {
		first = c.armed
	}
	c.mu.Unlock()
	if v := first.Value(key); v != nil || c.Other == nil || c.Unread {
		return v
	}
	return c.Other.Value(key)
}

func (c *Context) untouched() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.armed == nil && !c.over
}

func (c *Context) arm() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.armed != nil {
		return c.armed
	}
	parent := c.Context
	cleanup := context.CancelFunc(func() {})
	if !c.At.IsZero() {
		parent, cleanup = context.WithDeadlineCause(parent, c.At, c.Cause)
	}
	ctx, cancel := context.WithCancelCause(parent)
	c.armed, c.cancel = ctx, func(cause error) {
		cancel(cause)
		cleanup()
	}
	if c.Other != nil {
		other := c.Other
		c.stop = context.AfterFunc(other, func() { cancel(context.Cause(other)) })
		if other.Err() != nil { // this call already sees the end
			cancel(context.Cause(other))
		}
	}
	if c.over {
		c.cancel(nil)
		if c.stop != nil {
			c.stop()
		}
	}
	return c.armed
}

// End ends the context and frees what it has.
func (c *Context) End() {
	c.mu.Lock()
	c.over = true
	cancel, stop := c.cancel, c.stop
	c.mu.Unlock()
	if cancel != nil {
		cancel(nil)
	}
	if stop != nil {
		stop()
	}
}
