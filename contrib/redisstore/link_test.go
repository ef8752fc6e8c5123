package redisstore

import (
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A fault is what a network does to what passes it.
type fault int32

const (
	none     fault = iota
	slow           // everything is late, also when its sender has given up
	halfOpen       // requests arrive, replies don't, and nobody is told
	silent         // nothing arrives
	cut            // one connection is reset in place of a reply; then none
	faults
)

// A link is a TCP proxy in front of a server whose network the test breaks. A
// connection that has swallowed bytes swallows all that follow.
type link struct {
	addr   string
	server string
	listen net.Listener
	fault  atomic.Int32
	cuts   atomic.Int64  // replies that were lost by cut
	late   time.Duration // most by which slow delays, each way
	all    sync.WaitGroup

	mu    sync.Mutex // guards conns
	conns []net.Conn
}

func newLink(t testing.TB, server string, late time.Duration) *link {
	t.Helper()
	listen, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &link{addr: listen.Addr().String(), server: server, listen: listen, late: late}
	l.all.Go(l.accept)
	t.Cleanup(l.close)
	return l
}

func (l *link) set(f fault) { l.fault.Store(int32(f)) }

func (l *link) accept() {
	for {
		client, err := l.listen.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", l.server)
		if err != nil {
			client.Close()
			continue
		}
		l.mu.Lock()
		l.conns = append(l.conns, client, server)
		l.mu.Unlock()
		l.all.Go(func() { l.carry(server, client, false); server.Close() })
		l.all.Go(func() { l.carry(client, server, true); client.Close() })
	}
}

// carry takes bytes one way.
func (l *link) carry(to, from net.Conn, reply bool) {
	b := make([]byte, 64<<10)
	deaf := false
	for {
		n, err := from.Read(b)
		if err != nil {
			return
		}
		f := fault(l.fault.Load())
		deaf = deaf || f == silent || f == halfOpen && reply
		switch {
		case deaf:
			continue
		case f == slow:
			time.Sleep(rand.N(l.late))
		case reply && l.fault.CompareAndSwap(int32(cut), int32(none)):
			l.cuts.Add(1)
			to.(*net.TCPConn).SetLinger(0)
			return
		}
		if _, err := to.Write(b[:n]); err != nil {
			return
		}
	}
}

func (l *link) close() {
	l.listen.Close()
	l.mu.Lock()
	for _, c := range l.conns {
		c.Close()
	}
	l.mu.Unlock()
	l.all.Wait()
}
