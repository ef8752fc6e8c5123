package gabionredis_test

import (
	"bytes"
	"context"
	"net"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/contrib/gabionredis"
	"github.com/gabion-go/gabion/policy"
)

func TestMain(m *testing.M) {
	redis.SetLogger(&logging.VoidLogger{}) // which tells of every connection that is refused
	m.Run()
}

// quick has two re-sends for a new client, and short waits.
func quick() policy.Policy {
	return policy.Policy{Retry: policy.Retry{
		Backoff: backoff.Full(time.Millisecond, 5*time.Millisecond), Budget: policy.Budget{Start: 2, Reserve: 2},
	}}
}

// wire dials servers, and loses the answers to what has the mark in it: the server did it,
// and the client sees the connection reset.
type wire struct {
	mark []byte
	lose atomic.Int64 // how many answers are still to be lost
	sent atomic.Int64 // how often something with the mark was written
}

func (w *wire) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &line{Conn: conn, w: w}, nil
}

type line struct {
	net.Conn
	w    *wire
	mute atomic.Bool
}

func (l *line) Write(b []byte) (int, error) {
	if bytes.Contains(b, l.w.mark) {
		l.w.sent.Add(1)
		l.mute.Store(l.w.lose.Add(-1) >= 0)
	}
	return l.Conn.Write(b)
}

func (l *line) Read(b []byte) (int, error) {
	n, err := l.Conn.Read(b)
	if err == nil && l.mute.Load() {
		l.Conn.Close() // for go-redis looks for pushed messages first, and forgets what it saw
		n = 0
	}
	if l.mute.Load() {
		err = &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}
	}
	return n, err
}

// options are those that Use accepts.
func options(addr string) *redis.Options {
	return &redis.Options{
		Addr: addr, MaxRetries: -1, ContextTimeoutEnabled: true, DialerRetries: 1, DisableIdentity: true,
		ReadTimeout: 5 * time.Second,
	}
}

func use(t testing.TB, o *redis.Options, d *gabion.Dependency, opts ...gabionredis.Option) *redis.Client {
	t.Helper()
	c := redis.NewClient(o)
	t.Cleanup(func() { c.Close() })
	if err := gabionredis.Use(c, d, opts...); err != nil {
		t.Fatal(err)
	}
	return c
}

func nothingHeld(t testing.TB, d *gabion.Dependency) {
	t.Helper()
	if st := d.Stats(); st.Bulkhead.InUse != 0 || st.Streams != 0 {
		t.Errorf("%d slots are taken, %d streams are open", st.Bulkhead.InUse, st.Streams)
	}
}
