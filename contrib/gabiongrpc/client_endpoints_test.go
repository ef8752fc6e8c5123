package gabiongrpc_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/contrib/gabiongrpc"
	"github.com/gabion-go/gabion/policy"
)

// provider is a real server that knows nothing of others.
type provider struct {
	pb.UnimplementedTestServiceServer
	server *grpc.Server
	addr   string

	mu   sync.Mutex
	fail func(key string) error // what the answer is, if not good; the work is done all the same
	keys []string               // of the work, in its order
}

func newProvider(t *testing.T) *provider {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &provider{server: grpc.NewServer(), addr: l.Addr().String()}
	pb.RegisterTestServiceServer(p.server, p)
	go func() { _ = p.server.Serve(l) }()
	t.Cleanup(p.server.Stop)
	return p
}

func (p *provider) came(ctx context.Context) error {
	key := ""
	for _, key = range metadata.ValueFromIncomingContext(ctx, gabiongrpc.MetadataKey) {
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keys = append(p.keys, key)
	if p.fail != nil {
		return p.fail(key)
	}
	return nil
}

func (p *provider) UnaryCall(ctx context.Context, _ *pb.SimpleRequest) (*pb.SimpleResponse, error) {
	return &pb.SimpleResponse{Username: p.addr}, p.came(ctx)
}

func (p *provider) StreamingOutputCall(_ *pb.StreamingOutputCallRequest, s grpc.ServerStreamingServer[pb.StreamingOutputCallResponse]) error {
	if err := p.came(s.Context()); err != nil {
		return err
	}
	return s.Send(&pb.StreamingOutputCallResponse{})
}

func (p *provider) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.keys)
}

// providers are endpoints at real servers, and a stub for all of them.
func providers(t *testing.T, p policy.Policy, servers ...*provider) (*gabion.Dependency, pb.TestServiceClient) {
	conns := map[string]grpc.ClientConnInterface{}
	p.Retry.Backoff = backoff.Backoff{Base: time.Millisecond}
	for i, s := range servers {
		conn, err := grpc.NewClient(s.addr, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDisableRetry())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		name := string(rune('a' + i))
		p.Endpoints.List = append(p.Endpoints.List, policy.Endpoint{Name: name})
		conns[name] = conn
	}
	d := gabion.New("payments", p)
	c := &gabiongrpc.Client{Dependency: d}
	return d, pb.NewTestServiceClient(c.Endpoints(func(e policy.Endpoint) grpc.ClientConnInterface { return conns[e.Name] }))
}

// One of three is dead: all calls are answered, and it is asked now and then.
func TestEndpointsOfThreeConnections(t *testing.T) {
	a, b, c := newProvider(t), newProvider(t), newProvider(t)
	c.server.Stop() // nothing listens
	d, stub := providers(t, policy.Policy{Safe: true}, a, b, c)
	for range 300 {
		if _, err := stub.UnaryCall(t.Context(), &pb.SimpleRequest{}); err != nil {
			t.Fatal(err)
		}
		s, err := stub.StreamingOutputCall(t.Context(), &pb.StreamingOutputCallRequest{})
		if err != nil {
			t.Fatal(err)
		}
		if n, err := drain(s); n != 1 {
			t.Fatal(n, err)
		}
	}
	if st := d.Stats().Endpoints; st[2].Attempts > 12 || st[2].Failed != st[2].Attempts || a.count()+b.count() != 600 { // one call at a time may find one of them quicker
		t.Errorf("a %d, b %d, the dead one %d of which %d failed", a.count(), b.count(), st[2].Attempts, st[2].Failed)
	}
}

// A backup answers while the primary does not, and what comes back from the primary is its own.
func TestEndpointsInOrder(t *testing.T) {
	a, b := newProvider(t), newProvider(t)
	p := policy.Policy{Endpoints: policy.Endpoints{Mode: policy.EndpointsOrdered, Standing: policy.Off}}
	d, stub := providers(t, p, a, b)
	ask := func() string {
		reply, err := stub.UnaryCall(t.Context(), &pb.SimpleRequest{}, gabiongrpc.With(gabion.WithIdempotent()))
		if err != nil {
			t.Error(err)
		}
		return reply.GetUsername()
	}
	if at := ask(); at != a.addr {
		t.Errorf("asked %s first", at)
	}
	a.mu.Lock()
	a.fail = func(string) error { return status.Error(codes.Unavailable, "down") }
	a.mu.Unlock()
	for range 10 {
		if at := ask(); at != b.addr {
			t.Errorf("answered by %s", at)
		}
	}
	if a.count() != 6 || !d.Stats().Endpoints[0].Out {
		t.Errorf("the primary was asked %d times: %+v", a.count(), d.Stats().Endpoints[0])
	}
}

// A call with a key stays where it may have happened, through failures of all kinds: no key at two providers.
func TestKeyedCallsStayAtOneProvider(t *testing.T) {
	a, b := newProvider(t), newProvider(t)
	n := 0
	a.fail = func(string) error { // lost answers, refusals that say so, and hidden ones
		if n++; n%100 < 80 && n%3 == 0 { // it is down for a while, in which all goes to the other
			return nil
		}
		return status.Error([]codes.Code{codes.Unavailable, codes.ResourceExhausted, codes.Internal}[n%7%3], "no")
	}
	p := policy.Policy{Endpoints: policy.Endpoints{Mode: policy.EndpointsOrdered}}
	p.Retry.Budget.Off, p.Retry.Hold, p.Pace.Off = true, policy.Off, true
	_, stub := providers(t, p, a, b)
	unknown := 0
	for i := range 400 {
		_, err := stub.UnaryCall(t.Context(), &pb.SimpleRequest{}, gabiongrpc.With(gabion.WithKey(fmt.Sprint("k", i))))
		if why := (*gabion.Error)(nil); errors.As(err, &why) && why.Effect == policy.UnknownEffect {
			if unknown++; why.Endpoint != "a" && why.Endpoint != "b" {
				t.Errorf("%v says nothing of where", why)
			}
		}
	}
	at := map[string]bool{}
	for _, key := range a.keys {
		at[key] = true
	}
	both := 0
	for _, key := range b.keys {
		if key == "" || at[key] {
			both++
		}
	}
	if t.Logf("a saw %d, b %d, %d unknown", len(a.keys), len(b.keys), unknown); both > 0 || len(b.keys) == 0 || unknown == 0 {
		t.Errorf("%d keys were at both", both)
	}
}

// An endpoint without a connection gets nothing, and the call goes elsewhere.
func TestAnEndpointWithoutAConnection(t *testing.T) {
	a := newProvider(t)
	p := policy.Policy{Safe: true, Endpoints: policy.Endpoints{Mode: policy.EndpointsOrdered, List: []policy.Endpoint{{Name: "new"}}}}
	d, stub := providers(t, p, a)
	for range 8 {
		if _, err := stub.UnaryCall(t.Context(), &pb.SimpleRequest{}); err != nil {
			t.Error(err)
		}
	}
	if st := d.Stats().Endpoints[0]; st.Endpoint.Name != "new" || !st.Out || st.Attempts != 5 {
		t.Errorf("%+v", st)
	}
	bare := &gabiongrpc.Client{Dependency: gabion.New("bare", policy.Policy{Retry: policy.Retry{Attempts: 1}})}
	for fact, conn := range map[string]func(policy.Endpoint) grpc.ClientConnInterface{
		"nothing":                        func(policy.Endpoint) grpc.ClientConnInterface { return nil },
		"nothing of a map of ClientConn": func(e policy.Endpoint) grpc.ClientConnInterface { return map[string]*grpc.ClientConn{}[e.Name] },
	} {
		_, err := pb.NewTestServiceClient(bare.Endpoints(conn)).UnaryCall(t.Context(), &pb.SimpleRequest{})
		var why *gabion.Error
		if !errors.As(err, &why) || why.Effect != policy.NoEffect || status.Code(err) != codes.Unavailable {
			t.Errorf("%s: %v", fact, err)
		}
	}
}

// A connection that its owner has closed, such as one of an endpoint that moved, loses no call: others take them.
func TestAnEndpointWhoseConnectionIsClosed(t *testing.T) {
	a, b := newProvider(t), newProvider(t)
	closed, err := grpc.NewClient(a.addr, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDisableRetry())
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	open, err := grpc.NewClient(b.addr, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDisableRetry())
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	conns := map[string]*grpc.ClientConn{"a": closed, "b": open}
	p := policy.Policy{Endpoints: policy.Endpoints{Mode: policy.EndpointsOrdered, List: []policy.Endpoint{{Name: "a"}, {Name: "b"}}}}
	d := gabion.New("payments", p)
	stub := pb.NewTestServiceClient((&gabiongrpc.Client{Dependency: d}).Endpoints(func(e policy.Endpoint) grpc.ClientConnInterface { return conns[e.Name] }))
	for i := range 8 { // nothing was sent, so it needs no key
		if _, err := stub.UnaryCall(t.Context(), &pb.SimpleRequest{}); err != nil {
			t.Errorf("call %d: %v", i, err)
		}
	}
	if st := d.Stats().Endpoints; !st[0].Out || b.count() != 8 {
		t.Errorf("%d calls were answered: %+v", b.count(), st)
	}
}

// Two banks, of which the first is down.
func ExampleClient_Endpoints() {
	works := new(bank)
	works.calls.Store(1)
	opts, stop := start(works)
	defer stop()
	first, _ := grpc.NewClient("127.0.0.1:1", grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDisableRetry())
	defer first.Close()
	second, _ := grpc.NewClient("passthrough:///second", append(opts, grpc.WithDisableRetry())...)
	defer second.Close()
	conns := map[string]grpc.ClientConnInterface{"first": first, "second": second}

	p := soon()
	p.Endpoints = policy.Endpoints{Mode: policy.EndpointsOrdered, List: []policy.Endpoint{{Name: "first"}, {Name: "second"}}}
	c := &gabiongrpc.Client{Dependency: gabion.New("payments", p)}
	payments := pb.NewTestServiceClient(c.Endpoints(func(e policy.Endpoint) grpc.ClientConnInterface { return conns[e.Name] }))

	reply, err := payments.UnaryCall(context.Background(), &pb.SimpleRequest{}, gabiongrpc.With(gabion.WithKey("order-7")))
	fmt.Println(reply.GetUsername(), err)
	// Output: order-7 <nil>
}
