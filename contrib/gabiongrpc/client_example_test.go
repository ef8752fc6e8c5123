package gabiongrpc_test

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/contrib/gabiongrpc"
	"github.com/gabion-go/gabion/policy"
)

// bank is a server that fails the first time. It answers with the key that it was given.
type bank struct {
	pb.UnimplementedTestServiceServer
	calls atomic.Int64
}

func (b *bank) UnaryCall(ctx context.Context, _ *pb.SimpleRequest) (*pb.SimpleResponse, error) {
	if b.calls.Add(1) == 1 {
		return nil, status.Error(codes.Unavailable, "restarting")
	}
	var key string
	for _, key = range metadata.ValueFromIncomingContext(ctx, gabiongrpc.MetadataKey) {
	}
	return &pb.SimpleResponse{Username: key}, nil
}

func (b *bank) StreamingOutputCall(_ *pb.StreamingOutputCallRequest, s grpc.ServerStreamingServer[pb.StreamingOutputCallResponse]) error {
	if b.calls.Add(1) == 1 {
		return status.Error(codes.Unavailable, "restarting")
	}
	return s.Send(&pb.StreamingOutputCallResponse{})
}

// startBank starts a bank, and returns how to reach it and how to end it.
func startBank() (opts []grpc.DialOption, stop func()) { return start(new(bank)) }

func start(b *bank) (opts []grpc.DialOption, stop func()) {
	l := bufconn.Listen(1 << 16)
	s := grpc.NewServer()
	pb.RegisterTestServiceServer(s, b)
	go func() { _ = s.Serve(l) }()
	return []grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }),
	}, s.Stop
}

func soon() policy.Policy {
	return policy.Policy{Retry: policy.Retry{Backoff: backoff.Backoff{Base: time.Millisecond}}}
}

func ExampleNewClient() {
	opts, stop := startBank()
	defer stop()
	payments := gabion.New("payments", soon())
	conn, err := gabiongrpc.NewClient("passthrough:///payments", payments, opts...)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conn.Close()
	reply, err := pb.NewTestServiceClient(conn).UnaryCall(context.Background(), &pb.SimpleRequest{}, gabiongrpc.With(gabion.WithKey("order-7")))
	fmt.Println(reply.GetUsername(), err)
	// Output: order-7 <nil>
}

// The method only reads, which its .proto file does not say.
func ExampleClient_DialOptions() {
	opts, stop := startBank()
	defer stop()
	c := &gabiongrpc.Client{
		Dependency: gabion.New("accounts", soon()),
		Idempotent: func(method string) bool { return method == pb.TestService_UnaryCall_FullMethodName },
	}
	opts = append(append(c.DialOptions(), grpc.WithStatsHandler(c.StatsHandler())), opts...)
	conn, err := grpc.NewClient("passthrough:///accounts", opts...)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conn.Close()
	_, err = pb.NewTestServiceClient(conn).UnaryCall(context.Background(), &pb.SimpleRequest{})
	fmt.Println(err, c.Hidden())
	// Output: <nil> 0
}

// An error of gabion's has a status.
func ExampleUnaryClientInterceptor() {
	opts, stop := startBank()
	defer stop()
	payments := gabion.New("payments", soon())
	opts = append(opts, grpc.WithChainUnaryInterceptor(gabiongrpc.UnaryClientInterceptor(payments)), grpc.WithDisableRetry())
	conn, err := grpc.NewClient("passthrough:///payments", opts...)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conn.Close()
	_, err = pb.NewTestServiceClient(conn).UnaryCall(context.Background(), &pb.SimpleRequest{})
	fmt.Println(gabion.ReasonOf(err), status.Code(err))
	// Output: not_safe Unavailable
}

func ExampleStreamClientInterceptor() {
	opts, stop := startBank()
	defer stop()
	news := gabion.New("news", policy.Policy{Safe: true, Retry: soon().Retry})
	opts = append(opts, grpc.WithChainStreamInterceptor(gabiongrpc.StreamClientInterceptor(news)), grpc.WithDisableRetry())
	conn, err := grpc.NewClient("passthrough:///news", opts...)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conn.Close()
	stream, err := pb.NewTestServiceClient(conn).StreamingOutputCall(context.Background(), &pb.StreamingOutputCallRequest{})
	if err != nil {
		fmt.Println(err)
		return
	}
	n, err := drain(stream)
	fmt.Println(n, err)
	// Output: 1 EOF
}
