package classify

import (
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/gabion-go/gabion/policy"
)

// The errors that package net returns on Windows, by the numbers in them: those of
// Winsock, for which the portable names don't stand.
func TestErrorsOfWindowsSockets(t *testing.T) {
	dial := func(n syscall.Errno) error {
		return &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connectex", n)}
	}
	read := func(n syscall.Errno) error {
		return &net.OpError{Op: "read", Net: "tcp", Err: os.NewSyscallError("wsarecv", n)}
	}
	write := func(n syscall.Errno) error {
		return &net.OpError{Op: "write", Net: "tcp", Err: os.NewSyscallError("wsasend", n)}
	}
	tests := []struct {
		name string
		err  error
		want policy.Outcome
	}{
		{"refused", dial(10061), unsentNet},
		{"network unreachable", dial(10051), unsentNet},
		{"host unreachable", dial(10065), unsentNet},
		{"the dial gets no answer", dial(10060), unsent(policy.ClassTimeout)},
		{"the dial gets no answer, as the completion port says it", dial(121), unsent(policy.ClassTimeout)},
		{"out of local ports", dial(10048), unsentNet},
		{"out of buffers", dial(10055), unsentNet},
		{"a firewall forbids it", dial(syscall.WSAEACCES), refused},
		{"reset", read(syscall.WSAECONNRESET), sentNet},
		{"aborted by this machine", read(syscall.WSAECONNABORTED), sentNet},
		{"reset under an overlapped read", read(syscall.ERROR_NETNAME_DELETED), sentNet},
		{"the other side does not acknowledge", read(10060), late},
		{"reset while sending", write(syscall.WSAECONNRESET), sentNet},
		{"shut down", write(10058), sentNet},
		{"a portable name that a program made", write(syscall.ECONNRESET), sentNet},
		{"a missing file is not the network's", &os.PathError{Op: "open", Err: syscall.ERROR_FILE_NOT_FOUND}, unknown},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := Error(tt.err); got != tt.want {
				t.Errorf("Error(%v) = %+v, want %+v", tt.err, got, tt.want)
			}
		})
	}
}
