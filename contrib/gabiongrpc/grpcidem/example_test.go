package grpcidem_test

import (
	"context"
	"fmt"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"

	"github.com/gabion-go/gabion/contrib/gabiongrpc/grpcidem"
	"github.com/gabion-go/gabion/idempotency"
)

type bank struct {
	pb.UnimplementedTestServiceServer
}

func (bank) UnaryCall(context.Context, *pb.SimpleRequest) (*pb.SimpleResponse, error) {
	fmt.Println("charging")
	return &pb.SimpleResponse{Username: "ch_1"}, nil
}

// A client that heard no answer calls again with the same key. The card is charged
// once.
func ExampleUnaryServerInterceptor() {
	tenant := func(ctx context.Context, _ *grpc.UnaryServerInfo) string { return "acme" } // who was authenticated
	idempotent, err := grpcidem.UnaryServerInterceptor(tenant, idempotency.NewMemoryStore(0, 0), grpcidem.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	server := grpc.NewServer(grpc.ChainUnaryInterceptor(idempotent))
	pb.RegisterTestServiceServer(server, bank{})
	go server.Serve(listener)
	defer server.Stop()

	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conn.Close()
	ctx := metadata.AppendToOutgoingContext(context.Background(), grpcidem.MetadataKey, "order-77")
	for range 2 {
		var header metadata.MD
		r, err := pb.NewTestServiceClient(conn).UnaryCall(ctx, &pb.SimpleRequest{}, grpc.Header(&header))
		fmt.Println(r.GetUsername(), err, "replayed:", len(header.Get(grpcidem.MetadataReplayed)) > 0)
	}
	// Output:
	// charging
	// ch_1 <nil> replayed: false
	// ch_1 <nil> replayed: true
}
