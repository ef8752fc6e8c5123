package grpc

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/gabionhttp"
	"github.com/gabion-go/gabion/policy"
)

const (
	unary  = "/grpc.testing.TestService/UnaryCall"
	stream = "/grpc.testing.TestService/StreamingOutputCall"
	both   = "/grpc.testing.TestService/FullDuplexCall"
)

// service fails with a code, or answers, as grpc-go and as connect-go serve it.
type service struct {
	pb.UnimplementedTestServiceServer
	calls atomic.Int32
	code  atomic.Uint32
	after atomic.Int32 // messages that a stream sends before it fails
}

func (s *service) UnaryCall(context.Context, *pb.SimpleRequest) (*pb.SimpleResponse, error) {
	s.calls.Add(1)
	if c := s.code.Load(); c != 0 {
		return nil, status.Error(codes.Code(c), "as the test wants it")
	}
	return &pb.SimpleResponse{Username: "you"}, nil
}

func (s *service) StreamingOutputCall(_ *pb.StreamingOutputCallRequest, out pb.TestService_StreamingOutputCallServer) error {
	return s.streams(out.Send)
}

func (s *service) streams(send func(*pb.StreamingOutputCallResponse) error) error {
	s.calls.Add(1)
	for range s.after.Load() {
		if err := send(&pb.StreamingOutputCallResponse{Payload: &pb.Payload{Body: make([]byte, 2000)}}); err != nil {
			return err
		}
	}
	if c := s.code.Load(); c != 0 {
		return status.Error(codes.Code(c), "as the test wants it")
	}
	return nil
}

func (s *service) FullDuplexCall(both pb.TestService_FullDuplexCallServer) error {
	s.calls.Add(1)
	for {
		if _, err := both.Recv(); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		if err := both.Send(&pb.StreamingOutputCallResponse{}); err != nil {
			return err
		}
	}
}

// asConnect is what connect-go makes of the same service.
func (s *service) asConnect() http.Handler {
	failed := func(err error) error {
		if err == nil {
			return nil
		}
		return connect.NewError(connect.Code(status.Code(err)), errors.New("as the test wants it"))
	}
	mux := http.NewServeMux()
	mux.Handle(unary, connect.NewUnaryHandler(unary, func(ctx context.Context, r *connect.Request[pb.SimpleRequest]) (*connect.Response[pb.SimpleResponse], error) {
		m, err := s.UnaryCall(ctx, r.Msg)
		if err != nil {
			return nil, failed(err)
		}
		return connect.NewResponse(m), nil
	}))
	mux.Handle(stream, connect.NewServerStreamHandler(stream, func(_ context.Context, _ *connect.Request[pb.StreamingOutputCallRequest], out *connect.ServerStream[pb.StreamingOutputCallResponse]) error {
		return failed(s.streams(out.Send))
	}))
	mux.Handle(both, connect.NewBidiStreamHandler(both, func(_ context.Context, io2 *connect.BidiStream[pb.StreamingOutputCallRequest, pb.StreamingOutputCallResponse]) error {
		s.calls.Add(1)
		for {
			if _, err := io2.Receive(); errors.Is(err, io.EOF) {
				return nil
			} else if err != nil {
				return err
			}
			if err := io2.Send(&pb.StreamingOutputCallResponse{}); err != nil {
				return err
			}
		}
	}))
	return mux
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// serveGRPC starts a server of grpc-go, and returns its URL.
func serveGRPC(t *testing.T, s pb.TestServiceServer, options ...grpc.ServerOption) string {
	t.Helper()
	l := listen(t)
	server := grpc.NewServer(options...)
	pb.RegisterTestServiceServer(server, s)
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return "http://" + l.Addr().String()
}

// serveConnect starts a server of net/http, as connect-go has it, and returns its URL.
func serveConnect(t *testing.T, h http.Handler) string {
	t.Helper()
	l := listen(t)
	server := &http.Server{Handler: h, Protocols: cleartext()}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	t.Cleanup(func() {
		server.Close()
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return "http://" + l.Addr().String()
}

// everywhere serves s with grpc-go, alone and under net/http, and with connect-go. It returns
// the URLs.
func (s *service) everywhere(t *testing.T) map[string]string {
	t.Helper()
	under := grpc.NewServer()
	pb.RegisterTestServiceServer(under, s)
	t.Cleanup(under.Stop)
	return map[string]string{
		"grpc-go":                serveGRPC(t, s),
		"grpc-go under net/http": serveConnect(t, under),
		"connect-go":             serveConnect(t, s.asConnect()),
	}
}

// cleartext is HTTP/2 without TLS.
func cleartext() *http.Protocols {
	p := new(http.Protocols)
	p.SetUnencryptedHTTP2(true)
	return p
}

// through is a client that calls through a dependency.
func through(t *testing.T, p policy.Policy) (*http.Client, *gabion.Dependency) {
	t.Helper()
	base := &http.Transport{Protocols: cleartext()}
	t.Cleanup(base.CloseIdleConnections)
	d := gabion.New("stock", p)
	return &http.Client{Transport: &gabionhttp.Transport{Dependency: d, Base: base}}, d
}

// eager retries soon, and has a breaker that counts and never refuses.
func eager(attempts int) policy.Policy {
	return policy.Policy{
		Safe: true, Timeout: policy.Timeout{Call: time.Minute},
		Retry: policy.Retry{Attempts: attempts, Backoff: backoff.Full(time.Millisecond, 2*time.Millisecond), Budget: policy.Budget{Off: true},
			Contention: policy.ContentionRetry{Attempts: attempts, Backoff: backoff.Full(time.Millisecond, 2*time.Millisecond)}},
		Breaker: policy.Breaker{Observe: true}, Pace: policy.Pace{Off: true},
	}
}

func failures(d *gabion.Dependency) (n int64) {
	for _, p := range d.Stats().Partitions {
		n += p.Breaker.Counts.Failures
	}
	return n
}

// protocols are those that connect-go speaks.
var protocols = map[string][]connect.ClientOption{
	"gRPC":     {connect.WithGRPC()},
	"gRPC-Web": {connect.WithGRPCWeb()},
	"Connect":  nil,
}

// In every protocol and with every server: 30 UNAVAILABLE are 30 failures, they are repeated where that
// is safe, and the client gets UNAVAILABLE as it does without gabion.
func TestThirtyUnavailableAreThirtyFailures(t *testing.T) {
	s := new(service)
	servers := s.everywhere(t)
	for server, url := range servers {
		for name, options := range protocols {
			if server != "connect-go" && name != "gRPC" {
				continue
			}
			for _, streams := range []bool{false, true} {
				for _, attempts := range []int{1, 3} {
					kind := map[bool]string{false: "unary", true: "stream"}[streams]
					t.Run(server+", "+name+", "+kind+", "+map[int]string{1: "once", 3: "three times"}[attempts], func(t *testing.T) {
						s.calls.Store(0)
						s.code.Store(uint32(codes.Unavailable))
						hc, d := through(t, eager(attempts))
						for range 30 {
							if code := call(t, hc, url, streams, options); code != connect.CodeUnavailable {
								t.Errorf("the client got %v", code)
							}
						}
						if n, calls := failures(d), s.calls.Load(); n != int64(30*attempts) || calls != int32(30*attempts) {
							t.Errorf("%d failures and %d calls", n, calls)
						}
						nothingHeld(t, d)
					})
				}
			}
		}
	}
}

// call makes a call with connect-go's client and returns how it ended; 0 is well.
func call(t *testing.T, hc *http.Client, url string, streams bool, options []connect.ClientOption) connect.Code {
	t.Helper()
	var err error
	if streams {
		var in *connect.ServerStreamForClient[pb.StreamingOutputCallResponse]
		in, err = connect.NewClient[pb.StreamingOutputCallRequest, pb.StreamingOutputCallResponse](hc, url+stream, options...).
			CallServerStream(t.Context(), connect.NewRequest(&pb.StreamingOutputCallRequest{}))
		if err == nil {
			for in.Receive() {
			}
			err = in.Err()
			in.Close()
		}
	} else {
		_, err = connect.NewClient[pb.SimpleRequest, pb.SimpleResponse](hc, url+unary, options...).
			CallUnary(t.Context(), connect.NewRequest(&pb.SimpleRequest{}))
	}
	if err == nil {
		return 0
	}
	return connect.CodeOf(err)
}

func nothingHeld(t *testing.T, d *gabion.Dependency) {
	t.Helper()
	if s := d.Stats(); s.Bulkhead.InUse != 0 || s.Streams != 0 {
		t.Errorf("%d slots in use, %d streams", s.Bulkhead.InUse, s.Streams)
	}
}

// What works without gabion works with it: unary calls, long streams, and streams in both
// directions, where each side waits for the other.
func TestCallsThatSucceedAreNotTouched(t *testing.T) {
	s := new(service)
	servers := s.everywhere(t)
	for server, url := range servers {
		for name, options := range protocols {
			if server != "connect-go" && name != "gRPC" {
				continue
			}
			t.Run(server+", "+name, func(t *testing.T) {
				hc, d := through(t, eager(3))
				s.calls.Store(0)
				s.after.Store(50)
				defer s.after.Store(0)
				s.code.Store(0)
				for _, streams := range []bool{false, true} {
					if code := call(t, hc, url, streams, options); code != 0 {
						t.Errorf("stream %v: %v", streams, code)
					}
				}
				echo := connect.NewClient[pb.StreamingOutputCallRequest, pb.StreamingOutputCallResponse](hc, url+both, options...).CallBidiStream(t.Context())
				for i := range 3 {
					if err := echo.Send(&pb.StreamingOutputCallRequest{}); err != nil {
						t.Fatal(i, err)
					}
					if _, err := echo.Receive(); err != nil {
						t.Fatal(i, err)
					}
				}
				echo.CloseRequest()
				if _, err := echo.Receive(); !errors.Is(err, io.EOF) {
					t.Error(err)
				}
				echo.CloseResponse()
				if n, calls := failures(d), s.calls.Load(); n != 0 || calls != 3 {
					t.Errorf("%d failures, %d calls", n, calls)
				}
				nothingHeld(t, d)

				// A stream that fails after a hundred kilobytes is one failure, and is not repeated.
				s.code.Store(uint32(codes.Unavailable))
				if code := call(t, hc, url, true, options); code != connect.CodeUnavailable {
					t.Error(code)
				}
				if n, calls := failures(d), s.calls.Load(); n != 1 || calls != 4 {
					t.Errorf("after the stream that failed: %d failures, %d calls", n, calls)
				}
				nothingHeld(t, d)
			})
		}
	}
}
