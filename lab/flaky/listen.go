package flaky

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"time"
)

// Serve accepts connections at l until l is closed or the server is, and then returns
// http.ErrServerClosed. While the plan says that the server is down, l's address refuses
// connections, and connections without a request are closed. That needs a listener of TCP; others
// only break connections.
func (s *Server) Serve(l net.Listener) error {
	d := &door{inner: l, addr: l.Addr(), idle: map[net.Conn]struct{}{}, changed: make(chan struct{}, 1), quit: s.quit}
	s.mu.Lock()
	s.doors[d] = struct{}{}
	if s.deaf {
		d.shut(true)
	}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.doors, d)
	}()
	// A plan breaks connections by the thousand; they are counted, not logged.
	server := http.Server{Handler: s, ConnState: d.state, ReadHeaderTimeout: 10 * time.Second, ErrorLog: log.New(io.Discard, "", 0)}
	closed := make(chan struct{})
	stop := make(chan struct{})
	go func() {
		defer close(closed)
		select {
		case <-s.quit:
		case <-stop:
		}
		_ = server.Close() // which closes the door
	}()
	err := server.Serve(d)
	close(stop)
	<-closed
	select {
	case <-s.quit:
		return http.ErrServerClosed
	default:
	}
	if errors.Is(err, net.ErrClosed) {
		return http.ErrServerClosed
	}
	return err
}

// door is a listener that stops listening for a while.
type door struct {
	addr    net.Addr
	changed chan struct{} // has one when the door was shut or opened
	quit    <-chan struct{}

	mu     sync.Mutex   // guards all below
	inner  net.Listener // nil while the door is shut
	deaf   bool
	closed bool
	idle   map[net.Conn]struct{}
}

// shut stops listening, or listens again.
func (d *door) shut(deaf bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, tcp := d.addr.(*net.TCPAddr); !tcp || d.deaf == deaf {
		return
	}
	d.deaf = deaf
	if deaf && d.inner != nil {
		_ = d.inner.Close()
		d.inner = nil
		for c := range d.idle {
			_ = c.Close()
		}
	}
	select {
	case d.changed <- struct{}{}:
	default:
	}
}

// state keeps which connections have no request.
func (d *door) state(c net.Conn, state http.ConnState) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.idle, c)
	if state == http.StateIdle || state == http.StateNew {
		d.idle[c] = struct{}{}
	}
}

// Accept implements net.Listener.
func (d *door) Accept() (net.Conn, error) {
	for {
		l := d.listener()
		if l == nil {
			if !d.reopened() {
				return nil, net.ErrClosed
			}
			continue
		}
		conn, err := l.Accept()
		switch same := d.listener() == l; {
		case same:
			return conn, err
		case err == nil:
			_ = conn.Close() // it came in the last moment
		}
	}
}

// listener is nil while the door is shut.
func (d *door) listener() net.Listener {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.inner
}

// reopened waits until the address listens again. It reports false when the server is closed.
func (d *door) reopened() bool {
	const again = 20 * time.Millisecond // another program may have the port for a moment
	for {
		d.mu.Lock()
		deaf, closed := d.deaf, d.closed
		if !deaf && !closed {
			if l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", d.addr.String()); err == nil {
				d.inner = l
				d.mu.Unlock()
				return true
			}
		}
		d.mu.Unlock()
		if closed {
			return false
		}
		wait := time.NewTimer(again)
		select {
		case <-d.changed:
		case <-wait.C:
		case <-d.quit:
			wait.Stop()
			return false
		}
		wait.Stop()
	}
}

// Close implements net.Listener.
func (d *door) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil
	}
	d.closed = true
	select {
	case d.changed <- struct{}{}:
	default:
	}
	if d.inner == nil {
		return nil // it is shut
	}
	return d.inner.Close()
}

// Addr implements net.Listener.
func (d *door) Addr() net.Addr { return d.addr }
