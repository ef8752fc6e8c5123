//go:build unix

package classify

import (
	"errors"
	"syscall"

	"github.com/gabion-go/gabion/policy"
)

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

func errno(err error) (policy.Class, bool) {
	n, ok := errors.AsType[syscall.Errno](err)
	if !ok {
		return 0, false
	}
	c, ok := errnos[n]
	return c, ok
}
