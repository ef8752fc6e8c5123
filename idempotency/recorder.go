package idempotency

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

var errWroteLate = errors.New("idempotency: the response was written to after the handler returned")

// A host is whom a recorder works for. All but verified is called outside the recorder's
// lock.
type host interface {
	note(EventKind)
	keepEarly(Result) // stores the result of a response that can't be kept, before it is sent
	verified() bool   // the request's body is what its client said
}

// A recorder is the ResponseWriter that the handler sees. It holds the response back until it is
// stored, so that no client sees an answer that a retry would not get. It lets go early when the
// handler flushes or the body is too big to keep; inside a transaction it never does.
//
// It has no Unwrap: code that got at the ResponseWriter below could answer past the
// record.
type recorder struct {
	w      http.ResponseWriter
	limit  int // most bytes of body to keep
	host   host
	head   bool        // the request is for the header alone: a body is counted and not kept
	closed atomic.Bool // the handler has returned

	mu       sync.Mutex // guards all below but held against handlers that write after they returned
	status   int        // zero until the header is written
	header   lines
	count    lengthCount
	body     []byte
	held     bool // nothing is sent before COMMIT; never changes
	sent     bool // the header and body so far are on their way
	omitted  bool // the body is not kept
	stored   bool // early was called
	hijacked bool
	gone     bool // the client is: a write to it failed, and the handler was told
	burst    bool // a held body outgrew every bound: the run must be rolled back
	pending  []EventKind
}

// heldBodies is how many times the limit a response may hold before COMMIT, when it
// is too big to be kept and must not be sent yet.
const heldBodies = 16

// unlock tells the observer outside the lock.
func (c *recorder) unlock() {
	pending := c.pending
	c.pending = nil
	c.mu.Unlock()
	for _, s := range pending {
		c.host.note(s)
	}
}

// Header implements [http.ResponseWriter]. After the handler has returned it is an empty
// one: over HTTP/2 the real one is gone, and asking for it panics.
func (c *recorder) Header() http.Header {
	if c.closed.Load() {
		return http.Header{}
	}
	return c.w.Header()
}

// WriteHeader implements [http.ResponseWriter]. Informational responses pass.
func (c *recorder) WriteHeader(status int) {
	if c.noteHeader(status) {
		c.giveUp()
		c.mu.Lock()
		c.send()
		c.unlock()
	}
}

// noteHeader reports whether the connection is about to become something else.
func (c *recorder) noteHeader(status int) (switching bool) {
	c.mu.Lock()
	defer c.unlock()
	switch {
	case c.closed.Load():
		c.pending = append(c.pending, eventWrittenLate)
	case c.status != 0 || c.hijacked:
	case status >= 100 && status < 200 && status != http.StatusSwitchingProtocols:
		if !c.held {
			c.w.WriteHeader(status)
		}
	case status < 100 || status > 999:
		panic(fmt.Sprintf("idempotency: invalid status code %d", status)) // as net/http does, while the handler runs
	default:
		c.writeHeader(status)
		return status == http.StatusSwitchingProtocols
	}
	return false
}

// writeHeader notes the header as it is now: what the handler changes later is not
// part of it, as in net/http.
func (c *recorder) writeHeader(status int) {
	c.status, c.header = status, linesOf(c.w.Header())
	c.count.declare(c.header)
}

// Write implements [http.ResponseWriter]. While the response is recorded it does
// not fail when the client is gone, so that the record is whole. Like net/http's it takes
// no more than the Content-Length that was declared.
func (c *recorder) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.unlock()
	switch {
	case c.hijacked:
		return 0, http.ErrHijacked
	case c.closed.Load():
		c.pending = append(c.pending, eventWrittenLate)
		return 0, errWroteLate
	case c.status == 0:
		c.writeHeader(http.StatusOK)
	}
	if !bodyAllowed(c.status) {
		return 0, http.ErrBodyNotAllowed
	}
	if c.count.wrote == 0 && len(p) > 0 {
		c.sniff(p)
	}
	if !c.count.add(len(p)) {
		return 0, http.ErrContentLength
	}
	if c.head {
		return len(p), nil
	}
	if !c.omitted && len(c.body)+len(p) > c.limit {
		c.overflow()
	}
	if c.held && len(c.body)+len(p) > heldBodies*c.limit {
		c.burst = true
		return 0, ErrTooLarge
	}
	if !c.omitted || c.held {
		c.body = append(c.body, p...)
	}
	if !c.sent {
		return len(p), nil
	}
	n, err := c.w.Write(p)
	if c.omitted {
		c.gone = c.gone || err != nil
		return n, err
	}
	return len(p), nil
}

// overflow stops keeping the body: what there is goes out.
func (c *recorder) overflow() {
	c.omitted = true
	c.pending = append(c.pending, eventBodyOmitted)
	if !c.held {
		c.sendEarly()
		c.body = nil
	}
}

// sniff sets the type that net/http would send, so that the replay has the same.
func (c *recorder) sniff(p []byte) {
	if !c.header.has("Content-Type") && first(c.header.get("Content-Encoding")) == "" && !c.sent {
		c.header.set("Content-Type", []string{http.DetectContentType(p)})
	}
}

func bodyAllowed(status int) bool {
	return status >= 200 && status != http.StatusNoContent && status != http.StatusNotModified
}

// send lets go of what is held back.
func (c *recorder) send() {
	if c.sent || c.hijacked {
		return
	}
	c.sent = true
	c.header.restore(c.w.Header())
	c.w.WriteHeader(c.status)
	if len(c.body) > 0 {
		c.w.Write(c.body)
	}
}

// sendEarly lets go of it before the end. Until the request's body is verified no length
// is said: a client of HTTP/1.1 that has so much takes the answer for whole, although it
// is broken off afterwards.
func (c *recorder) sendEarly() {
	if !c.sent && !c.host.verified() {
		c.header.drop(func(name string) bool { return name == headerLength })
	}
	c.send()
}

// giveUp stores that the work was done and its response is not kept.
func (c *recorder) giveUp() {
	c.mu.Lock()
	status, first := c.status, !c.stored && !c.held
	c.omitted, c.stored = true, c.stored || first
	c.pending = append(c.pending, eventBodyOmitted)
	c.unlock()
	if first {
		c.host.keepEarly(Result{Status: status, Omitted: true})
	}
}

// Flush implements [http.Flusher].
func (c *recorder) Flush() { _ = c.FlushError() }

// FlushError sends what there is, except inside a transaction. An event stream has
// no end that could be kept: it counts as done from the first flush on. Like Write it
// does not fail when the client is gone, while the response is recorded.
func (c *recorder) FlushError() error {
	endless, err := c.beforeFlush()
	if err != nil || c.held {
		return err
	}
	if endless {
		c.giveUp()
	}
	c.mu.Lock()
	defer c.unlock()
	c.sendEarly()
	if c.omitted {
		c.body = nil
	}
	err = http.NewResponseController(c.w).Flush()
	if c.omitted || errors.Is(err, http.ErrNotSupported) {
		return err
	}
	return nil
}

func (c *recorder) beforeFlush() (endless bool, err error) {
	c.mu.Lock()
	defer c.unlock()
	switch {
	case c.closed.Load():
		return false, errWroteLate
	case c.hijacked:
		return false, http.ErrHijacked
	case c.held:
		c.pending = append(c.pending, eventFlushHeld)
		return false, nil
	case c.status == 0:
		c.writeHeader(http.StatusOK)
	}
	return !c.stored && strings.HasPrefix(first(c.header.get("Content-Type")), "text/event-stream"), nil
}

// Hijack implements [http.Hijacker]. From then on the work counts as done.
func (c *recorder) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := c.hijack()
	if err == nil {
		c.giveUp()
	}
	return conn, rw, err
}

func (c *recorder) hijack() (net.Conn, *bufio.ReadWriter, error) {
	c.mu.Lock()
	defer c.unlock()
	if c.closed.Load() || c.hijacked || c.held {
		return nil, nil, http.ErrNotSupported
	}
	conn, rw, err := http.NewResponseController(c.w).Hijack()
	if err != nil {
		return nil, nil, err
	}
	c.status = cmp.Or(c.status, http.StatusSwitchingProtocols)
	c.hijacked = true
	return conn, rw, nil
}

// SetReadDeadline, SetWriteDeadline and EnableFullDuplex are for
// [http.ResponseController], which would find them by Unwrap otherwise.

// SetReadDeadline passes the deadline on, while there is a stream or it is the request's
// connection.
func (c *recorder) SetReadDeadline(t time.Time) error {
	if c.closed.Load() {
		return errWroteLate
	}
	return http.NewResponseController(c.w).SetReadDeadline(t)
}

// SetWriteDeadline does the same.
func (c *recorder) SetWriteDeadline(t time.Time) error {
	if c.closed.Load() {
		return errWroteLate
	}
	return http.NewResponseController(c.w).SetWriteDeadline(t)
}

// EnableFullDuplex passes the wish on.
func (c *recorder) EnableFullDuplex() error {
	return http.NewResponseController(c.w).EnableFullDuplex()
}

// close ends recording: the handler has returned.
func (c *recorder) close(normally bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed.Store(true)
	if normally && c.status == 0 && !c.hijacked {
		c.writeHeader(http.StatusOK)
	}
	if c.head && !c.count.declared && c.count.wrote > 0 && !c.sent {
		c.header.set(headerLength, []string{strconv.FormatInt(c.count.wrote, 10)})
		c.count.declare(c.header)
	}
}

// result returns what is to be kept. Only after close.
func (c *recorder) result(extra map[string]bool) Result {
	r := Result{Status: c.status, Header: sorted(append(keptFields(c.header, extra), c.headLength()...)), Body: c.body, Omitted: c.omitted}
	r.Trailer = slices.DeleteFunc(trailerFields(c.header, c.w.Header()), func(f Field) bool { return forbidden(f.Name) })
	if r.Omitted {
		r.Body = nil
	}
	return r
}

// finish sends what is still held back, and all trailers. Only after close.
func (c *recorder) finish() {
	if c.sent || c.hijacked {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	trailer := trailerFields(c.header, c.w.Header())
	if len(trailer) > 0 {
		c.header.declare(trailer)
	}
	c.send()
	put(c.w.Header(), trailer)
}

// declare names trailers up front, so that net/http leaves room for them.
func (l *lines) declare(trailer []Field) {
	l.drop(func(name string) bool { return strings.HasPrefix(name, http.TrailerPrefix) })
	l.set(headerTrailer, namesOf(trailer))
}

// namesOf returns each name once.
func namesOf(fields []Field) (names []string) {
	for i, f := range fields {
		if i == 0 || f.Name != fields[i-1].Name {
			names = append(names, f.Name)
		}
	}
	return names
}
