//go:build !unix

package h1

import "net"

// looker returns nil: what can't be looked at is taken to be alive.
func looker(net.Conn) func() bool { return nil }
