package gabionhttp

import (
	"context"
	"net/http"
	"runtime"
	"time"
)

// freeTime is how long an attempt that is over waits for net/http to be done with its
// request. Only a reader of the caller's that blocks takes longer.
const freeTime = 20 * time.Millisecond

// live reports whether the body is read while it is sent, from a reader that may block
// for as long as it likes: a client that stops in the middle of an upload, a pipe.
func (b *body) live() bool {
	if b == nil {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.orig != nil && b.get == nil && !b.ended
}

// roundTrip sends one attempt. net/http does not return before the request's body is
// done with, whatever the context says, and a reader that blocks would hold the
// attempt's slot long after its time. So such an attempt is left behind.
func (c *exchange) roundTrip(out *http.Request) (*http.Response, error) {
	if !c.body.live() {
		return c.t.base().RoundTrip(out)
	}
	u := &upload{done: make(chan struct{})}
	go u.send(c.t.base(), out)
	select {
	case <-u.done:
		return u.landed()
	case <-out.Context().Done():
	}
	timer := time.NewTimer(freeTime)
	defer timer.Stop()
	select {
	case <-u.done:
		return u.landed()
	case <-timer.C:
	}
	go u.drop()
	return nil, context.Cause(out.Context())
}

// upload is one attempt that sends a live body, on a goroutine of its own.
type upload struct {
	done  chan struct{}
	back  bool // it came back, and did not leave by a panic or by Goexit
	resp  *http.Response
	err   error
	panic any
}

func (u *upload) send(base http.RoundTripper, out *http.Request) {
	defer close(u.done)
	defer func() { u.panic = recover() }()
	u.resp, u.err = base.RoundTrip(out)
	u.back = true
}

// landed is what the attempt brought, or how it left.
func (u *upload) landed() (*http.Response, error) {
	switch {
	case u.panic != nil:
		panic(u.panic)
	case !u.back:
		runtime.Goexit()
	}
	return u.resp, u.err
}

// drop waits for an attempt that was left behind, and closes what it brought after all.
func (u *upload) drop() {
	<-u.done
	defer func() { _ = recover() }() // of a body whose Close panics: nobody is there to hear it
	discard(u.resp)
}
