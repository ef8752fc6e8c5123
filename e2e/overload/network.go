package overload

import (
	"context"
	"net"
	"sync"
)

// Loopback is TCP on this machine. The zero Loopback is ready for use.
type Loopback struct{}

// Listen listens at a free port.
func (Loopback) Listen() (net.Listener, error) { return net.Listen("tcp", "127.0.0.1:0") }

// Dial connects. A connection that is closed is gone at once: it does not keep its port for
// a minute, of which a run of callers that give up would soon have used all.
func (Loopback) Dial(ctx context.Context, to net.Addr) (net.Conn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, to.Network(), to.String())
	if err != nil {
		return nil, err
	}
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	return c, nil
}

// Pipes is a network within a process, for the bubbles of testing/synctest: their time does
// not move while a socket is in use.
type Pipes struct {
	dialled chan net.Conn
	once    sync.Once
	closed  chan struct{}
}

// NewPipes returns a network of one listener.
func NewPipes() *Pipes {
	return &Pipes{dialled: make(chan net.Conn), closed: make(chan struct{})}
}

// Listen returns the listener.
func (p *Pipes) Listen() (net.Listener, error) { return p, nil }

// Dial connects to it.
func (p *Pipes) Dial(ctx context.Context, _ net.Addr) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case p.dialled <- there:
		return here, nil
	case <-p.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept implements net.Listener.
func (p *Pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.dialled:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (p *Pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

// Addr implements net.Listener.
func (p *Pipes) Addr() net.Addr { return pipeAddr{} }

type pipeAddr struct{}

// Network implements net.Addr.
func (pipeAddr) Network() string { return "pipe" }

// String implements net.Addr.
func (pipeAddr) String() string { return "server" }
