package testproxy

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gabion-go/gabion/gabiontest"
)

// patience is how long a test waits for what a broken proxy would never bring.
const patience = 20 * time.Second

// A rig is a server that echoes, a proxy in front of it, and a client.
type rig struct {
	*testing.T
	proxy *Proxy
	saw   chan string // all that a connection brought to the server, when it is over
}

func newRig(t *testing.T) *rig {
	t.Helper()
	gabiontest.NoLeaks(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{T: t, saw: make(chan string, 10)}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { r.saw <- echo(c) })
		}
	})
	t.Cleanup(func() { l.Close(); all.Wait() })
	r.proxy = New(t, l.Addr().String())
	return r
}

// echo sends back what it reads, and returns it.
func echo(c net.Conn) string {
	defer c.Close()
	var all bytes.Buffer
	io.Copy(c, io.TeeReader(c, &all))
	return all.String()
}

func (r *rig) dial() net.Conn {
	r.Helper()
	c, err := net.Dial("tcp", r.proxy.Addr)
	if err != nil {
		r.Fatal(err)
	}
	r.own(c)
	return c
}

// own bounds a connection in time, and closes it after the test.
func (r *rig) own(c net.Conn) {
	c.SetDeadline(time.Now().Add(patience))
	r.Cleanup(func() { c.Close() })
}

func (r *rig) send(c net.Conn, text string) {
	r.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		r.Fatalf("sending %q: %v", text, err)
	}
}

func (r *rig) receive(c net.Conn, text string) {
	r.Helper()
	b := make([]byte, len(text))
	if _, err := io.ReadFull(c, b); err != nil || string(b) != text {
		r.Fatalf("received %q, want %q: %v", b, text, err)
	}
}

// newPair returns a rig with a connection whose far end the test has in its hands.
func newPair(t *testing.T) (r *rig, client, server net.Conn) {
	t.Helper()
	gabiontest.NoLeaks(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	r = &rig{T: t, proxy: New(t, l.Addr().String())}
	client = r.dial()
	if server, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	return r, client, server
}

// warm returns a connection over which "w" went and came back.
func (r *rig) warm() net.Conn {
	r.Helper()
	c := r.dial()
	r.send(c, "w")
	r.receive(c, "w")
	return c
}

// awaitStruck waits until n pieces were struck.
func (r *rig) awaitStruck(n int) {
	r.Helper()
	for limit := time.Now().Add(patience); r.proxy.Struck() < n; runtime.Gosched() {
		if time.Now().After(limit) {
			r.Fatalf("struck %d times, want %d", r.proxy.Struck(), n)
		}
	}
}

// wantBroken fails the test unless nothing more arrives and the connection breaks.
func (r *rig) wantBroken(c net.Conn) {
	r.Helper()
	if n, err := c.Read(make([]byte, 1)); n != 0 || !errors.Is(err, syscall.ECONNRESET) {
		r.Errorf("%d bytes more, %v; want a reset", n, err)
	}
}

// wantNothing fails the test unless the connection ends, in whatever way.
func (r *rig) wantNothing(c net.Conn) {
	r.Helper()
	if n, err := c.Read(make([]byte, 1)); n != 0 || err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		r.Errorf("%d bytes, %v; want an end", n, err)
	}
}

// wantUnreachable fails the test unless a new connection breaks: while it is
// dialed, or soon after.
func (r *rig) wantUnreachable() {
	r.Helper()
	c, err := net.Dial("tcp", r.proxy.Addr)
	if errors.Is(err, syscall.ECONNRESET) {
		return
	}
	if err != nil {
		r.Fatal(err)
	}
	r.own(c)
	r.wantBroken(c)
}

func (r *rig) wantSaw(want string) {
	r.Helper()
	select {
	case got := <-r.saw:
		if got != want {
			r.Errorf("the server saw %q, want %q", got, want)
		}
	case <-time.After(patience):
		r.Fatalf("the server's connection does not end")
	}
}

func TestForwards(t *testing.T) {
	t.Run("much, both ways at once, over several connections", func(t *testing.T) {
		r := newRig(t)
		var all sync.WaitGroup
		for n := range 3 {
			c := r.dial()
			sent := bytes.Repeat([]byte{byte(n), 1, 2, 3}, 1<<18)
			all.Go(func() {
				if _, err := c.Write(sent); err != nil {
					t.Error(err)
				}
			})
			all.Go(func() {
				got := make([]byte, len(sent))
				if _, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got, sent) {
					t.Errorf("what came back is not what was sent: %v", err)
				}
			})
		}
		all.Wait()
		if n := r.proxy.Struck(); n != 0 {
			t.Errorf("struck %d times without a fault", n)
		}
	})
	t.Run("the client's end", func(t *testing.T) {
		r := newRig(t)
		c := r.warm()
		c.Close()
		r.wantSaw("w")
	})
	t.Run("the server's end", func(t *testing.T) {
		r, c, server := newPair(t)
		r.send(server, "bye")
		server.Close()
		if got, err := io.ReadAll(c); err != nil || string(got) != "bye" {
			t.Errorf("%q, %v", got, err)
		}
	})
	t.Run("that there is no server", func(t *testing.T) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
		r := &rig{T: t, proxy: New(t, l.Addr().String())}
		r.wantNothing(r.dial())
	})
}

// A fault strikes the "a" of a connection that was warm.
func TestConnectionsBreak(t *testing.T) {
	for _, c := range []struct {
		name  string
		fault Fault
		saw   string
	}{
		{"before a request arrives", Fault{Requests: Break}, "w"},
		{"when a request was sent", Fault{Requests: PassBreak}, "wa"},
		{"before a reply arrives", Fault{Replies: Break}, "wa"},
		{"at the first of both", Fault{Requests: Break, Replies: Break}, "w"},
		{"once", Fault{Requests: Break, Once: true}, "w"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			struck, idle := r.warm(), r.warm()
			r.proxy.Set(c.fault)
			r.send(struck, "a")
			r.wantBroken(struck)
			r.wantSaw(c.saw)
			if n := r.proxy.Struck(); n != 1 {
				t.Errorf("struck %d times, want once", n)
			}
			if !c.fault.Once {
				r.proxy.Set(Fault{})
			}
			r.send(idle, "b")
			r.receive(idle, "b")
		})
	}
}

func TestAReplyIsSentThoughItsConnectionBreaks(t *testing.T) {
	r := newRig(t)
	c := r.warm()
	r.proxy.Set(Fault{Replies: PassBreak})
	r.send(c, "a")
	if got, err := io.ReadAll(c); err != nil || string(got) != "a" {
		t.Errorf("%q, %v", got, err)
	}
	r.wantSaw("wa")
}

func TestHeldBytesGoOn(t *testing.T) {
	for _, f := range []Fault{{Requests: Hold}, {Replies: Hold}, {Requests: Hold, Once: true}} {
		r := newRig(t)
		c := r.warm()
		r.proxy.Set(f)
		r.send(c, "a")
		r.awaitStruck(1)
		r.send(c, "b")
		if f.Once {
			other := r.warm()
			r.send(other, "c")
			r.receive(other, "c")
			other.Close()
			r.wantSaw("wc")
		}
		r.proxy.Set(Fault{})
		r.receive(c, "ab")
		c.Close()
		r.wantSaw("wab")
	}
}

// A hold that let bytes through would show here.
func TestHeldBytesMeetTheNextFault(t *testing.T) {
	for _, c := range []struct {
		held, next Fault
		saw        string
	}{
		{Fault{Requests: Hold}, Fault{Requests: Break}, "w"},
		{Fault{Requests: Hold, Once: true}, Fault{Requests: Break}, "w"},
		{Fault{Requests: Hold}, Fault{Down: true}, "w"},
		{Fault{Replies: Hold}, Fault{Replies: Break}, "wa"},
		{Fault{Replies: Hold}, Fault{Down: true}, "wa"},
	} {
		r := newRig(t)
		client := r.warm()
		r.proxy.Set(c.held)
		r.send(client, "a")
		r.awaitStruck(1)
		r.proxy.Set(c.next)
		r.wantBroken(client)
		r.wantSaw(c.saw)
	}
}

func TestHeldRequestsArriveThoughTheirClientIsGone(t *testing.T) {
	r := newRig(t)
	c := r.warm()
	r.proxy.Set(Fault{Requests: Hold})
	r.send(c, "a")
	r.awaitStruck(1)
	c.Close()
	r.proxy.Set(Fault{})
	r.wantSaw("wa")
}

// Whatever becomes of the fault; but the other direction is whole.
func TestLostBytesTakeTheRestAlong(t *testing.T) {
	for _, c := range []struct {
		name    string
		replies bool
		fault   Fault
	}{
		{"requests", false, Fault{Requests: Lose, Once: true}},
		{"replies", true, Fault{Replies: Lose, Once: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, from, to := newPair(t)
			if c.replies {
				from, to = to, from
			}
			r.proxy.Set(c.fault)
			r.send(from, "a")
			r.awaitStruck(1)
			r.send(from, "b")
			r.proxy.Set(Fault{Requests: Delay, Replies: Delay})
			r.send(from, "c")
			r.send(to, "x")
			r.receive(from, "x")
			from.Close()
			if got, err := io.ReadAll(to); err != nil || len(got) != 0 {
				t.Errorf("received %q, %v", got, err)
			}
			if n := r.proxy.Struck(); n != 2 {
				t.Errorf("struck %d times, want 2: what was lost first, and what was late", n)
			}
		})
	}
}

func TestAConnectionThatLostBytesBreaksWhenTheNetworkWorks(t *testing.T) {
	for _, f := range []Fault{{Requests: Lose}, {Replies: Lose}, {Requests: Lose, Replies: Lose}} {
		r := newRig(t)
		whole, c := r.warm(), r.warm()
		r.proxy.Set(f)
		r.send(c, "a")
		r.awaitStruck(1)
		r.proxy.Set(Fault{})
		r.wantBroken(c)
		r.send(whole, "b")
		r.receive(whole, "b")
	}
}

func TestLateBytesArrive(t *testing.T) {
	r := newRig(t)
	c := r.warm()
	r.proxy.Set(Fault{Requests: Delay, Replies: Delay, Most: time.Millisecond})
	r.send(c, "a")
	r.receive(c, "a")
	r.proxy.Set(Fault{Requests: Delay, Most: time.Millisecond})
	r.send(c, "b")
	c.Close() // it has given up
	r.wantSaw("wab")
}

func TestDown(t *testing.T) {
	r := newRig(t)
	c := r.warm()
	r.proxy.Set(Fault{Down: true})
	r.wantBroken(c)
	r.wantSaw("w")
	r.wantUnreachable()
	r.wantSaw("")
	r.proxy.Set(Fault{})
	r.warm()
}

// The end of the proxy breaks what is open, and does not wait for what is under way.
func TestEndOfTheTest(t *testing.T) {
	for _, c := range []struct {
		name  string
		fault Fault
		saw   string
	}{
		{"idle connections", Fault{}, "w"},
		{"requests that are held", Fault{Requests: Hold}, "w"},
		{"replies that are held", Fault{Replies: Hold}, "wa"},
		{"requests that are late", Fault{Requests: Delay, Most: 1000 * time.Hour}, "w"},
		{"replies that are late", Fault{Replies: Delay, Most: 1000 * time.Hour}, "wa"},
	} {
		after := &rig{T: t}
		var client net.Conn
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			after.proxy, after.saw = r.proxy, r.saw
			client = after.warm() // it outlives the proxy
			if r.proxy.Set(c.fault); c.fault != (Fault{}) {
				r.send(client, "a")
				r.awaitStruck(1)
			}
		})
		after.wantBroken(client)
		after.wantSaw(c.saw)
	}
}
