package idempotency

import (
	"cmp"
	"net/http"
	"strconv"
)

const headerLength = "Content-Length"

// A lengthCount compares what a handler writes with the length that it declared.
type lengthCount struct {
	declared bool
	length   int64 // of the body, if it is declared
	wrote    int64
}

// declare notes the Content-Length of a header. It ignores an invalid one, as net/http does.
func (c *lengthCount) declare(header lines) {
	n, err := strconv.ParseInt(first(header.get(headerLength)), 10, 64)
	if c.declared = err == nil && n >= 0; c.declared {
		c.length = n
	}
}

// add counts n more bytes, unless they are more than was declared.
func (c *lengthCount) add(n int) bool {
	if c.declared && c.wrote+int64(n) > c.length {
		return false
	}
	c.wrote += int64(n)
	return true
}

// short reports whether the handler wrote less than it declared: its client gets half an
// answer. Where the client is why, because it is gone, the answer is as good as any. Only
// after close.
func (c *recorder) short() bool {
	return c.count.declared && c.count.wrote < c.count.length && !c.head && !c.gone && !c.hijacked && bodyAllowed(c.status)
}

// retract takes back what the handler said of an answer that is not sent, so that another can be
// sent in its place. Only after close.
func (c *recorder) retract(before lines) {
	switch {
	case c.sent || c.hijacked:
	case before != nil:
		before.restore(c.w.Header())
	default:
		for _, name := range []string{headerLength, "Content-Encoding", "Etag"} {
			delete(c.w.Header(), name)
		}
	}
}

// headLength is the line of the stored result that says what an answer to HEAD says.
func (c *recorder) headLength() []Field {
	if !c.head || !c.count.declared || !bodyAllowed(c.status) {
		return nil
	}
	return []Field{{headerLength, strconv.FormatInt(c.count.length, 10)}}
}

// sayLength declares the length of a stored answer, so that every client sees when it is cut
// off: one of HTTP/1.0 can't tell otherwise. Where trailers can follow it declares no length
// (RFC 9112, section 6.3). An answer to HEAD has the length that was stored with it.
func sayLength(head http.Header, r *http.Request, res Result) {
	switch {
	case !bodyAllowed(cmp.Or(res.Status, http.StatusOK)), len(res.Trailer) > 0 && r.ProtoAtLeast(1, 1):
		delete(head, headerLength)
	case r.Method != http.MethodHead:
		head[headerLength] = []string{strconv.Itoa(len(res.Body))}
	}
}
