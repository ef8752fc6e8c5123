package gabionhttp

import (
	"bytes"
	"fmt"
	"io"
	"reflect"
	"strings"
	"sync/atomic"
)

// fresh is a copy that the caller's GetBody gave.
type fresh struct {
	io.ReadCloser
	b      *body
	size   int64 // how much was read
	closed atomic.Bool
	shares bool // it reads the caller's own bytes, and may outlive the call
}

// another asks the caller for a copy: not under the lock, since it is the caller's code.
func (b *body) another() (io.ReadCloser, error) {
	if b.many {
		b.use.Lock()
		defer b.use.Unlock()
		if b.sealed() {
			return nil, errBodyOver
		}
	}
	rc, err := b.get()
	if rc == nil && err == nil {
		err = errNoBody
	}
	if err != nil {
		if b.replay == nil || b.replay.Fixed() == nil {
			b.fail()
		}
		return nil, err
	}
	return b.lend(rc), nil
}

// lend makes one of what GetBody returned.
func (b *body) lend(rc io.ReadCloser) io.ReadCloser {
	if _, ok := inHand(rc); ok && b.plain {
		return rc
	}
	return &fresh{ReadCloser: rc, b: b, shares: b.many && inMemory(rc)}
}

// inMemory reports whether r reads bytes of the caller's.
func inMemory(r io.Reader) bool {
	switch unwrapped(r).(type) {
	case *bytes.Reader, *bytes.Buffer:
		return true
	}
	return false
}

// inHand returns the length of a body of the kind that http.NewRequest makes.
func inHand(rc io.ReadCloser) (int, bool) {
	switch r := unwrapped(rc).(type) {
	case *bytes.Reader:
		return r.Len(), true
	case *bytes.Buffer:
		return r.Len(), true
	case *strings.Reader:
		return r.Len(), true
	}
	return 0, false
}

// Read notes when the copy fails by itself, and not because it was closed.
func (f *fresh) Read(p []byte) (n int, err error) {
	if f.shares {
		n, err = f.b.readShared(f.ReadCloser, p)
	} else {
		n, err = f.ReadCloser.Read(p)
	}
	f.size += int64(n)
	if !f.closed.Load() && err != errBodyOver && (err != nil && err != io.EOF || f.b.differs(f.size, err)) {
		f.b.fail()
	}
	return n, err
}

// readShared reads bytes of the caller's, unless the call is over and they may be
// something else by now.
func (b *body) readShared(r io.Reader, p []byte) (int, error) {
	b.use.Lock()
	defer b.use.Unlock()
	if b.sealed() {
		return 0, errBodyOver
	}
	return r.Read(p)
}

// Close ends a pending Read.
func (f *fresh) Close() error {
	f.closed.Store(true)
	return f.ReadCloser.Close()
}

// differs reports whether a body's length is not the declared one. size bytes of it were read,
// the last with err.
func (b *body) differs(size int64, err error) bool {
	return b.size > 0 && (size > b.size || err == io.EOF && size < b.size)
}

func (b *body) sealed() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.done
}

// seal ends the call for attempts that are still out: when it returns, none reads the
// caller's bytes any more, which may be something else from now on.
func (b *body) seal() {
	b.mu.Lock()
	b.done = true
	b.mu.Unlock()
	if !b.many {
		return
	}
	b.use.Lock()   // memory is soon read, and GetBody done
	b.use.Unlock() //nolint:staticcheck // it was only waited for
}

// nopClosers are what http.NewRequest puts round a reader that can't be closed.
var nopClosers = [...]reflect.Type{
	reflect.TypeOf(io.NopCloser(nil)),
	reflect.TypeOf(io.NopCloser(struct {
		io.Reader
		io.WriterTo
	}{})),
}

// unwrapped is the reader in an io.NopCloser, or r.
func unwrapped(r io.Reader) io.Reader {
	if t := reflect.TypeOf(r); t == nopClosers[0] || t == nopClosers[1] {
		if inner, ok := reflect.ValueOf(r).Field(0).Interface().(io.Reader); ok {
			return inner
		}
	}
	return r
}

// rewindable finds out whether the original can be sought back to where it is now.
func (b *body) rewindable() {
	s, ok := unwrapped(b.orig).(io.Seeker)
	if !ok {
		return
	}
	if at, err := s.Seek(0, io.SeekCurrent); err == nil { // a pipe is a file that can't
		b.seek, b.start, b.over = s, at, true
	}
}

// canRewind is called with the lock.
func (b *body) canRewind() bool { return b.seek != nil && !b.closed && b.reads == 0 }

// rewind makes the original ready for another attempt, if it can. It is called with the lock,
// which keeps the attempt before from reading on.
func (b *body) rewind() bool {
	if !b.canRewind() {
		return false
	}
	_, err := b.seek.Seek(b.start, io.SeekStart)
	return err == nil
}

// whyFixed says why a body can't be sent again.
func (b *body) whyFixed() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	size := "of unknown length"
	if b.size > 0 {
		size = fmt.Sprintf("of %d bytes", b.size)
	}
	switch {
	case b.replay != nil:
		return fmt.Errorf("the request body %s was not remembered: %w", size, b.replay.Fixed())
	case b.seek != nil:
		return fmt.Errorf("the request body %s could not be rewound", size)
	case !b.over:
		return fmt.Errorf("the request body %s has no GetBody, is no io.Seeker, and was not read to its end", size)
	}
	return fmt.Errorf("the request body %s has no GetBody, is no io.Seeker, and is longer than HTTP.ReplayLimit, %d bytes", size, b.limit)
}
