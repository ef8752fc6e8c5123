package bench

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/contrib/gabiongrpc"
	middleware "github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/retry"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
)

func rpcs() []*Contest {
	retries := fmt.Sprintf(`{"methodConfig": [{"name": [{}], "retryPolicy": {"maxAttempts": %d, "initialBackoff": "0.1s",
		"maxBackoff": "1s", "backoffMultiplier": 2, "retryableStatusCodes": ["UNAVAILABLE"]}}]}`, attempts)
	return []*Contest{{
		Name: "grpc", Title: "gRPC over loopback", Runs: 1, Headline: true, CPU: true, Floor: "bare+WithTimeout",
		About: "A unary call of two messages of a few bytes, to a server in another process, which counts the calls. Each client has a connection. " +
			"The caller's context can be cancelled. Bytes and allocations are the client's.",
		Modes: []Mode{{"1", 1}, {"16", 16}},
		Entries: []Entry{
			rpcEntry("bare", Floor, "grpc-go, no deadline", 0),
			rpcEntry("bare+WithTimeout", Floor, "and context.WithTimeout: the least that sets a deadline", limit, grpc.WithDisableRetry()),
			rpcEntry("gabion", Gabion, "gabiongrpc.Client, the full stack", 0,
				(&gabiongrpc.Client{Dependency: gabion.New("bench", whole())}).DialOptions()...),
			weaker(rpcEntry("grpc-go", Peer, "its retries by service config, and context.WithTimeout", limit, grpc.WithDefaultServiceConfig(retries))),
			weaker(rpcEntry("go-grpc-middleware", Peer, "its retries, with a timeout for each", 0, grpc.WithDisableRetry(), grpc.WithChainUnaryInterceptor(
				middleware.UnaryClientInterceptor(middleware.WithMax(attempts), middleware.WithCodes(codes.Unavailable), middleware.WithPerRetryTimeout(limit))))),
		},
	}}
}

// rpcEntry is a client over a connection with those options. A timeout of zero means no timeout.
func rpcEntry(name string, kind Kind, note string, timeout time.Duration, opts ...grpc.DialOption) Entry {
	return Entry{Name: name, Kind: kind, Note: note, Start: func(r *Run) func(*Worker) func() bool {
		s, err := server()
		if err != nil {
			r.Fatal(err)
		}
		conn, err := grpc.NewClient(s.text(r, "rpc"), append(opts, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
		if err != nil {
			r.Fatal(err)
		}
		r.Cleanup(func() { _ = conn.Close() })
		stub := pb.NewTestServiceClient(conn)
		invoke := func(ctx context.Context) bool {
			if timeout > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, timeout)
				defer cancel()
			}
			reply, err := stub.UnaryCall(ctx, &pb.SimpleRequest{ResponseSize: 1})
			return err == nil && reply.GetUsername() == hello
		}
		warmRPC(invoke)
		before := s.number(r, "rpcs")
		r.Counted = func() int { return s.number(r, "rpcs") - before }
		return func(*Worker) func() bool {
			ctx, cancel := context.WithCancel(context.Background())
			r.Cleanup(cancel)
			return func() bool { return invoke(ctx) }
		}
	}}
}

// warmRPC opens the connection.
func warmRPC(invoke func(context.Context) bool) {
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() { invoke(context.Background()) })
	}
	wg.Wait()
}

// rpcServer answers calls and counts them.
type rpcServer struct {
	pb.UnimplementedTestServiceServer
	served atomic.Int64
}

// UnaryCall implements the service.
func (s *rpcServer) UnaryCall(context.Context, *pb.SimpleRequest) (*pb.SimpleResponse, error) {
	s.served.Add(1)
	return &pb.SimpleResponse{Username: hello}, nil
}

// serveRPCs serves gRPC beside HTTP, where it tells its address and its count.
func serveRPCs(mux *http.ServeMux) (stop func(), err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	work, s := new(rpcServer), grpc.NewServer()
	pb.RegisterTestServiceServer(s, work)
	mux.HandleFunc("GET /rpc", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, l.Addr()) })
	mux.HandleFunc("GET /rpcs", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, work.served.Load()) })
	go func() { _ = s.Serve(l) }()
	return s.Stop, nil
}
