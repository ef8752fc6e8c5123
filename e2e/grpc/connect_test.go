package grpc

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/contrib/gabiongrpc"
	"github.com/gabion-go/gabion/gabiontest"
	"github.com/gabion-go/gabion/policy"
)

// dialWith connects gabion's client to a server of any kind.
func dialWith(t *testing.T, url string, p policy.Policy) (pb.TestServiceClient, *gabion.Dependency) {
	t.Helper()
	d := gabion.New("stock", p)
	conn, err := gabiongrpc.NewClient(strings.TrimPrefix(url, "http://"), d, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return pb.NewTestServiceClient(conn), d
}

// 30 UNAVAILABLE of connect-go's server are 30 failures for gabion's client, as those of
// grpc-go's are, and are repeated where that is safe.
func TestThirtyUnavailableOfConnect(t *testing.T) {
	s := new(service)
	url := serveConnect(t, s.asConnect())
	for _, c := range []struct {
		fact    string
		streams bool
		safe    bool
		each    int // times that each call comes
	}{
		{"unary", false, false, 1},
		{"unary and safe", false, true, 3},
		{"a stream", true, false, 1},
		{"a stream that is safe, which connect-go begins with its header before it fails", true, true, 1},
	} {
		t.Run(c.fact, func(t *testing.T) {
			gabiontest.NoLeaks(t)
			s.calls.Store(0)
			s.code.Store(uint32(codes.Unavailable))
			p := eager(3)
			p.Safe = c.safe
			client, d := dialWith(t, url, p)
			for range 30 {
				if err := ask(t.Context(), client, c.streams); status.Code(err) != codes.Unavailable {
					t.Error(err)
				}
			}
			if n, calls := failures(d), s.calls.Load(); int(n) != 30*c.each || int(calls) != 30*c.each {
				t.Errorf("%d failures and %d calls", n, calls)
			}
			s.code.Store(0)
			s.after.Store(streamed)
			defer s.after.Store(0)
			if err := ask(t.Context(), client, c.streams); err != nil {
				t.Error(err)
			}
			gabiontest.NothingHeld(t, d)
		})
	}
}

// ask makes one call.
func ask(ctx context.Context, client pb.TestServiceClient, streams bool) error {
	if !streams {
		_, err := client.UnaryCall(ctx, &pb.SimpleRequest{})
		return err
	}
	in, err := client.StreamingOutputCall(ctx, &pb.StreamingOutputCallRequest{})
	for err == nil {
		_, err = in.Recv()
	}
	if err.Error() == "EOF" {
		return nil
	}
	return err
}

// visits is a server of connect-go that notes when calls came and how much time they had.
type visits struct {
	pushback string

	mu   sync.Mutex
	came []time.Time
	left []time.Duration
}

func (v *visits) handler() http.Handler {
	return connect.NewUnaryHandler(unary, func(ctx context.Context, _ *connect.Request[pb.SimpleRequest]) (*connect.Response[pb.SimpleResponse], error) {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.came = append(v.came, time.Now())
		left := time.Duration(-1)
		if at, ok := ctx.Deadline(); ok {
			left = time.Until(at)
		}
		v.left = append(v.left, left)
		if len(v.came) > 1 {
			return connect.NewResponse(&pb.SimpleResponse{}), nil
		}
		err := connect.NewError(connect.CodeUnavailable, errors.New("as the test wants it"))
		err.Meta().Set("grpc-retry-pushback-ms", v.pushback)
		return nil, err
	})
}

// Pushback of connect-go's server is obeyed, by gabion's client of gRPC and by clients of
// connect-go over gabionhttp, and the deadline of each attempt is known there.
func TestPushbackAndDeadlineOfConnect(t *testing.T) {
	for _, c := range []struct {
		fact     string
		pushback string
		came     int
		least    time.Duration // between them
	}{
		{"pushback is waited for", "60", 2, 60 * time.Millisecond},
		{"negative pushback ends the call", "-1", 1, 0},
		{"so does one that is no number", "soon", 1, 0},
	} {
		for _, by := range []string{"gabion", "gRPC", "gRPC-Web"} {
			t.Run(c.fact+", "+by, func(t *testing.T) {
				v := &visits{pushback: c.pushback}
				mux := http.NewServeMux()
				mux.Handle(unary, v.handler())
				url := serveConnect(t, mux)
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				defer cancel()
				p := eager(3)
				var err error
				if by == "gabion" {
					client, d := dialWith(t, url, p)
					err = ask(ctx, client, false)
					gabiontest.NothingHeld(t, d)
				} else {
					hc, d := through(t, p)
					_, err = connect.NewClient[pb.SimpleRequest, pb.SimpleResponse](hc, url+unary, protocols[by]...).CallUnary(ctx, connect.NewRequest(&pb.SimpleRequest{}))
					nothingHeld(t, d)
				}
				v.mu.Lock()
				defer v.mu.Unlock()
				if (err == nil) != (c.came == 2) || len(v.came) != c.came {
					t.Fatalf("%d calls came: %v", len(v.came), err)
				}
				if c.came == 2 && v.came[1].Sub(v.came[0]) < c.least {
					t.Errorf("the second came %v after the first", v.came[1].Sub(v.came[0]))
				}
				for _, left := range v.left {
					if left <= 0 || left > 20*time.Second {
						t.Errorf("the server got %v of time left", left)
					}
				}
			})
		}
	}
}

// A server learns the deadline of a client of connect-go over gabionhttp, and refuses a call with too
// little time before any work.
func TestTheDeadlineOfAClientOfConnect(t *testing.T) {
	for _, needs := range []time.Duration{0, time.Minute} {
		last := &hop{next: func(context.Context) error { return nil }}
		deadline := &gabiongrpc.Deadline{Margin: needs}
		url := serveGRPC(t, last, gabiongrpc.Server{Deadline: deadline}.Options()...)
		hc, d := through(t, eager(3))
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		_, err := connect.NewClient[pb.SimpleRequest, pb.SimpleResponse](hc, url+unary, connect.WithGRPC()).CallUnary(ctx, connect.NewRequest(&pb.SimpleRequest{}))
		came := last.came()
		switch {
		case needs == 0 && (err != nil || len(came) != 1 || came[0] <= 0 || came[0] > 20*time.Second):
			t.Errorf("with %v: %v", came, err)
		case needs > 0 && (connect.CodeOf(err) != connect.CodeDeadlineExceeded || len(came) != 0 || deadline.Saved() != 1):
			t.Errorf("refused %d times, came %v: %v", deadline.Saved(), came, err)
		}
		nothingHeld(t, d)
	}
}
