//go:build unix

package h1

import (
	"net"
	"syscall"
)

// Looks is whether idle connections are looked at before they are used.
const Looks = true

// socket is what the kernel is asked about a connection without TLS. A call on it is one at a time.
type socket struct {
	raw           syscall.RawConn
	looks, speaks func(fd uintptr) bool // made once
	one           [1]byte               // a byte that is there is lost, with the connection
	fit           bool
	words         []byte // to be written; nil once that was tried
	written       int
}

// socketOf returns nil for what is no socket.
func socketOf(c net.Conn) *socket {
	within, ok := c.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := within.SyscallConn()
	if err != nil {
		return nil
	}
	s := &socket{raw: raw}
	s.looks, s.speaks = s.look, s.speak
	return s
}

// alive reports whether an idle connection is still fit for a request: its other end has neither closed it nor sent anything.
func (s *socket) alive() bool { return s.raw.Read(s.looks) == nil && s.fit }

func (s *socket) look(fd uintptr) bool {
	_, err := syscall.Read(int(fd), s.one[:])
	s.fit = err == syscall.EAGAIN || err == syscall.EWOULDBLOCK || err == syscall.EINTR
	return true
}

// ask writes p and waits until there is something to be read, or until the deadline of that. It returns how many bytes were
// written. If that is less than all it has not waited. Read would ask the kernel once more, and in vain, before it waits.
//
// What comes before ask is called may go unseen until the deadline.
func (s *socket) ask(p []byte) int {
	s.words, s.written = p, 0
	_ = s.raw.Read(s.speaks) // the next Read finds the same error
	s.words = nil
	return s.written
}

// speak is called again when there is something to be read. The runtime notes what comes from before its first call on, so
// that an answer that is there before the wait begins is not missed.
func (s *socket) speak(fd uintptr) bool {
	if s.words == nil {
		return true
	}
	n, _ := syscall.Write(int(fd), s.words) // an error comes back at the next Write
	all := n == len(s.words)
	s.words, s.written = nil, max(n, 0)
	return !all
}
