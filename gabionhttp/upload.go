package gabionhttp

import (
	"context"
	"net/http"
	"runtime"
	"time"

	"github.com/gabion-go/gabion/internal/adapter"
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
	if b.replay != nil {
		return !b.replay.Whole()
	}
	return b.orig != nil && b.get == nil && !b.ended
}

// roundTrip sends one attempt. net/http does not return before the request's body is
// done with, whatever the context says, and a reader that blocks would hold the
// attempt's slot long after its time. So such an attempt is left behind.
func (c *exchange) roundTrip(out *http.Request) (*http.Response, error) {
	if p, ok := c.t.base().(adapter.Prompt); !c.body.live() || ok && p.Prompt(out) {
		return c.t.base().RoundTrip(out)
	}
	var resp *http.Response
	var err error
	u := aside(func() { resp, err = c.t.base().RoundTrip(out) })
	select {
	case <-u.done:
		u.landed()
		return resp, err
	case <-out.Context().Done():
	}
	timer := time.NewTimer(freeTime)
	defer timer.Stop()
	select {
	case <-u.done:
		u.landed()
		return resp, err
	case <-timer.C:
	}
	go func() { // what it brings after all
		<-u.done
		defer func() { _ = recover() }() // of a body whose Close panics: there is no caller to report it to
		discard(resp)
	}()
	return nil, context.Cause(out.Context())
}

// detached is code that may block for as long as it likes, on a goroutine of its own.
type detached struct {
	done  chan struct{}
	back  bool // it came back, and did not leave by a panic or by Goexit
	panic any
}

func aside(f func()) *detached {
	b := &detached{done: make(chan struct{})}
	go b.run(f)
	return b
}

func (b *detached) run(f func()) {
	defer close(b.done)
	defer func() { b.panic = recover() }()
	f()
	b.back = true
}

// landed makes the caller's goroutine leave as the code did, if it did.
func (b *detached) landed() {
	switch {
	case b.panic != nil:
		panic(b.panic)
	case !b.back:
		runtime.Goexit()
	}
}
