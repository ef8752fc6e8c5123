package gabiongrpc_test

import (
	"context"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/gabion-go/gabion/contrib/gabiongrpc"
)

// house is a real server whose calls last until the test lets them go, and a client of
// grpc-go without gabion. Both are in memory, so that it works in a bubble.
type house struct {
	pb.UnimplementedTestServiceServer
	*testing.T
	*gabiongrpc.Admission
	conn     *grpc.ClientConn
	listener *bufconn.Listener

	mu     sync.Mutex
	begun  []string // the names of calls, in the order in which their work began
	hold   chan struct{}
	work   func(context.Context) error // in place of waiting for hold
	stream func(pb.TestService_FullDuplexCallServer) error
}

// serve starts a server with the interceptors of s.
func serve(t *testing.T, s gabiongrpc.Server, dial ...grpc.DialOption) *house {
	t.Helper()
	return serveWith(t, s.Admission, s.Options(), dial...)
}

// serveWith starts a server with other options.
func serveWith(t *testing.T, a *gabiongrpc.Admission, options []grpc.ServerOption, dial ...grpc.DialOption) *house {
	t.Helper()
	h := &house{T: t, Admission: a, hold: make(chan struct{})}
	l := bufconn.Listen(1 << 20)
	server := grpc.NewServer(options...)
	pb.RegisterTestServiceServer(server, h)
	healthpb.RegisterHealthServer(server, health.NewServer())
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	h.listener = l
	h.conn = h.again(dial...)
	t.Cleanup(func() {
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return h
}

// again connects once more.
func (h *house) again(dial ...grpc.DialOption) *grpc.ClientConn {
	h.Helper()
	conn, err := grpc.NewClient("passthrough:///house", append(dial, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return h.listener.DialContext(ctx) }))...)
	if err != nil {
		h.Fatal(err)
	}
	h.Cleanup(func() { conn.Close() })
	return conn
}

func admits(t *testing.T, a *gabiongrpc.Admission) *house {
	return serve(t, gabiongrpc.Server{Admission: a})
}

func (h *house) begin(ctx context.Context) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.begun = append(h.begun, one(ctx, "name"))
}

func one(ctx context.Context, name string) string {
	for _, v := range metadata.ValueFromIncomingContext(ctx, name) {
		return v
	}
	return ""
}

// EmptyCall works.
func (h *house) EmptyCall(ctx context.Context, _ *pb.Empty) (*pb.Empty, error) {
	h.begin(ctx)
	if h.work != nil {
		return &pb.Empty{}, h.work(ctx)
	}
	<-h.hold
	return &pb.Empty{}, nil
}

// FullDuplexCall works as a stream.
func (h *house) FullDuplexCall(s pb.TestService_FullDuplexCallServer) error {
	h.begin(s.Context())
	if h.stream != nil {
		return h.stream(s)
	}
	<-h.hold
	return nil
}

// asked is a call under way, and then its answer.
type asked struct {
	cancel  context.CancelFunc
	over    chan struct{}
	status  *status.Status
	trailer metadata.MD
}

// ask makes a call with metadata given as pairs.
func (h *house) ask(name string, pairs ...string) *asked {
	return h.askIn(context.Background(), name, pairs...)
}

func (h *house) askIn(ctx context.Context, name string, pairs ...string) *asked {
	ctx, cancel := context.WithCancel(ctx)
	ctx = metadata.AppendToOutgoingContext(ctx, append(pairs, "name", name)...)
	a := &asked{cancel: cancel, over: make(chan struct{})}
	go func() {
		defer close(a.over)
		defer cancel()
		_, err := pb.NewTestServiceClient(h.conn).EmptyCall(ctx, &pb.Empty{}, grpc.Trailer(&a.trailer))
		a.status = status.Convert(err)
	}()
	synctest.Wait()
	return a
}

// next lets one call go, and waits until the next one has begun.
func (h *house) next() { h.hold <- struct{}{}; synctest.Wait() }

func (h *house) close() { close(h.hold); synctest.Wait() }

// fill puts as many in the queue.
func (h *house) fill(n int) {
	for h.Stats().Queued < n {
		h.ask("filler")
	}
}

// overloaded makes an overload: for one interval every call waits too long.
func (h *house) overloaded() {
	h.Helper()
	h.ask("filler")
	h.ask("filler")
	for i := 0; i < 40 && !h.Stats().Overloaded; i++ {
		h.ask("filler")
		time.Sleep(50 * time.Millisecond)
		h.next()
	}
	if !h.Stats().Overloaded {
		h.Fatalf("no overload: %+v", h.Stats())
	}
}

func byName(ctx context.Context, _ string) string { return one(ctx, "tenant") }

// details are the reason of an ErrorInfo with its domain, and the delay of a RetryInfo.
func details(s *status.Status) (reason string, after time.Duration) {
	for _, d := range s.Details() {
		switch d := d.(type) {
		case *errdetails.ErrorInfo:
			reason = d.Domain + "/" + d.Reason
		case *errdetails.RetryInfo:
			after = d.RetryDelay.AsDuration()
		}
	}
	return reason, after
}

// first is the only value of a trailer.
func (a *asked) first(t *testing.T, name string) string {
	t.Helper()
	values := a.trailer.Get(name)
	if len(values) > 1 {
		t.Errorf("%s has the values %q", name, values)
	}
	if len(values) == 0 {
		return ""
	}
	return values[0]
}
