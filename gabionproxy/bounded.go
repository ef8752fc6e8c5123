package gabionproxy

import (
	"context"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gabion-go/gabion/internal/overdue"
)

// bounded is a listener with a bound on the connections that are open at once. More wait.
type bounded struct {
	net.Listener
	slots chan struct{}
	over  chan struct{}
	once  sync.Once
	waits overdue.List // connections whose clients are not watched yet
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
	return &boundedConn{Conn: c, of: b, wake: make(chan struct{}, 1)}, nil
}

// Close implements [net.Listener].
func (b *bounded) Close() error {
	b.once.Do(func() { close(b.over) })
	return b.Listener.Close()
}

// boundedConn is a client's connection. net/http sets a deadline of its reads seven times for a request, and reads in vain to learn whether the
// client goes away. So a deadline is passed on with the next read, and a client is watched after [overdue.Soon]: most answers are there by then.
type boundedConn struct {
	net.Conn
	of   *bounded
	once sync.Once
	held bool // Read takes nothing from the socket

	turn overdue.Place
	late atomic.Bool
	wake chan struct{} // something has changed

	mu       sync.Mutex // guards all below
	due, set time.Time  // the deadline of reads, and what the socket has of it
	reads    bool       // one is under way
}

// Read returns no byte while the connection is held, so that a body's reader hands out what was read together with the headers and
// does not wait. A Read of one byte is that of net/http's watch over the client, which may have begun by then.
func (c *boundedConn) Read(p []byte) (int, error) {
	switch {
	case len(p) > 1 && c.held:
		return 0, nil
	case len(p) == 1 && !c.unwatched():
		return 0, os.ErrDeadlineExceeded
	}
	c.mu.Lock()
	if c.set != c.due {
		c.set = c.due
		_ = c.Conn.SetReadDeadline(c.due) // Read has the same error
	}
	c.reads = true
	c.mu.Unlock()
	n, err := c.Conn.Read(p)
	c.mu.Lock()
	c.reads = false
	c.mu.Unlock()
	return n, err
}

// unwatched waits until it is worth it to watch the client, also where the connection was closed. It reports false if the wait was ended.
func (c *boundedConn) unwatched() bool {
	c.late.Store(false)
	c.of.waits.Add(&c.turn, c)
	defer c.of.waits.Remove(&c.turn)
	for {
		c.mu.Lock()
		ended := !c.due.IsZero() && c.due.Before(epoch)
		c.mu.Unlock()
		if ended || c.late.Load() {
			return !ended
		}
		<-c.wake
	}
}

// Overdue implements [overdue.Waiter].
func (c *boundedConn) Overdue() {
	c.late.Store(true)
	c.changed()
}

func (c *boundedConn) changed() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// SetReadDeadline implements [net.Conn].
func (c *boundedConn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.due = t
	c.changed()
	if !c.reads {
		return nil
	}
	c.set = t
	return c.Conn.SetReadDeadline(t)
}

// SetDeadline implements [net.Conn].
func (c *boundedConn) SetDeadline(t time.Time) error {
	if err := c.SetReadDeadline(t); err != nil {
		return err
	}
	return c.Conn.SetWriteDeadline(t)
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
