//go:build unix

package h1

import (
	"net"
	"syscall"
)

// looker returns what says whether an idle connection is still fit for a request: its other end has neither closed it nor
// sent anything. It is nil for what is no socket.
func looker(c net.Conn) func() bool {
	s, ok := c.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return nil
	}
	var fit bool
	var one [1]byte // a byte that is there is lost, with the connection
	read := func(fd uintptr) bool {
		_, err := syscall.Read(int(fd), one[:])
		fit = err == syscall.EAGAIN || err == syscall.EWOULDBLOCK || err == syscall.EINTR
		return true
	}
	return func() bool { return raw.Read(read) == nil && fit }
}
