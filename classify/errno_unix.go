//go:build unix

package classify

import (
	"syscall"

	"github.com/gabion-go/gabion/policy"
)

// number is an error that the system knows by a number.
type number = syscall.Errno

// errnos are the numbers that mean trouble on the way.
var errnos = map[syscall.Errno]policy.Class{
	syscall.ECONNREFUSED:  policy.Network,
	syscall.ECONNRESET:    policy.Network,
	syscall.ECONNABORTED:  policy.Network,
	syscall.EPIPE:         policy.Network,
	syscall.ENETUNREACH:   policy.Network,
	syscall.ENETDOWN:      policy.Network,
	syscall.ENETRESET:     policy.Network,
	syscall.EHOSTUNREACH:  policy.Network,
	syscall.EADDRNOTAVAIL: policy.Network, // out of local ports
	syscall.ENOTCONN:      policy.Network,
	syscall.ETIMEDOUT:     policy.TimedOut,
}
