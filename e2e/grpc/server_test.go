package grpc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
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
	"github.com/gabion-go/gabion/contrib/gabiongrpc"
	"github.com/gabion-go/gabion/contrib/gabiongrpc/grpcidem"
	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/policy"
)

// diary is a store that writes down when it is asked.
type diary struct {
	idempotency.Store
	mu    sync.Mutex
	lines []string
}

func (d *diary) write(line string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, line)
}

func (d *diary) read() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	defer func() { d.lines = nil }()
	return strings.Join(d.lines, " ")
}

func (d *diary) Begin(ctx context.Context, c idempotency.Claim) (idempotency.Answer, error) {
	d.write("claim")
	return d.Store.Begin(ctx, c)
}

// bank is a service whose one method does what the test says.
type bank struct {
	pb.UnimplementedTestServiceServer
	*diary
	work func() error
}

func (b *bank) UnaryCall(context.Context, *pb.SimpleRequest) (*pb.SimpleResponse, error) {
	b.write("work")
	return &pb.SimpleResponse{}, b.work()
}

// dial connects to a server that serveGRPC started.
func dial(t *testing.T, url string, more ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(strings.TrimPrefix(url, "http://"), append(more, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// The order of gabiongrpc.Server: a call without time left is not even authenticated, a stranger
// takes no slot, what is refused leaves no record, and the record has the status that callers
// get.
func TestTheOrderOfAServer(t *testing.T) {
	book := &diary{Store: idempotency.NewMemoryStore(0, 0)}
	idem, err := grpcidem.UnaryServerInterceptor(grpcidem.Global, book, grpcidem.Options{Optional: true})
	if err != nil {
		t.Fatal(err)
	}
	b := &bank{diary: book, work: func() error { return nil }}
	admission := &gabiongrpc.Admission{Limit: 1, Queue: policy.Off, Tenant: func(ctx context.Context, _ string) string {
		book.write("admission")
		return "a"
	}}
	url := serveGRPC(t, b, gabiongrpc.Server{
		Deadline: &gabiongrpc.Deadline{Margin: time.Minute},
		Authenticate: func(ctx context.Context, r any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
			book.write("authentication")
			if slices.Contains(metadata.ValueFromIncomingContext(ctx, "who"), "stranger") {
				return nil, status.Error(codes.Unauthenticated, "who?")
			}
			return next(ctx, r)
		},
		Admission:   admission,
		Idempotency: idem,
	}.Options()...)
	client := pb.NewTestServiceClient(dial(t, url))
	ask := func(ctx context.Context, pairs ...string) (*status.Status, metadata.MD, string) {
		var header, trailer metadata.MD
		_, err := client.UnaryCall(metadata.AppendToOutgoingContext(ctx, pairs...), &pb.SimpleRequest{}, grpc.Header(&header), grpc.Trailer(&trailer))
		return status.Convert(err), metadata.Join(header, trailer), book.read()
	}
	short, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	unkeyed := func() error {
		return fmt.Errorf("stock: %w", &gabion.Error{Dependency: "stock", Reason: policy.KeyMissing})
	}
	for _, c := range []struct {
		fact  string
		ctx   context.Context
		pairs []string
		work  func() error
		code  codes.Code
		diary string
	}{
		{"all of it", t.Context(), []string{"idempotency-key", "k1"}, nil, codes.OK, "authentication admission claim work"},
		{"who has no time is not authenticated", short, []string{"idempotency-key", "k2"}, nil, codes.DeadlineExceeded, ""},
		{"a stranger takes no slot", t.Context(), []string{"who", "stranger", "idempotency-key", "k1"}, nil, codes.Unauthenticated, "authentication"},
		{"a replay is admitted and does no work", t.Context(), []string{"idempotency-key", "k1"}, nil, codes.OK, "authentication admission claim"},
		{"a call of the method's own that was refused for good", t.Context(), []string{"idempotency-key", "k3"}, unkeyed, codes.InvalidArgument, "authentication admission claim work"},
		{"its replay has the same status", t.Context(), []string{"idempotency-key", "k3"}, unkeyed, codes.InvalidArgument, "authentication admission claim"},
		{"without a key", t.Context(), nil, func() error { return errors.New("oh") }, codes.Unknown, "authentication admission work"},
	} {
		b.work = func() error { return nil }
		if c.work != nil {
			b.work = c.work
		}
		if s, md, lines := ask(c.ctx, c.pairs...); s.Code() != c.code || lines != c.diary {
			t.Errorf("%s: %v %v, %q", c.fact, s, md, lines)
		}
	}

	// What is refused leaves no record: the same key does the work when there is room.
	hold, in := make(chan bool), make(chan bool)
	b.work = func() error { in <- true; <-hold; return nil }
	over := make(chan error)
	go func() { _, err := client.UnaryCall(t.Context(), &pb.SimpleRequest{}); over <- err }()
	<-in
	book.read()
	if s, md, lines := ask(t.Context(), "idempotency-key", "k4"); s.Code() != codes.Unavailable || lines != "authentication admission" || md.Get(gabiongrpc.MetadataRefused) == nil {
		t.Errorf("refused: %v %v, %q", s, md, lines)
	}
	close(hold)
	if err := <-over; err != nil {
		t.Error(err)
	}
	b.work = func() error { return nil }
	if s, _, lines := ask(t.Context(), "idempotency-key", "k4"); s.Code() != codes.OK || lines != "authentication admission claim work" {
		t.Errorf("later: %v, %q", s, lines)
	}
	if s := admission.Stats(); s.InUse != 0 || s.QueueFull != 1 {
		t.Errorf("%+v", s)
	}
}

// A Transport of gabionhttp, under any client, reads what an Admission of gabiongrpc says.
func TestATransportReadsTheRefusalOfAServer(t *testing.T) {
	for _, c := range []struct {
		fact  string
		trust policy.Trust
		calls int // that arrive
	}{
		{"of our own, though the call is not safe to repeat", policy.Internal, 2},
		{"of another owner's", policy.External, 1},
	} {
		t.Run(c.fact, func(t *testing.T) {
			hold, in := make(chan bool), make(chan bool)
			b := &bank{diary: new(diary), work: func() error { in <- true; <-hold; return nil }}
			admission := &gabiongrpc.Admission{Limit: 1, Queue: policy.Off, RetryAfter: time.Millisecond}
			arrived := make(chan bool, 10)
			counts := grpc.ChainUnaryInterceptor(func(ctx context.Context, r any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
				arrived <- true
				return next(ctx, r)
			})
			url := serveGRPC(t, b, append([]grpc.ServerOption{counts}, gabiongrpc.Server{Admission: admission}.Options()...)...)
			first := make(chan error)
			go func() {
				_, err := pb.NewTestServiceClient(dial(t, url)).UnaryCall(t.Context(), &pb.SimpleRequest{})
				first <- err
			}()
			<-in
			<-arrived
			p := eager(2)
			p.Safe, p.Trust = false, c.trust
			hc, d := through(t, p)
			call(t, hc, url, false, protocols["gRPC"])
			close(hold)
			if err := <-first; err != nil {
				t.Error(err)
			}
			if n := len(arrived); n != c.calls || failures(d) != 0 {
				t.Errorf("%d calls, %d failures", n, failures(d))
			}
		})
	}
}
