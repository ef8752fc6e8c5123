package grpc

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/contrib/gabiongrpc"
	"github.com/gabion-go/gabion/gabiontest"
	"github.com/gabion-go/gabion/internal/testproxy"
	"github.com/gabion-go/gabion/policy"
)

// short has attempts that end soon.
func short() policy.Policy {
	p := eager(3)
	p.Timeout = policy.Timeout{Call: 5 * time.Second, Attempt: 300 * time.Millisecond}
	return p
}

// A network that goes silent: no packet says that the connection is gone. The timeout of the attempt
// ends the wait. With another connection, the retry goes there; without one, the call ends in time.
func TestANetworkThatGoesSilent(t *testing.T) {
	for _, c := range []struct {
		fact    string
		others  int // servers that can be reached
		streams bool
		code    codes.Code
	}{
		{"another server can be reached", 2, false, codes.OK},
		{"by a stream", 2, true, codes.OK},
		{"there is no other", 0, false, codes.DeadlineExceeded},
		{"nor for a stream", 0, true, codes.DeadlineExceeded},
	} {
		t.Run(c.fact, func(t *testing.T) {
			gabiontest.NoLeaks(t)
			s := new(service)
			s.after.Store(1)
			addr := strings.TrimPrefix(serveGRPC(t, s), "http://")
			proxy := testproxy.New(t, addr)
			servers := []resolver.Address{{Addr: proxy.Addr}}
			for range c.others {
				servers = append(servers, resolver.Address{Addr: testproxy.New(t, addr).Addr})
			}
			r := manual.NewBuilderWithScheme("test")
			r.InitialState(resolver.State{Addresses: servers})
			d := gabion.New("stock", short())
			conn, err := gabiongrpc.NewClient("test:///stock", d, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithResolvers(r),
				grpc.WithDefaultServiceConfig(`{"loadBalancingConfig": [{"round_robin": {}}]}`))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			client := pb.NewTestServiceClient(conn)
			for range 20 { // all are connected
				if err := ask(t.Context(), client, c.streams); err != nil {
					t.Fatal(err)
				}
			}
			proxy.Set(testproxy.Fault{Requests: testproxy.Lose, Replies: testproxy.Lose})
			for range 3 {
				began := time.Now()
				if err := ask(t.Context(), client, c.streams); status.Code(err) != c.code {
					t.Errorf("%v after %v", err, time.Since(began))
				}
				if took := time.Since(began); took > 5*time.Second {
					t.Errorf("it took %v", took)
				}
			}
			if retries := d.Stats().Totals.Retries; retries == 0 {
				t.Error("nothing was repeated")
			}
			gabiontest.NothingHeld(t, d)
		})
	}
}

// wire is a connection that can go silent: what is written is lost, so that nothing is heard.
type wire struct {
	net.Conn
	silent *atomic.Bool
}

func (w *wire) Write(b []byte) (int, error) {
	if w.silent.Load() {
		return len(b), nil
	}
	return w.Conn.Write(b)
}

// Keepalive finds that a connection is dead, and the calls that wait on it fail with
// UNAVAILABLE. What is safe is repeated over a new connection at once; what is not, is not,
// since it may have been done.
func TestKeepaliveEndsADeadConnection(t *testing.T) {
	for _, c := range []struct {
		fact string
		safe bool
		code codes.Code
		came int32
	}{
		{"a call that is safe", true, codes.OK, 1},
		{"a call that is not", false, codes.Unavailable, 0},
	} {
		t.Run(c.fact, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := new(service)
				l := bufconn.Listen(1 << 20)
				server := grpc.NewServer()
				pb.RegisterTestServiceServer(server, s)
				served := make(chan struct{})
				go func() { defer close(served); _ = server.Serve(l) }()
				silent, dialed := new(atomic.Bool), 0
				p := eager(3)
				p.Safe, p.Timeout = c.safe, policy.Timeout{Call: time.Minute, Attempt: 30 * time.Second}
				d := gabion.New("stock", p)
				conn, err := gabiongrpc.NewClient("passthrough:///memory", d, grpc.WithTransportCredentials(insecure.NewCredentials()),
					grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: time.Second}),
					grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
						c, err := l.DialContext(ctx)
						if dialed++; dialed > 1 || err != nil {
							return c, err
						}
						return &wire{c, silent}, nil
					}))
				if err != nil {
					t.Fatal(err)
				}
				client := pb.NewTestServiceClient(conn)
				if err := ask(t.Context(), client, false); err != nil {
					t.Fatal(err)
				}
				s.calls.Store(0)
				silent.Store(true)
				began := time.Now()
				err = ask(t.Context(), client, false)
				took := time.Since(began)
				if status.Code(err) != c.code || took > 22*time.Second || took < 10*time.Second || s.calls.Load() != c.came {
					t.Errorf("after %v, with %d calls that came: %v", took, s.calls.Load(), err)
				}
				if e := new(gabion.Error); err != nil && (!errors.As(err, &e) || e.Reason != policy.NotSafe || e.Attempts != 1) {
					t.Error(err)
				}
				if err := ask(t.Context(), client, false); err != nil || dialed != 2 {
					t.Errorf("%d connections: %v", dialed, err)
				}
				conn.Close()
				server.Stop()
				<-served
				gabiontest.NothingHeld(t, d)
			})
		})
	}
}
