// Package testproxy puts a TCP proxy between clients and a real server, and breaks
// the network there: connections are cut, bytes are held back, late or lost.
//
// A fault strikes bytes as the proxy reads them, up to 64 KiB at a time. With
// protocols in which a small request is written at once and waits for its reply,
// this is a request or a reply.
package testproxy

import (
	"bytes"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"
)

// An Effect is what becomes of bytes on their way through a proxy.
type Effect string

const (
	Pass      Effect = ""                // they go through
	Delay     Effect = "delay"           // they go through late, also when their sender has given up
	Hold      Effect = "hold"            // they stay in the proxy until the next Set, whose fault they meet
	Lose      Effect = "lose"            // they vanish, and all that follow on this connection in this direction
	Break     Effect = "break"           // they vanish, and the connection breaks
	PassBreak Effect = "pass, and break" // they go through, and the connection breaks for their sender, who gets no more
)

// A Fault is what is wrong with a network. The zero Fault is a network that works.
type Fault struct {
	Requests Effect        // to the server
	Replies  Effect        // to the client
	Most     time.Duration // most by which Delay delays: how long is drawn each time
	Match    string        // only bytes that contain this text are struck, if it is not empty
	Once     bool          // it strikes bytes once, and the network works again
	Down     bool          // all connections break, and new ones at once, maybe while they are dialed
}

// A Proxy stands between clients and a server. Its methods may be called from
// several goroutines.
type Proxy struct {
	Addr string // where it listens: 127.0.0.1 and a port

	listener net.Listener
	all      sync.WaitGroup
	closed   chan struct{} // by close, when all connections are broken

	mu      sync.Mutex // guards all below
	server  string
	fault   Fault
	changed chan struct{} // closed by the next Set
	struck  int
	conns   map[*conn]bool
}

// A conn is a connection through the proxy.
type conn struct {
	client, server net.Conn
	lost           map[direction]bool // guarded by the proxy's mu: bytes were
}

type direction bool

const (
	toServer direction = false
	toClient direction = true
)

// New starts a proxy in front of the server at an address. It ends with the test
// and breaks what is open then.
func New(t testing.TB, server string) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{
		Addr: l.Addr().String(), server: server, listener: l,
		closed: make(chan struct{}), changed: make(chan struct{}), conns: map[*conn]bool{},
	}
	p.all.Go(p.accept)
	t.Cleanup(p.close)
	return p
}

// Set puts a fault in the place of the one before. The zero Fault breaks
// connections that have lost bytes, which can't be whole again.
func (p *Proxy) Set(f Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault = f
	close(p.changed)
	p.changed = make(chan struct{})
	for c := range p.conns {
		if f.Down || f == (Fault{}) && len(c.lost) > 0 {
			c.reset()
		}
	}
}

// Struck returns how many times faults changed what became of bytes. Those that
// follow lost ones don't count.
func (p *Proxy) Struck() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.struck
}

// close breaks everything and returns when no goroutine is left.
func (p *Proxy) close() {
	p.listener.Close()
	p.Set(Fault{Down: true})
	close(p.closed)
	p.all.Wait()
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.target())
		if err != nil {
			client.Close()
			continue
		}
		c := &conn{client: client, server: server, lost: map[direction]bool{}}
		if !p.add(c) {
			c.reset()
			continue
		}
		p.all.Go(func() { p.carry(c, toServer) })
		p.all.Go(func() { p.carry(c, toClient) })
	}
}

func (p *Proxy) target() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.server
}

// Switch lets new connections go to the server at another address, as a name does that was
// moved. Those that are open stay.
func (p *Proxy) Switch(server string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.server = server
}

func (p *Proxy) add(c *conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fault.Down {
		return false
	}
	p.conns[c] = true
	return true
}

// carry takes bytes one way. The end of one side is the end of both.
func (p *Proxy) carry(c *conn, way direction) {
	defer p.end(c)
	from, to := c.client, c.server
	if way == toClient {
		from, to = to, from
	}
	b := make([]byte, 64<<10)
	for {
		n, err := from.Read(b)
		if err != nil {
			return
		}
		effect := p.strike(c, way, b[:n])
		switch effect {
		case Lose:
			continue
		case Break:
			c.reset()
			return
		}
		if _, err := to.Write(b[:n]); err != nil {
			return
		}
		if effect == PassBreak {
			reset(from)
			return
		}
	}
}

func (p *Proxy) end(c *conn) {
	c.client.Close()
	c.server.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
}

func (c *conn) reset() {
	reset(c.client)
	reset(c.server)
}

// reset breaks a connection without a goodbye.
func reset(side net.Conn) {
	side.(*net.TCPConn).SetLinger(0)
	side.Close()
}

// strike returns what becomes of the next bytes, once those that are late or held
// back may go on.
func (p *Proxy) strike(c *conn, way direction, b []byte) Effect {
	for {
		effect, most, changed := p.next(c, way, b)
		switch effect {
		case Hold:
			<-changed
			continue // with what is wrong now
		case Delay:
			select {
			case <-time.After(rand.N(most + 1)):
			case <-p.closed:
			}
		}
		return effect
	}
}

// next returns what the fault does to the next bytes, and what ends a hold.
func (p *Proxy) next(c *conn, way direction, b []byte) (effect Effect, most time.Duration, changed <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f := p.fault
	effect = f.Requests
	if way == toClient {
		effect = f.Replies
	}
	switch {
	case c.lost[way]:
		return Lose, 0, nil
	case effect == Pass, !bytes.Contains(b, []byte(f.Match)):
		return Pass, 0, nil
	}
	p.struck++
	switch {
	case effect == Lose:
		c.lost[way] = true
	case effect == PassBreak && way == toServer:
		c.lost[toClient] = true // or the answer might be quicker than the break
	}
	if f.Once {
		p.fault = Fault{}
	}
	return effect, f.Most, p.changed
}
