//go:build unix || windows

package classify

import (
	"syscall"

	"github.com/gabion-go/gabion/policy"
)

// number is an error that the system knows by a number.
type number = syscall.Errno

// errnos are the numbers that mean trouble on the way, by the names that all
// systems have. Some add numbers of their own.
var errnos = map[syscall.Errno]policy.Class{
	syscall.ECONNREFUSED:  policy.Network,
	syscall.ECONNRESET:    policy.Network,
	syscall.ECONNABORTED:  policy.Network,
	syscall.EPIPE:         policy.Network,
	syscall.ESHUTDOWN:     policy.Network,
	syscall.ENOTCONN:      policy.Network,
	syscall.ENETUNREACH:   policy.Network,
	syscall.ENETDOWN:      policy.Network,
	syscall.ENETRESET:     policy.Network,
	syscall.EHOSTUNREACH:  policy.Network,
	syscall.EHOSTDOWN:     policy.Network, // BSD says so where nobody answers for an address
	syscall.EADDRNOTAVAIL: policy.Network, // out of local ports
	syscall.ENOBUFS:       policy.Network, // BSD says so where an interface's queue is full
	syscall.ETIMEDOUT:     policy.TimedOut,
}
