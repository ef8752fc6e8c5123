package sdk

import (
	"bytes"
	"context"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/contrib/gabionredis"
	"github.com/gabion-go/gabion/internal/testservers"
	"github.com/gabion-go/gabion/policy"
)

// cable leads to a Redis server and does harm to the commands that carry a mark.
type cable struct {
	net.Listener
	to   string
	mark []byte
	plan []fault

	mu   sync.Mutex
	seen int // marked commands and refused connections so far
	sent atomic.Int64
}

func newCable(t *testing.T, to string, plan []fault) *cable {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	c := &cable{Listener: l, to: to, mark: []byte("counter"), plan: plan}
	go c.run()
	return c
}

// dial refuses if that is the next fault.
func (c *cable) dial(ctx context.Context, network, _ string) (net.Conn, error) {
	addr := c.Addr().String()
	c.mu.Lock()
	if c.next() == refused {
		c.seen++
		addr = "127.0.0.1:1"
	}
	c.mu.Unlock()
	return new(net.Dialer).DialContext(ctx, network, addr)
}

func (c *cable) next() fault { return c.plan[min(c.seen, len(c.plan)-1)] }

func (c *cable) take() fault {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.next()
	c.seen++
	return f
}

func (c *cable) run() {
	for {
		conn, err := c.Accept()
		if err != nil {
			return
		}
		go c.serve(conn.(*net.TCPConn))
	}
}

func (c *cable) serve(near *net.TCPConn) {
	defer near.Close()
	far, err := net.Dial("tcp", c.to)
	if err != nil {
		return
	}
	defer far.Close()
	var mute atomic.Bool
	acted := make(chan struct{}, 1)
	go func() { // answers
		b := make([]byte, 4096)
		for {
			n, err := far.Read(b)
			if err != nil {
				near.Close()
				return
			}
			if mute.Load() {
				acted <- struct{}{}
				continue
			}
			near.Write(b[:n])
		}
	}()
	b := make([]byte, 4096)
	for {
		n, err := near.Read(b)
		if err != nil {
			return
		}
		f := fine
		if bytes.Contains(b[:n], c.mark) {
			c.sent.Add(1)
			f = c.take()
		}
		switch f {
		case resetBefore, refused:
			near.SetLinger(0)
			return
		case resetAfter, slow:
			mute.Store(true)
			far.Write(b[:n])
			<-acted
			if f == slow {
				io.Copy(io.Discard, near) // until the client has had enough
				return
			}
			near.SetLinger(0)
			return
		}
		if _, err := far.Write(b[:n]); err != nil {
			return
		}
	}
}

// saw is what came of a call.
func (c *cable) saw(t *testing.T, err error, admin *redis.Client) seen {
	n, err2 := admin.Get(t.Context(), "counter").Int()
	if err2 != nil {
		t.Fatal(err2)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return seen{err, c.seen, int(c.sent.Load()), n}
}

// TestGoRedisIsNotWorseOffWithGabion: go-redis with a real server. Its own retry repeats INCR after an
// answer that was lost, and counts twice. With gabion around it, as docs/http.md says, work that may
// have happened is not repeated, and the caller gets an error.
func TestGoRedisIsNotWorseOffWithGabion(t *testing.T) {
	server := testservers.Redis(t)
	admin := redis.NewClient(&redis.Options{Addr: server})
	defer admin.Close()
	type command func(context.Context, *redis.Client) error
	commands := []struct {
		name string
		safe bool
		run  command
	}{
		{"GET", true, func(ctx context.Context, c *redis.Client) error { return c.Get(ctx, "counter").Err() }},
		{"INCR", false, func(ctx context.Context, c *redis.Client) error { return c.Incr(ctx, "counter").Err() }},
	}
	plans := []struct {
		name string
		plan []fault
	}{
		{"nothing", []fault{fine}},
		{"refused once", []fault{refused, fine}},
		{"refused twice", []fault{refused, refused, fine}},
		{"reset before the work", []fault{resetBefore, fine}},
		{"reset after the work", []fault{resetAfter, fine}},
		{"reset after the work, for ever", []fault{resetAfter}},
		{"slow, then fine", []fault{slow, fine}},
	}
	for _, cmd := range commands {
		for _, p := range plans {
			t.Run(cmd.name+" "+p.name, func(t *testing.T) {
				run := func(how int) seen {
					if err := admin.Set(t.Context(), "counter", 0, 0).Err(); err != nil {
						t.Fatal(err)
					}
					c := newCable(t, server, p.plan)
					opts := &redis.Options{
						Addr: "redis", Dialer: c.dial, Protocol: 2, DisableIdentity: true,
						ReadTimeout: patience, DialerRetries: 1, ContextTimeoutEnabled: how == asIs, MinRetryBackoff: time.Millisecond, MaxRetryBackoff: 10 * time.Millisecond,
					}
					if how != alone {
						opts.MaxRetries = -1
					} else {
						opts.MaxRetries = 2 // as many attempts as gabion makes
					}
					client := redis.NewClient(opts)
					defer client.Close()
					err := error(nil)
					if how != alone {
						p := policy.Policy{Retry: twice}
						if how == frugal {
							p = policy.Policy{}
						}
						cache := gabion.New("cache", p)
						if how == asIs { // with contrib/gabionredis, as docs/redis.md says
							if err := gabionredis.Use(client, cache); err != nil {
								t.Fatal(err)
							}
							err = cmd.run(t.Context(), client)
							return c.saw(t, err, admin)
						}
						var call []gabion.CallOption
						if cmd.safe {
							call = append(call, gabion.WithIdempotent())
						}
						err = cache.Run(t.Context(), func(ctx context.Context) error { return cmd.run(ctx, client) }, call...)
					} else {
						err = cmd.run(t.Context(), client)
					}
					return c.saw(t, err, admin)
				}
				bare := run(alone)
				for _, how := range []int{paged, frugal, asIs} {
					with := run(how)
					t.Logf("alone %v | with gabion, default budget %v, with gabionredis %v: %v", bare, how == frugal, how == asIs, with)
					if gabion.ReasonOf(with.err) != policy.NotSafe { // it may have been counted: another INCR would be a guess
						(&subject{name: "go-redis"}).compare(t, t.Name(), bare, with, 0, how == frugal && p.name == "refused twice")
					}
					if with.effects > 1 {
						t.Errorf("with gabion it was counted %d times", with.effects)
					}
					if with.err != nil && with.effects > 0 && gabion.EffectOf(with.err) != policy.UnknownEffect {
						t.Errorf("it was counted, and the error says that it was not: %v", with.err)
					}
				}
			})
		}
	}
}
