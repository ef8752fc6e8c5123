//go:build !unix

package h1

import "net"

// socket is nil here: no connection is looked at.
type socket struct{}

func socketOf(net.Conn) *socket { return nil }

func (*socket) alive() bool { return true }

func (*socket) ask([]byte) int { return 0 }
