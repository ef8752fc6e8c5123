package gabiongrpc_test

import (
	"context"
	"net"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/contrib/gabiongrpc"
	"github.com/gabion-go/gabion/gabiontest"
	"github.com/gabion-go/gabion/policy"
)

const ms = time.Millisecond

// seen is what the server saw of one attempt.
type seen struct {
	at   time.Duration // since the test began
	left time.Duration // of the deadline that the server got; 0 means no deadline
	md   metadata.MD
}

// server is a real gRPC server in a bubble, reached through memory.
type server struct {
	pb.UnimplementedTestServiceServer
	t      *testing.T
	start  time.Time
	unary  func(ctx context.Context, n int, r *pb.SimpleRequest) (*pb.SimpleResponse, error)
	down   func(n int, r *pb.StreamingOutputCallRequest, s grpc.ServerStreamingServer[pb.StreamingOutputCallResponse]) error
	up     func(n int, s grpc.ClientStreamingServer[pb.StreamingInputCallRequest, pb.StreamingInputCallResponse]) error
	duplex func(n int, s grpc.BidiStreamingServer[pb.StreamingOutputCallRequest, pb.StreamingOutputCallResponse]) error

	mu   sync.Mutex
	came []seen
}

func (s *server) note(ctx context.Context) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := seen{at: time.Since(s.start)}
	v.md, _ = metadata.FromIncomingContext(ctx)
	if at, ok := ctx.Deadline(); ok {
		v.left = time.Until(at)
	}
	s.came = append(s.came, v)
	return len(s.came)
}

func (s *server) seen() []seen {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]seen(nil), s.came...)
}

// wantAt checks when attempts came.
func (s *server) wantAt(want ...time.Duration) {
	s.t.Helper()
	got := s.seen()
	if len(got) != len(want) {
		s.t.Fatalf("%d attempts came, want %d", len(got), len(want))
	}
	for i, w := range want {
		if got[i].at != w {
			s.t.Errorf("attempt %d came at %v, want %v", i+1, got[i].at, w)
		}
	}
}

func (s *server) UnaryCall(ctx context.Context, r *pb.SimpleRequest) (*pb.SimpleResponse, error) {
	return s.unary(ctx, s.note(ctx), r)
}

func (s *server) StreamingOutputCall(r *pb.StreamingOutputCallRequest, st grpc.ServerStreamingServer[pb.StreamingOutputCallResponse]) error {
	return s.down(s.note(st.Context()), r, st)
}

func (s *server) StreamingInputCall(st grpc.ClientStreamingServer[pb.StreamingInputCallRequest, pb.StreamingInputCallResponse]) error {
	return s.up(s.note(st.Context()), st)
}

func (s *server) FullDuplexCall(st grpc.BidiStreamingServer[pb.StreamingOutputCallRequest, pb.StreamingOutputCallResponse]) error {
	return s.duplex(s.note(st.Context()), st)
}

// room is a test's bubble: a server, a dependency and a connection through it.
type room struct {
	*testing.T
	*server
	dep  *gabion.Dependency
	rec  *gabiontest.Recorder
	dial func(opts ...grpc.DialOption) *grpc.ClientConn
	conn *grpc.ClientConn
	stub pb.TestServiceClient
}

// plain is a policy whose decisions are easy to foresee.
func plain() policy.Policy {
	return policy.Policy{
		Retry: policy.Retry{Attempts: 3, Backoff: backoff.Backoff{Kind: backoff.Constant, Base: 100 * ms, Cap: time.Minute},
			Budget: policy.Budget{Off: true}, Hold: policy.Off},
		Timeout: policy.Timeout{Attempt: 4 * time.Second, Call: 15 * time.Second},
	}
}

func with(p policy.Policy, change func(*policy.Policy)) policy.Policy {
	change(&p)
	return p
}

// inRoom runs f in a bubble, and checks that nothing is left.
func inRoom(t *testing.T, p policy.Policy, f func(*room)) {
	t.Helper()
	inRoomOf(t, p, nil, nil, f)
}

func inRoomOf(t *testing.T, p policy.Policy, change func(*gabiongrpc.Client), more []grpc.DialOption, f func(*room), opts ...gabion.Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		rec := new(gabiontest.Recorder)
		r := &room{T: t, server: &server{t: t, start: time.Now()}, rec: rec}
		r.dep = gabion.New("payments", p, append(opts, gabion.WithObserver(rec))...)
		l := bufconn.Listen(1 << 20)
		s := grpc.NewServer()
		pb.RegisterTestServiceServer(s, r.server)
		served := make(chan struct{})
		go func() { defer close(served); _ = s.Serve(l) }()
		c := &gabiongrpc.Client{Dependency: r.dep}
		if change != nil {
			change(c)
		}
		r.dial = func(opts ...grpc.DialOption) *grpc.ClientConn {
			memory := []grpc.DialOption{
				grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }),
				grpc.WithTransportCredentials(insecure.NewCredentials()),
			}
			conn, err := grpc.NewClient("passthrough:///memory", append(memory, opts...)...)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = conn.Close() })
			return conn
		}
		r.conn = r.dial(append(c.DialOptions(), more...)...)
		r.stub = pb.NewTestServiceClient(r.conn)
		defer func() {
			_ = r.conn.Close()
			s.Stop()
			<-served
		}()
		f(r)
		synctest.Wait() // hedges that lost
		gabiontest.NothingHeld(t, r.dep)
	})
}

// call makes a unary call that asks for nothing.
func (r *room) call(opts ...grpc.CallOption) (*pb.SimpleResponse, error) {
	return r.stub.UnaryCall(r.Context(), &pb.SimpleRequest{}, opts...)
}

func safely() grpc.CallOption { return gabiongrpc.With(gabion.WithIdempotent()) }

// answers answers each attempt by its number; the last serves all that follow.
func (r *room) answers(all ...answer) {
	r.server.unary = func(ctx context.Context, n int, _ *pb.SimpleRequest) (*pb.SimpleResponse, error) {
		return all[min(n, len(all))-1].give(ctx)
	}
}

// answer is one answer of the server.
type answer struct {
	takes    time.Duration
	code     codes.Code
	body     string
	pushback string
	details  []protoadapt.MessageV1
	header   metadata.MD
	trailer  metadata.MD
}

func ok(body string) answer                   { return answer{body: body} }
func fails(code codes.Code) answer            { return answer{code: code} }
func (a answer) after(d time.Duration) answer { a.takes = d; return a }
func (a answer) push(ms string) answer        { a.pushback = ms; return a }
func (a answer) retryIn(d time.Duration) answer {
	a.details = append(a.details, &errdetails.RetryInfo{RetryDelay: durationpb.New(d)})
	return a
}

func (a answer) give(ctx context.Context) (*pb.SimpleResponse, error) {
	if a.takes > 0 {
		select {
		case <-time.After(a.takes):
		case <-ctx.Done():
			return nil, status.FromContextError(ctx.Err()).Err()
		}
	}
	if a.header != nil {
		_ = grpc.SendHeader(ctx, a.header)
	}
	trailer := metadata.Join(a.trailer)
	if a.pushback != "" {
		trailer.Set("grpc-retry-pushback-ms", a.pushback)
	}
	_ = grpc.SetTrailer(ctx, trailer)
	if a.code != codes.OK {
		s, _ := status.New(a.code, "as told: "+strconv.Itoa(int(a.code))).WithDetails(a.details...)
		return nil, s.Err()
	}
	return &pb.SimpleResponse{Username: a.body}, nil
}
