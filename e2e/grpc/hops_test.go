package grpc

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/contrib/gabiongrpc"
	"github.com/gabion-go/gabion/gabionhttp"
	"github.com/gabion-go/gabion/gabiontest"
	"github.com/gabion-go/gabion/policy"
)

// hop is one server of three: it notes how much time each call has, and calls the next one.
type hop struct {
	pb.UnimplementedTestServiceServer
	next func(context.Context) error

	mu   sync.Mutex
	left []time.Duration
}

func (h *hop) serve(ctx context.Context) error {
	left := time.Duration(-1)
	if at, ok := ctx.Deadline(); ok {
		left = time.Until(at)
	}
	h.mu.Lock()
	h.left = append(h.left, left)
	h.mu.Unlock()
	return h.next(ctx)
}

func (h *hop) came() []time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]time.Duration(nil), h.left...)
}

func (h *hop) UnaryCall(ctx context.Context, _ *pb.SimpleRequest) (*pb.SimpleResponse, error) {
	return &pb.SimpleResponse{}, h.serve(ctx)
}

func (h *hop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := h.serve(r.Context()); err != nil {
		gabionhttp.Error(w, err)
	}
}

// calls returns what calls the hop that a server of gRPC at an URL is, through d.
func calls(t *testing.T, d *gabion.Dependency, url string) func(context.Context) error {
	t.Helper()
	conn, err := gabiongrpc.NewClient(strings.TrimPrefix(url, "http://"), d, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	client := pb.NewTestServiceClient(conn)
	return func(ctx context.Context) error {
		_, err := client.UnaryCall(ctx, &pb.SimpleRequest{})
		return err
	}
}

// HTTP, then gRPC, then gRPC: the time that is left gets less with each hop, what has none is
// refused, and what the last one fails is repeated by its caller alone: three layers of three
// attempts are three calls.
func TestThreeHops(t *testing.T) {
	down := func(context.Context) error { return status.Error(codes.Unavailable, "as the test wants it") }
	fine := func(context.Context) error { return nil }
	const limit = 10 * time.Second
	for _, c := range []struct {
		fact   string
		last   func(context.Context) error
		keeps  time.Duration // what the middle hop keeps for itself
		needs  time.Duration // what it needs to begin
		came   [3]int
		status int
	}{
		{"the last hop works", fine, time.Second, 0, [3]int{1, 1, 1}, 200},
		{"the last hop is down", down, time.Second, 0, [3]int{1, 1, 3}, 503},
		{"no time is left for the last hop", fine, 9 * time.Second, 0, [3]int{1, 1, 0}, 502},
		{"the middle hop needs more time than is left", fine, time.Second, 9 * time.Second, [3]int{1, 0, 0}, 503},
	} {
		t.Run(c.fact, func(t *testing.T) {
			gabiontest.NoLeaks(t)
			p := eager(3)
			p.Trust, p.Timeout = policy.Internal, policy.Timeout{Call: time.Minute, HopMargin: time.Second}
			toFront, toMiddle, toLast := gabion.New("front", p), gabion.New("middle", p), p
			toLast.Timeout.Attempt, toLast.Timeout.HopMargin = 40*time.Second, c.keeps
			dLast := gabion.New("last", toLast)
			deadline := &gabiongrpc.Deadline{Margin: c.needs}
			last := &hop{next: c.last}
			lastURL := serveGRPC(t, last, gabiongrpc.Server{Deadline: &gabiongrpc.Deadline{}}.Options()...)
			middle := &hop{next: calls(t, dLast, lastURL)}
			middleURL := serveGRPC(t, middle, gabiongrpc.Server{Deadline: deadline}.Options()...)
			front := &hop{next: calls(t, toMiddle, middleURL)}
			frontURL := serveConnect(t, &gabionhttp.Deadline{Next: front})
			base := &http.Transport{Protocols: cleartext()}
			defer base.CloseIdleConnections()
			client := &http.Client{Transport: &gabionhttp.Transport{Dependency: toFront, Base: base}}

			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			began := time.Now()
			req, _ := http.NewRequestWithContext(ctx, http.MethodPost, frontURL, nil)
			resp, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			body, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			if resp.StatusCode != c.status || time.Since(began) > limit {
				t.Errorf("%s after %v: %s %v", resp.Status, time.Since(began), body, resp.Header)
			}
			before, hops := limit, []*hop{front, middle, last}
			for i, h := range hops {
				came := h.came()
				if len(came) != c.came[i] {
					t.Errorf("hop %d: %d calls, want %d", i+1, len(came), c.came[i])
				}
				least := before
				for _, left := range came {
					if left <= 0 || left > before-time.Second {
						t.Errorf("hop %d has %v, the one before had %v", i+1, left, before)
					}
					least = min(least, left)
				}
				before = least
			}
			if (deadline.Saved() > 0) != (c.needs > 0) {
				t.Errorf("the middle hop refused %d calls", deadline.Saved())
			}
			for _, d := range []*gabion.Dependency{toFront, toMiddle, dLast} {
				gabiontest.NothingHeld(t, d)
			}
		})
	}
}
