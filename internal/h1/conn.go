package h1

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// conn is a connection, which has one request at a time.
type conn struct {
	net.Conn         // the socket, or what speaks TLS on it
	socket   *socket // nil for what is no socket
	abort    func()  // closes the socket, which ends all reads and writes at once
	tls      *tls.ConnectionState
	home     *host
	since    time.Time // it is idle
	reused   bool

	busy  *exchange   // that has it
	final bool        // the next Write ends the request, and its answer is due at once
	left  int64       // bytes that may still be read of headers
	got   bool        // something of the answer
	wrote atomic.Bool // something of the request
	cut   atomic.Bool // a Write failed
}

func (c *conn) alive() bool {
	return (c.socket == nil || c.socket.alive()) && (c.tls == nil || c.silent())
}

// silent reports whether what speaks TLS has nothing left of what it took from the socket. It reads no more from there.
func (c *conn) silent() bool {
	var one [1]byte
	if c.Conn.SetReadDeadline(time.Unix(1, 0)) != nil {
		return false
	}
	n, err := c.Conn.Read(one[:])
	return n == 0 && errors.Is(err, os.ErrDeadlineExceeded) && c.Conn.SetReadDeadline(time.Time{}) == nil
}

// Read bounds headers.
func (c *conn) Read(p []byte) (int, error) {
	if c.left <= 0 {
		return 0, errHeaders
	}
	n, err := c.Conn.Read(p[:min(int64(len(p)), c.left)])
	c.left -= int64(n)
	c.got = c.got || n > 0
	return n, err
}

// Write notes what became of the request.
func (c *conn) Write(p []byte) (int, error) {
	n, err := 0, error(nil)
	if c.final {
		n = c.socket.ask(p)
	}
	if n < len(p) {
		if c.busy != nil {
			c.busy.late() // it may take longer than a look at the context
		}
		var more int
		more, err = c.Conn.Write(p[n:])
		n += more
	}
	if n > 0 || c.tls != nil {
		c.wrote.Store(true)
	}
	if err != nil {
		c.cut.Store(true)
	}
	return n, err
}

// ReadFrom passes a long body on as it comes, where [bufio.Writer] would wait for 4 KiB of it.
func (c *conn) ReadFrom(r io.Reader) (int64, error) {
	part := parts.Get().(*[32 << 10]byte)
	defer parts.Put(part)
	return io.CopyBuffer(struct{ io.Writer }{c}, r, part[:])
}

// inOne is the length of a body that is written together with its headers, unless it takes longer than together. The server
// sees other headers before the body.
const (
	inOne    = 2 << 10
	together = time.Millisecond
)

// readAhead is how many bytes are read at once, and so of a body before it is asked for.
const readAhead = 8 << 10

var (
	readers = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, readAhead) }}
	writers = sync.Pool{New: func() any { return bufio.NewWriterSize(nil, 4<<10) }}
	parts   = sync.Pool{New: func() any { return new([32 << 10]byte) }} // of bodies
)

// whole reports whether a body is short, and in memory to its end: then it is written at once, and no reader of it waits.
func whole(req *http.Request) bool {
	if bodiless(req) || req.ContentLength <= 0 || req.ContentLength > inOne {
		return false
	}
	b, ok := req.Body.(interface{ Whole() bool })
	return ok && b.Whole()
}

// held hides from net/http that there is something to be flushed.
type held struct {
	mu   sync.Mutex
	w    *bufio.Writer
	over bool // the wait for the body: what comes later goes out as it comes
}

// Write implements [io.Writer].
func (h *held) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n, err := h.w.Write(p)
	if err == nil && h.over {
		err = h.w.Flush()
	}
	return n, err
}

// WriteByte is how net/http knows that no other buffer is needed.
func (h *held) WriteByte(b byte) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.w.WriteByte(b)
}

// flush ends the wait for the body. An error stays in the buffer, and the next Write has it.
func (h *held) flush() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over = true; h.w != nil {
		_ = h.w.Flush()
	}
}

// done takes the buffer away from a flush that comes too late.
func (h *held) done() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.w = nil
}

// inHand is a request's whole body: net/http is not to know that there is something to be flushed before it.
type inHand struct{ *bufio.Writer }

// send writes a request and closes its body. With waits it comes back when there is an answer, or no time for one.
func (c *conn) send(req *http.Request, waits bool) error {
	w := writers.Get().(*bufio.Writer)
	w.Reset(c)
	err := write(req, w)
	if err == nil {
		c.final = waits
		err = w.Flush()
		c.final = false
	}
	w.Reset(nil)
	writers.Put(w)
	return err
}

func write(req *http.Request, w *bufio.Writer) error {
	switch {
	case whole(req):
		return req.Write(inHand{w})
	case bodiless(req) || req.ContentLength <= 0 || req.ContentLength > inOne:
		return req.Write(w)
	}
	h := &held{w: w}
	timer := time.AfterFunc(together, h.flush)
	defer timer.Stop()
	defer h.done()
	return req.Write(h)
}

// An exchange is a request on its connection, and the body of its answer.
type exchange struct {
	t     *Transport
	c     *conn // nil once it was let go
	from  *conn // the same, for the reader
	ctx   context.Context
	r     *bufio.Reader
	stop  func() bool   // of the watch over the context; nil before there is one
	timed bool          // the connection has a deadline until then
	sent  chan struct{} // closed when the request was written; nil if that is so
	wrong error         // why it was not; to be read after sent
	brief bool          // what does not come before the watch is not waited for
	keep  bool          // the connection may be used again
	in    io.ReadCloser // nil means that the answer has no body

	mu      sync.Mutex // guards what follows, and c and r once there is a body
	reading bool
	over    bool
	end     error // what Read returns when it is over
}

func (t *Transport) exchange(c *conn, req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	x := &exchange{t: t, c: c, from: c, ctx: ctx, r: readers.Get().(*bufio.Reader)}
	x.r.Reset((*source)(x))
	c.left, c.got, c.busy = headerLimit, false, nil
	c.wrote.Store(false)
	short := bodiless(req) || whole(req)
	hurries := short && x.hurries()
	if hurries {
		c.busy = x
	} else {
		x.watch()
	}
	if short {
		x.wrong = c.send(req, hurries)
	} else {
		x.sent = make(chan struct{})
		go x.send(c, req)
	}
	resp, err := x.answer(req)
	if err != nil {
		return nil, x.fail(err)
	}
	return x.deliver(resp, req), nil
}

// send is for a body, whose reader may block for as long as it likes. If it fails no answer is waited for; if the connection fails, the
// server may have said why.
func (x *exchange) send(c *conn, req *http.Request) {
	defer func() {
		if v := recover(); v != nil {
			x.wrong = fmt.Errorf("h1: the request's body panicked: %v", v)
		}
		ends := x.wrong != nil && !c.cut.Load()
		close(x.sent) // before the reader fails, so that it finds why
		if ends {
			c.abort()
		}
	}()
	x.wrong = errLeft
	x.wrong = c.send(req, false)
}

// errLeft stands unless what was written is known.
var errLeft = errors.New("h1: the goroutine of the request's body ended in its reader")

// soon is after how long the request's context is watched, if more of the answer is waited for. To watch one costs eleven allocations,
// and most answers are whole sooner. A cancel is seen this much later.
const soon = 10 * time.Millisecond

// hurries puts off the watch over the context, and reports whether it did. The connection's deadline ends a wait for the answer by then.
func (x *exchange) hurries() bool {
	if x.c.tls != nil || x.c.socket == nil {
		return false
	}
	until := time.Now().Add(soon)
	if end, timed := x.ctx.Deadline(); timed && end.Before(until) {
		until = end
	}
	x.timed = x.c.SetReadDeadline(until) == nil
	return x.timed
}

// watch cuts the connection when the context ends.
func (x *exchange) watch() {
	x.settle()
	x.stop = context.AfterFunc(x.ctx, x.c.abort)
}

// settle takes the deadline away, and reports whether the connection is fit.
func (x *exchange) settle() bool { return !x.timed || x.c.SetReadDeadline(time.Time{}) == nil }

// unwatch ends that. It reports false if the connection was cut.
func (x *exchange) unwatch() bool {
	if x.stop == nil {
		return x.settle()
	}
	return x.stop()
}

// source is what an exchange's reader reads from.
type source exchange

// Read waits without a watch over the context at first.
func (s *source) Read(p []byte) (int, error) {
	n, err := s.from.Read(p)
	if err == nil || !errors.Is(err, os.ErrDeadlineExceeded) || !(*exchange)(s).late() {
		return n, err
	}
	more, err := s.from.Read(p[n:])
	return n + more, err
}

// late begins the watch, and reports whether there was none.
func (x *exchange) late() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.over || x.brief || x.c == nil || x.stop != nil {
		return false
	}
	x.watch()
	return true
}

// answer reads the headers of the answer.
func (x *exchange) answer(req *http.Request) (*http.Response, error) {
	if x.sent == nil && x.wrong != nil && !x.c.cut.Load() { // net/http would not write it
		return nil, x.wrong
	}
	if _, err := x.r.Peek(1); err != nil {
		return nil, err
	}
	for {
		resp, err := http.ReadResponse(x.r, req)
		switch {
		case err != nil:
			return nil, err
		case resp.StatusCode >= 200 || resp.StatusCode < 100 || resp.StatusCode == http.StatusSwitchingProtocols:
			x.c.left = math.MaxInt64
			return resp, nil
		}
		trace := httptrace.ContextClientTrace(x.ctx)
		if trace != nil && trace.Got1xxResponse != nil {
			if err := trace.Got1xxResponse(resp.StatusCode, textproto.MIMEHeader(resp.Header)); err != nil {
				return nil, err
			}
		}
	}
}

// fail ends an exchange without an answer.
func (x *exchange) fail(err error) error {
	c, stopped := x.c, x.unwatch()
	c.abort()
	x.free()
	written := x.written(0)
	switch {
	case x.ctx.Err() != nil || x.stop != nil && !stopped:
		return context.Cause(x.ctx)
	case written && x.wrong != nil && !c.cut.Load():
		return x.wrong
	case c.left <= 0:
		err = errHeaders
	}
	if c.got {
		return err
	}
	return died{err, written && !c.wrote.Load()}
}

// afterAnswer is how long the end of a request is waited for whose answer is whole: net/http has it as 50 ms.
const afterAnswer = 10 * time.Millisecond

// written reports whether all of the request was written, or could not be.
func (x *exchange) written(wait time.Duration) bool {
	if x.sent == nil {
		return true
	}
	select {
	case <-x.sent:
		return true
	default:
	}
	if wait == 0 {
		return false
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-x.sent:
		return true
	case <-timer.C:
		return false
	}
}
