package gabionhttp

import (
	"context"
	"time"
)

// cancelable returns the context of the call. Request.Cancel is deprecated; its main user left
// is http.Client with a Timeout, which closes the channel at the deadline that the context has,
// too. When the channel closes earlier the caller has cancelled, and this context ends.
func (c *exchange) cancelable() context.Context {
	ctx := c.req.Context()
	if c.req.Cancel == nil {
		return ctx
	}
	ctx, c.quit = context.WithCancel(ctx)
	c.live = ctx.Done()
	if _, timed := ctx.Deadline(); !timed { // else net/http watches it, and this does after a failure
		c.attend()
	}
	return ctx
}

// quits reports whether the caller gave up by Request.Cancel.
func (c *exchange) quits() bool {
	select {
	case <-c.req.Cancel:
	default:
		return false
	}
	at, timed := c.req.Context().Deadline()
	return !timed || time.Until(at) > time.Millisecond
}

// heed ends the call if the caller gave up by Request.Cancel.
func (c *exchange) heed() {
	if c.quit != nil && c.quits() {
		c.quit()
	}
}

// attend heeds Request.Cancel from now on until the call and its answer are over.
func (c *exchange) attend() {
	if c.quit == nil || c.attended.Swap(true) {
		return
	}
	go func() {
		select {
		case <-c.req.Cancel:
			c.heed()
		case <-c.live:
		}
	}()
}

// over is the end of the call and its answer.
func (c *exchange) over() {
	if c.quit != nil {
		c.quit()
	}
}
