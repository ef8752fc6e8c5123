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
	syscall.ECONNREFUSED:  policy.ClassNetwork,
	syscall.ECONNRESET:    policy.ClassNetwork,
	syscall.ECONNABORTED:  policy.ClassNetwork,
	syscall.EPIPE:         policy.ClassNetwork,
	syscall.ESHUTDOWN:     policy.ClassNetwork,
	syscall.ENOTCONN:      policy.ClassNetwork,
	syscall.ENETUNREACH:   policy.ClassNetwork,
	syscall.ENETDOWN:      policy.ClassNetwork,
	syscall.ENETRESET:     policy.ClassNetwork,
	syscall.EHOSTUNREACH:  policy.ClassNetwork,
	syscall.EHOSTDOWN:     policy.ClassNetwork, // BSD says so where no host answers for an address
	syscall.EADDRNOTAVAIL: policy.ClassNetwork, // out of local ports
	syscall.ENOBUFS:       policy.ClassNetwork, // BSD says so where an interface's queue is full
	syscall.ETIMEDOUT:     policy.ClassTimeout,
}
