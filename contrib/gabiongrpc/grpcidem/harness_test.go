package grpcidem

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/gabion-go/gabion/idempotency"
)

var errDown = errors.New("the store is down")

// A shelf is a TxStore in memory that fails when told to.
type shelf struct {
	idempotency.Store
	begin, apply, commit atomic.Pointer[error]
	most                 int // of a body

	mu      sync.Mutex // guards records
	records map[idempotency.ID]idempotency.Record
}

func failing(p *atomic.Pointer[error]) error {
	if err := p.Load(); err != nil {
		return *err
	}
	return nil
}

func (s *shelf) Begin(ctx context.Context, c idempotency.Claim) (idempotency.Answer, error) {
	if err := failing(&s.begin); err != nil {
		return idempotency.Answer{}, err
	}
	return s.Store.Begin(ctx, c)
}

func (s *shelf) Apply(ctx context.Context, ref idempotency.Ref, c idempotency.Change) error {
	if err := failing(&s.apply); err != nil {
		return err
	}
	return s.Store.Apply(ctx, ref, c)
}

func (s *shelf) Caps() idempotency.Caps { return idempotency.Caps{Durable: true, MaxValue: s.most} }

func (s *shelf) Tx(ctx context.Context, c idempotency.Claim, run idempotency.Work) (idempotency.Answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := idempotency.Moment(time.Now().UnixNano())
	old := s.records[c.ID]
	a, _ := old.Begin(c, now)
	if a.Decision != idempotency.DecisionRun {
		return a, nil
	}
	res, how, err := run(ctx, a.Record)
	if err != nil || how == idempotency.EndingFailed {
		return a, err
	}
	if err := failing(&s.commit); err != nil {
		return idempotency.Answer{}, err
	}
	s.records[c.ID], _, err = a.Record.Apply(idempotency.Ref{ID: c.ID, Token: a.Record.Token}, idempotency.Change{State: idempotency.StateDone, Result: res}, now)
	return a, err
}

// A service is a real server and client, and work that counts its runs.
type service struct {
	pb.UnimplementedTestServiceServer
	*testing.T
	conn  *grpc.ClientConn
	store *shelf
	runs  atomic.Int64
	work  func(context.Context, *pb.SimpleRequest) (*pb.SimpleResponse, error)
}

func (s *service) UnaryCall(ctx context.Context, r *pb.SimpleRequest) (*pb.SimpleResponse, error) {
	s.runs.Add(1)
	return s.work(ctx, r)
}

func (s *service) EmptyCall(ctx context.Context, _ *pb.Empty) (*pb.Empty, error) {
	s.runs.Add(1)
	return &pb.Empty{}, nil
}

func tenant(ctx context.Context, _ *grpc.UnaryServerInfo) string {
	for _, t := range metadata.ValueFromIncomingContext(ctx, "tenant") {
		return t
	}
	return ""
}

// start starts a server; outer interceptors come before the one that is tested.
func start(t *testing.T, o Options, outer ...grpc.UnaryServerInterceptor) *service {
	t.Helper()
	return startOn(t, &shelf{Store: idempotency.NewMemoryStore(0, 0), records: map[idempotency.ID]idempotency.Record{}}, o, outer...)
}

func startOn(t *testing.T, store *shelf, o Options, outer ...grpc.UnaryServerInterceptor) *service {
	t.Helper()
	s := &service{T: t, store: store, work: pays}
	idem, err := UnaryServerInterceptor(tenant, s.store, o)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.ChainUnaryInterceptor(append(outer, idem)...))
	pb.RegisterTestServiceServer(server, s)
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	s.conn, err = grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.conn.Close()
		server.GracefulStop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return s
}

func pays(_ context.Context, r *pb.SimpleRequest) (*pb.SimpleResponse, error) {
	return &pb.SimpleResponse{Username: "paid", Payload: r.Payload}, nil
}

func says(c codes.Code) func(context.Context, *pb.SimpleRequest) (*pb.SimpleResponse, error) {
	return func(context.Context, *pb.SimpleRequest) (*pb.SimpleResponse, error) {
		s, _ := status.New(c, "no: "+c.String()).WithDetails(&errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{{Field: "amount"}}})
		return nil, s.Err()
	}
}

func order(what string) *pb.SimpleRequest {
	return &pb.SimpleRequest{Payload: &pb.Payload{Body: []byte(what)}}
}

// An answer is what the client got, with the response's bytes as they came.
type answer struct {
	header metadata.MD
	body   []byte
	status *status.Status
}

const unaryCall = "/grpc.testing.TestService/UnaryCall"

// send calls with metadata given as pairs.
func (s *service) send(r proto.Message, pairs ...string) answer {
	return s.sendTo(s.Context(), unaryCall, r, pairs...)
}

func (s *service) sendTo(ctx context.Context, method string, r proto.Message, pairs ...string) (a answer) {
	ctx = metadata.AppendToOutgoingContext(ctx, append([]string{"tenant", "acme"}, pairs...)...)
	err := s.conn.Invoke(ctx, method, r, &a.body, grpc.ForceCodecV2(rawCodec{}), grpc.Header(&a.header))
	a.status = status.Convert(err)
	return a
}

// A rawCodec leaves responses as they came.
type rawCodec struct{}

func (rawCodec) Name() string { return "proto" }

func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	b, err := proto.Marshal(v.(proto.Message))
	return mem.BufferSlice{mem.SliceBuffer(b)}, err
}

func (rawCodec) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*[]byte) = data.Materialize()
	return nil
}

func (a answer) replayed() bool { return len(a.header.Get(MetadataReplayed)) > 0 }

func (s *service) wantRuns(n int64) {
	s.Helper()
	if got := s.runs.Load(); got != n {
		s.Errorf("the method ran %d times, want %d", got, n)
	}
}

// wantRefused checks code, reason, and that RetryInfo is there when it should be.
func (s *service) wantRefused(a answer, c codes.Code, why Refusal, later bool) {
	s.Helper()
	var info *errdetails.ErrorInfo
	var retry *errdetails.RetryInfo
	for _, d := range a.status.Details() {
		switch d := d.(type) {
		case *errdetails.ErrorInfo:
			info = d
		case *errdetails.RetryInfo:
			retry = d
		}
	}
	if a.status.Code() != c || info.GetReason() != string(why) || info.GetDomain() != Domain {
		s.Errorf("%v %q (%s), want %v %s", a.status.Code(), a.status.Message(), info.GetReason(), c, why)
	}
	if (retry.GetRetryDelay().AsDuration() > 0) != later {
		s.Errorf("%s: retry info %v", why, retry)
	}
}

// wantReplay checks that an answer repeats another.
func (s *service) wantReplay(first, second answer) {
	s.Helper()
	if first.replayed() || !second.replayed() {
		s.Errorf("replay marks: %v, then %v", first.header, second.header)
	}
	s.wantSame(first, second)
}

func (s *service) wantSame(first, second answer) {
	s.Helper()
	if string(first.body) != string(second.body) || !proto.Equal(first.status.Proto(), second.status.Proto()) {
		s.Errorf("first %q %v, second %q %v", first.body, first.status, second.body, second.status)
	}
}
