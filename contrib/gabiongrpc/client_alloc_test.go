package gabiongrpc_test

import (
	"context"
	"math"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/contrib/gabiongrpc"
	"github.com/gabion-go/gabion/internal/testrace"
	"github.com/gabion-go/gabion/policy"
)

// stubOf connects to a real server on the loopback.
func stubOf(t testing.TB, opts ...grpc.DialOption) pb.TestServiceClient {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	pb.RegisterTestServiceServer(s, &server{unary: func(context.Context, int, *pb.SimpleRequest) (*pb.SimpleResponse, error) {
		return &pb.SimpleResponse{}, nil
	}})
	go func() { _ = s.Serve(l) }()
	conn, err := grpc.NewClient(l.Addr().String(), append(opts, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(); s.Stop() })
	return pb.NewTestServiceClient(conn)
}

// A call that succeeds allocates at most 8 times more than one of grpc-go with a deadline.
// Client and server are counted together, so the smallest of a few figures is what counts.
func TestASuccessAllocatesLittle(t *testing.T) {
	if testrace.Enabled {
		t.Skip("the race detector allocates")
	}
	req := &pb.SimpleRequest{}
	plain, through := stubOf(t), stubOf(t, (&gabiongrpc.Client{Dependency: gabion.New("payments", policy.Policy{})}).DialOptions()...)
	least := func(f func() error) float64 {
		most := math.Inf(1)
		for range 5 {
			most = min(most, testing.AllocsPerRun(100, func() {
				if err := f(); err != nil {
					t.Fatal(err)
				}
			}))
		}
		return most
	}
	bare := least(func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 4*time.Second)
		defer cancel()
		_, err := plain.UnaryCall(ctx, req)
		return err
	})
	ours := least(func() error {
		_, err := through.UnaryCall(context.Background(), req)
		return err
	})
	if t.Logf("%v allocations, %v without gabion", ours, bare); ours > bare+8 {
		t.Errorf("%v allocations, %v without gabion", ours, bare)
	}
}
