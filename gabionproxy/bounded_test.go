package gabionproxy

import (
	"errors"
	"net"
	"testing"
)

// failing is a listener whose first Accepts fail, as where descriptors are used up.
type failing struct {
	net.Listener
	left int
}

func (f *failing) Accept() (net.Conn, error) {
	if f.left--; f.left >= 0 {
		return nil, errors.New("too many open files")
	}
	c, _ := net.Pipe()
	return c, nil
}

func TestAnAcceptThatFailsTakesNoPlace(t *testing.T) {
	l := newBounded(&failing{left: 3}, 1)
	for range 3 {
		if _, err := l.Accept(); err == nil {
			t.Fatal("it does not fail")
		}
		if len(l.slots) != 0 {
			t.Fatal("the place of a connection that never came is taken")
		}
	}
	c, err := l.Accept()
	if err != nil || len(l.slots) != 1 {
		t.Fatal(err, len(l.slots))
	}
	for range 2 {
		c.Close()
	}
	if len(l.slots) != 0 {
		t.Error("a connection that was closed has a place")
	}
}
