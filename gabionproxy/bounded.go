package gabionproxy

import (
	"context"
	"net"
	"sync"
)

// bounded is a listener with a bound on the connections that are open at once. More wait.
type bounded struct {
	net.Listener
	slots chan struct{}
	over  chan struct{}
	once  sync.Once
}

func newBounded(l net.Listener, most int) *bounded {
	return &bounded{Listener: l, slots: make(chan struct{}, most), over: make(chan struct{})}
}

// Accept implements [net.Listener].
func (b *bounded) Accept() (net.Conn, error) {
	select {
	case b.slots <- struct{}{}:
	case <-b.over:
		return nil, net.ErrClosed
	}
	c, err := b.Listener.Accept()
	if err != nil {
		<-b.slots
		return nil, err
	}
	return &boundedConn{Conn: c, of: b}, nil
}

// Close implements [net.Listener].
func (b *bounded) Close() error {
	b.once.Do(func() { close(b.over) })
	return b.Listener.Close()
}

// boundedConn is a client's connection.
type boundedConn struct {
	net.Conn
	of   *bounded
	once sync.Once
	held bool // Read takes nothing from the socket
}

// Read returns no byte while the connection is held, so that a body's reader hands out what was read together with the headers and
// does not wait. A Read of one byte is that of net/http's watch over the client, which may have begun by then.
func (c *boundedConn) Read(p []byte) (int, error) {
	if len(p) > 1 && c.held {
		return 0, nil
	}
	return c.Conn.Read(p)
}

type connKey struct{}

// withConn keeps the connection for bodies. One of TLS needs more than one Read for a byte, and is not kept.
func withConn(ctx context.Context, c net.Conn) context.Context {
	if plain, ok := c.(*boundedConn); ok {
		return context.WithValue(ctx, connKey{}, plain)
	}
	return ctx
}

// Close gives the slot back.
func (c *boundedConn) Close() error {
	c.once.Do(func() { <-c.of.slots })
	return c.Conn.Close()
}

// CloseWrite closes one direction, as tunnels do.
func (c *boundedConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return c.Conn.Close()
}
