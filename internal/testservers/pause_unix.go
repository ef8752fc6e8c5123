//go:build unix

package testservers

import (
	"syscall"
	"time"
)

// Pause stops the server's process for some time, as a machine that swaps would: connections stay, and nothing is
// answered. A server of several processes is stopped in part.
func (s *Server) Pause(d time.Duration) {
	s.t.Helper()
	if err := s.child.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		s.t.Fatalf("testservers: pause %s: %v", s.kind.name, err)
	}
	time.Sleep(d)
	if err := s.child.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		s.t.Fatalf("testservers: go on with %s: %v", s.kind.name, err)
	}
}
