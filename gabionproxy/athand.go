package gabionproxy

import (
	"io"
	"net/http"
)

// mostAtHand is the length of bodies that are read before anything is done, if they came together with their headers.
const mostAtHand = 2 << 10

// atHand is a body of which some, or all, is in memory.
type atHand struct {
	io.ReadCloser
	bytes []byte // not yet read
	err   error  // what comes after them; nil means the rest, from the client
	again replay // of all of it
}

// short is one with room for most bodies.
type short struct {
	atHand
	room [1 << 10]byte
}

// whole reports whether all of the body is in memory, and none of it was read.
func (a *atHand) whole(size int64) bool { return a.err == io.EOF && int64(len(a.bytes)) == size }

// Read implements [io.Reader].
func (a *atHand) Read(p []byte) (int, error) {
	if len(a.bytes) == 0 {
		if a.err != nil {
			return 0, a.err
		}
		return a.ReadCloser.Read(p)
	}
	n := copy(p, a.bytes)
	a.bytes = a.bytes[n:]
	return n, nil
}

// readAtOnce takes what is there of a short body, without waiting, and reports whether that is all of it.
func readAtOnce(r *http.Request) bool {
	if r.ProtoMajor != 1 || r.ContentLength <= 0 || r.ContentLength > mostAtHand || r.Header["Expect"] != nil {
		return false
	}
	c, _ := r.Context().Value(connKey{}).(*boundedConn)
	if c == nil {
		return false
	}
	var a *atHand
	var into []byte
	if s := (*short)(nil); r.ContentLength <= int64(len(s.room)) {
		s = new(short)
		a, into = &s.atHand, s.room[:r.ContentLength]
	} else {
		a, into = new(atHand), make([]byte, r.ContentLength)
	}
	n := 1
	a.ReadCloser = r.Body
	c.held = true
	for len(a.bytes) < len(into) && n > 0 && a.err == nil {
		n, a.err = r.Body.Read(into[len(a.bytes):])
		a.bytes = into[:len(a.bytes)+n]
	}
	c.held = false
	r.Body = a
	return a.err == io.EOF
}
