package grpc

import (
	"context"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/grpc/status"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/contrib/gabiongrpc"
	"github.com/gabion-go/gabion/policy"
)

// tenth answers after ten milliseconds, or fails at once.
type tenth struct {
	pb.UnimplementedTestServiceServer
	bad  bool
	came atomic.Int64
}

func (s *tenth) UnaryCall(context.Context, *pb.SimpleRequest) (*pb.SimpleResponse, error) {
	s.came.Add(1)
	if s.bad {
		return nil, status.Error(codes.Unavailable, "bad")
	}
	time.Sleep(10 * time.Millisecond)
	return &pb.SimpleResponse{}, nil
}

// sides are ways of calling three servers: what a call does, and how it is made ready.
var sides = []struct {
	name string
	make func(t *testing.T, addrs []string) func(context.Context) error
}{
	{"grpc-go, round_robin and its retries", func(t *testing.T, addrs []string) func(context.Context) error {
		return oneCall(dialAll(t, addrs, `{"loadBalancingConfig":[{"round_robin":{}}],`+grpcRetry))
	}},
	{"gabiongrpc, round_robin", func(t *testing.T, addrs []string) func(context.Context) error {
		c := &gabiongrpc.Client{Dependency: gabion.New("payments", policy.Policy{Safe: true})}
		return oneCall(dialAll(t, addrs, `{"loadBalancingConfig":[{"round_robin":{}}]}`, c.DialOptions()...))
	}},
	{"gabiongrpc, endpoints", func(t *testing.T, addrs []string) func(context.Context) error {
		p, conns := policy.Policy{Safe: true}, map[string]grpc.ClientConnInterface{}
		for _, a := range addrs {
			p.Endpoints.List = append(p.Endpoints.List, policy.Endpoint{Name: a})
			conns[a] = dialAll(t, []string{a}, `{}`, grpc.WithDisableRetry())
		}
		c := &gabiongrpc.Client{Dependency: gabion.New("payments", p)}
		return oneCall(c.Endpoints(func(e policy.Endpoint) grpc.ClientConnInterface { return conns[e.Name] }))
	}},
}

const grpcRetry = `"methodConfig":[{"name":[{}],"retryPolicy":{"maxAttempts":3,"initialBackoff":"0.1s","maxBackoff":"1s","backoffMultiplier":2,"retryableStatusCodes":["UNAVAILABLE"]}}]}`

func dialAll(t *testing.T, addrs []string, config string, opts ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	names := manual.NewBuilderWithScheme("three")
	var state resolver.State
	for _, a := range addrs {
		state.Addresses = append(state.Addresses, resolver.Address{Addr: a})
	}
	names.InitialState(state)
	conn, err := grpc.NewClient("three:///payments", append(opts, grpc.WithResolvers(names), grpc.WithDefaultServiceConfig(config),
		grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func oneCall(conn grpc.ClientConnInterface) func(context.Context) error {
	stub := pb.NewTestServiceClient(conn)
	return func(ctx context.Context) error {
		_, err := stub.UnaryCall(ctx, &pb.SimpleRequest{}, grpc.WaitForReady(true))
		return err
	}
}

// One of three servers fails at once, over real connections: gabion's endpoints beside grpc-go's own balancer, in one run.
func TestOneOfThreeServersBesideGRPC(t *testing.T) {
	if testing.Short() {
		t.Skip("long: TestOneBadServerOfSeveral of contrib/gabiongrpc shows it in virtual time")
	}
	for _, side := range sides {
		t.Run(side.name, func(t *testing.T) {
			servers, addrs := make([]*tenth, 3), make([]string, 3)
			for i := range servers {
				l, err := net.Listen("tcp", "127.0.0.1:0")
				if err != nil {
					t.Fatal(err)
				}
				servers[i], addrs[i] = &tenth{bad: i == 2}, l.Addr().String()
				s := grpc.NewServer()
				pb.RegisterTestServiceServer(s, servers[i])
				go func() { _ = s.Serve(l) }()
				t.Cleanup(s.Stop)
			}
			const n = 2000
			call, took := side.make(t, addrs), make([]time.Duration, n)
			var all sync.WaitGroup
			var failed atomic.Int64
			tick := time.NewTicker(5 * time.Millisecond)
			defer tick.Stop()
			for i := range n {
				<-tick.C
				all.Go(func() {
					began := time.Now()
					if call(t.Context()) != nil {
						failed.Add(1)
					}
					took[i] = time.Since(began)
				})
			}
			all.Wait()
			slices.Sort(took)
			bad := servers[2].came.Load()
			share := float64(bad) / float64(servers[0].came.Load()+servers[1].came.Load()+bad)
			t.Logf("%d of %d failed, p99 %v, %.2f %% of the attempts went to the bad one", failed.Load(), n, took[n*99/100], 100*share)
			if side.name[:6] == "gabion" && (failed.Load() > n/200 || share > 0.02) {
				t.Error("too many failed, or went there")
			}
		})
	}
}
