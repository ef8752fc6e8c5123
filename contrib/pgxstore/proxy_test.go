package pgxstore

import (
	"net"
	"sync"
	"testing"
	"time"
)

// A fault is what a proxy does to the next bytes that a client sends.
type fault int

const (
	none    fault = iota
	before        // the connection breaks before the server sees them
	after         // the server sees them and answers, and the connection breaks before the client sees that
	sent          // the connection breaks as soon as they are sent
	delayed       // they take some time
	silent        // they vanish, and the connection stays
)

// A proxy stands between a pool and its server.
type proxy struct {
	to     string
	listen net.Listener
	all    sync.WaitGroup

	mu    sync.Mutex // guards all below
	fault fault
	delay time.Duration
	once  bool // the next bytes end the fault
	hits  int
	conns map[*link]bool
}

// A link is a connection through the proxy.
type link struct {
	client, server net.Conn
	mu             sync.Mutex
	deaf           bool // it breaks when the server answers
	mute           bool // it has lost bytes: it can't be whole again
}

func newProxy(t testing.TB, to string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{to: to, listen: l, conns: map[*link]bool{}}
	p.all.Go(p.accept)
	t.Cleanup(p.close)
	return p
}

func (p *proxy) addr() string { return p.listen.Addr().String() }

func (p *proxy) close() {
	p.listen.Close()
	p.heal()
	p.mu.Lock()
	for c := range p.conns {
		c.reset()
	}
	p.mu.Unlock()
	p.all.Wait()
}

// set puts a fault in place: for the next bytes, or until heal.
func (p *proxy) set(f fault, once bool, delay time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault, p.once, p.delay, p.hits = f, once, delay, 0
}

// heal ends a fault. Connections that lost bytes break.
func (p *proxy) heal() (hits int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault = none
	for c := range p.conns {
		c.mu.Lock()
		if c.mute {
			c.reset()
		}
		c.mu.Unlock()
	}
	return p.hits
}

func (p *proxy) next() (fault, time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f := p.fault
	if f != none {
		p.hits++
	}
	if p.once {
		p.fault, p.once = none, false
	}
	return f, p.delay
}

func (p *proxy) accept() {
	for {
		client, err := p.listen.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.to)
		if err != nil {
			client.Close()
			continue
		}
		c := &link{client: client, server: server}
		p.mu.Lock()
		p.conns[c] = true
		p.mu.Unlock()
		p.all.Go(func() { p.up(c) })
		p.all.Go(func() { p.down(c) })
	}
}

// reset breaks both sides without a goodbye.
func (c *link) reset() {
	for _, side := range []net.Conn{c.client, c.server} {
		side.(*net.TCPConn).SetLinger(0)
		side.Close()
	}
}

func (p *proxy) up(c *link) {
	defer func() {
		c.reset()
		p.mu.Lock()
		delete(p.conns, c)
		p.mu.Unlock()
	}()
	buf := make([]byte, 1<<16)
	for {
		n, err := c.client.Read(buf)
		if err != nil {
			return
		}
		f, delay := p.next()
		c.mu.Lock()
		c.deaf = c.deaf || f == after
		c.mute = c.mute || f == silent
		mute := c.mute
		c.mu.Unlock()
		switch {
		case f == before:
			return
		case f == delayed:
			time.Sleep(delay)
		case mute:
			continue
		}
		if _, err := c.server.Write(buf[:n]); err != nil {
			return
		}
		if f == sent {
			c.client.Close()
			time.Sleep(time.Millisecond) // what is sent arrives, or not
			return
		}
	}
}

func (p *proxy) down(c *link) {
	defer c.reset()
	buf := make([]byte, 1<<16)
	for {
		n, err := c.server.Read(buf)
		if err != nil {
			return
		}
		c.mu.Lock()
		deaf, mute := c.deaf, c.mute
		c.mu.Unlock()
		if deaf {
			return
		}
		if mute {
			continue
		}
		if _, err := c.client.Write(buf[:n]); err != nil {
			return
		}
	}
}
