package natsstore

import (
	"net"
	"strings"
	"sync"
	"testing"
)

// A fault is what a proxy does to the connections through it.
type fault int

const (
	none  fault = iota
	cut         // connections are closed, new ones too
	mute        // nothing reaches the server; it does later
	deaf        // nothing comes back from the server; it does later
	reset       // the server gets what was sent, and instead of its answer the connection breaks
)

// A proxy stands between clients and a server.
type proxy struct {
	listener net.Listener
	to       string

	mu    sync.Mutex // guards all below
	eased *sync.Cond // the fault changed
	fault fault
	open  map[net.Conn]bool
	done  bool
	pumps sync.WaitGroup
}

func newProxy(t testing.TB, serverURL string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: l, to: strings.TrimPrefix(serverURL, "nats://"), open: map[net.Conn]bool{}}
	p.eased = sync.NewCond(&p.mu)
	p.pumps.Go(p.accept)
	t.Cleanup(func() {
		l.Close()
		p.mu.Lock()
		p.done = true
		p.closeAll()
		p.eased.Broadcast()
		p.mu.Unlock()
		p.pumps.Wait()
	})
	return p
}

func (p *proxy) url() string { return "nats://" + p.listener.Addr().String() }

func (p *proxy) set(f fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fault = f; f == cut {
		p.closeAll()
	}
	p.eased.Broadcast()
}

// closeAll closes every connection. The caller holds mu.
func (p *proxy) closeAll() {
	for c := range p.open {
		c.Close()
	}
}

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.to)
		p.mu.Lock()
		if err != nil || p.done || p.fault == cut {
			p.mu.Unlock()
			client.Close()
			if err == nil {
				server.Close()
			}
			continue
		}
		p.open[client], p.open[server] = true, true
		p.mu.Unlock()
		p.pumps.Go(func() { p.pump(server, client, mute) })
		p.pumps.Go(func() { p.pump(client, server, deaf) })
	}
}

// pump copies one direction, which stands still during the fault that blocks it.
func (p *proxy) pump(to, from net.Conn, blocks fault) {
	defer func() {
		to.Close()
		from.Close()
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.open, to)
		delete(p.open, from)
	}()
	b := make([]byte, 64<<10)
	for {
		n, err := from.Read(b)
		if err != nil {
			return
		}
		p.mu.Lock()
		for p.fault == blocks && !p.done {
			p.eased.Wait()
		}
		broken := p.done || p.fault == reset && blocks == deaf
		p.mu.Unlock()
		if broken {
			for _, c := range []net.Conn{to, from} {
				c.(*net.TCPConn).SetLinger(0)
			}
			return
		}
		if _, err := to.Write(b[:n]); err != nil {
			return
		}
	}
}
