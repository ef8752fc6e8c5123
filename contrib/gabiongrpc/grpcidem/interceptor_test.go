package grpcidem

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/gabion-go/gabion/idempotency"
)

func guaranteed(g idempotency.Guarantee) Options {
	return Options{Runner: idempotency.RunnerConfig{Guarantee: g}}
}

func TestDuplicatesGetTheSameAnswer(t *testing.T) { // 51
	noEffect := func(work func(context.Context, *pb.SimpleRequest) (*pb.SimpleResponse, error)) func(context.Context, *pb.SimpleRequest) (*pb.SimpleResponse, error) {
		return func(ctx context.Context, r *pb.SimpleRequest) (*pb.SimpleResponse, error) {
			idempotency.NoEffect(ctx)
			return work(ctx, r)
		}
	}
	plain := func(context.Context, *pb.SimpleRequest) (*pb.SimpleResponse, error) {
		return nil, errors.New("no status")
	}
	cut := func(context.Context, *pb.SimpleRequest) (*pb.SimpleResponse, error) {
		return nil, context.DeadlineExceeded
	}
	empty := func(context.Context, *pb.SimpleRequest) (*pb.SimpleResponse, error) { return &pb.SimpleResponse{}, nil }
	for _, c := range []struct {
		name string
		g    idempotency.Guarantee
		work func(context.Context, *pb.SimpleRequest) (*pb.SimpleResponse, error)
		code codes.Code
		runs int64
	}{
		{"hold, ok", idempotency.GuaranteeHold, pays, codes.OK, 1},
		{"hold, ok and empty", idempotency.GuaranteeHold, empty, codes.OK, 1},
		{"hold, invalid argument", idempotency.GuaranteeHold, says(codes.InvalidArgument), codes.InvalidArgument, 1},
		{"hold, internal", idempotency.GuaranteeHold, says(codes.Internal), codes.Internal, 1},
		{"hold, unavailable", idempotency.GuaranteeHold, says(codes.Unavailable), codes.Unavailable, 1},
		{"hold, unavailable without effect", idempotency.GuaranteeHold, noEffect(says(codes.Unavailable)), codes.Unavailable, 2},
		{"hold, an error without a status", idempotency.GuaranteeHold, plain, codes.Unknown, 1},
		{"hold, an error of a context", idempotency.GuaranteeHold, cut, codes.DeadlineExceeded, 1},
		{"reexecute, ok", idempotency.GuaranteeReexecute, pays, codes.OK, 1},
		{"reexecute, not found", idempotency.GuaranteeReexecute, says(codes.NotFound), codes.NotFound, 1},
		{"reexecute, internal", idempotency.GuaranteeReexecute, says(codes.Internal), codes.Internal, 2},
		{"reexecute, resource exhausted", idempotency.GuaranteeReexecute, says(codes.ResourceExhausted), codes.ResourceExhausted, 2},
		{"tx, ok", idempotency.GuaranteeTx, pays, codes.OK, 1},
		{"tx, failed precondition", idempotency.GuaranteeTx, says(codes.FailedPrecondition), codes.FailedPrecondition, 1},
		{"tx, internal", idempotency.GuaranteeTx, says(codes.Internal), codes.Internal, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := start(t, guaranteed(c.g))
			s.work = c.work
			first := s.send(order("x"), MetadataKey, "k")
			second := s.send(order("x"), MetadataKey, `"k"`)
			if first.status.Code() != c.code {
				t.Errorf("%v", first.status)
			}
			if c.runs == 1 {
				s.wantReplay(first, second)
			} else if second.replayed() {
				t.Error("an answer that asks to come back was replayed")
			}
			s.wantSame(first, second)
			s.wantRuns(c.runs)
		})
	}
}

func TestKeys(t *testing.T) {
	s := start(t, Options{})
	s.wantRefused(s.send(order("x")), codes.InvalidArgument, Missing, false)
	for _, key := range []string{"", " ", `"a`, strings.Repeat("k", 256), "a b"} {
		s.wantRefused(s.send(order("x"), MetadataKey, key), codes.InvalidArgument, Malformed, false)
	}
	s.wantRefused(s.send(order("x"), MetadataKey, "a", MetadataKey, "a"), codes.InvalidArgument, Malformed, false)
	s.wantRuns(0)
	if got := s.send(order("x"), MetadataKey, strings.Repeat("k", 255)); got.status.Code() != codes.OK {
		t.Error(got.status)
	}
}

func TestScope(t *testing.T) {
	s := start(t, Options{})
	ctx := metadata.AppendToOutgoingContext(t.Context(), "tenant", "zeta")
	first := s.send(order("x"), MetadataKey, "k")
	other := s.sendTo(ctx, unaryCall, order("y"), MetadataKey, "k")
	if first.status.Code() != codes.OK || other.status.Code() != codes.OK || other.replayed() {
		t.Errorf("%v, then for another tenant: %v", first.status, other.status)
	}
	s.wantRuns(2)
	none := metadata.AppendToOutgoingContext(t.Context(), "tenant", "") // the first counts
	s.wantRefused(s.sendTo(none, unaryCall, order("x"), MetadataKey, "k2"), codes.Internal, NoScope, false)
	s.wantRuns(2)
}

func TestMethodsAndOptionalKeys(t *testing.T) {
	s := start(t, Options{Methods: []string{unaryCall}})
	if a := s.sendTo(t.Context(), "/grpc.testing.TestService/EmptyCall", &pb.Empty{}); a.status.Code() != codes.OK {
		t.Errorf("another method needs a key: %v", a.status)
	}
	s.wantRefused(s.send(order("x")), codes.InvalidArgument, Missing, false)
	s.wantRuns(1)

	s = start(t, Options{Optional: true})
	for range 2 {
		if a := s.send(order("x")); a.status.Code() != codes.OK || a.replayed() {
			t.Error(a.status)
		}
	}
	s.wantRuns(2)
}

func TestMismatch(t *testing.T) {
	s := start(t, Options{})
	first := s.send(order("x"), MetadataKey, "k")
	s.wantRefused(s.send(order("y"), MetadataKey, "k"), codes.FailedPrecondition, Mismatch, false)
	s.wantRefused(s.sendTo(t.Context(), "/grpc.testing.TestService/EmptyCall", &pb.Empty{}, MetadataKey, "k"), codes.FailedPrecondition, Mismatch, false)
	s.wantReplay(first, s.send(order("x"), MetadataKey, "k"))
	s.wantRuns(1)

	s.send(&pb.SimpleRequest{}, MetadataKey, "empty") // and the same bytes for another method
	s.wantRefused(s.sendTo(t.Context(), "/grpc.testing.TestService/EmptyCall", &pb.Empty{}, MetadataKey, "empty"), codes.FailedPrecondition, Mismatch, false)
	s.wantRuns(2)
}

func TestConcurrentDuplicates(t *testing.T) {
	for _, wait := range []time.Duration{0, 20 * time.Second} {
		s := start(t, Options{Runner: idempotency.RunnerConfig{Wait: wait}})
		go1 := make(chan struct{})
		s.work = func(ctx context.Context, r *pb.SimpleRequest) (*pb.SimpleResponse, error) {
			<-go1
			return pays(ctx, r)
		}
		got := make([]answer, 64)
		var all sync.WaitGroup
		var refused atomic.Int64
		for i := range got {
			all.Go(func() {
				got[i] = s.send(order("x"), MetadataKey, "k")
				if got[i].status.Code() == codes.Aborted && refused.Add(1) == 63 {
					close(go1) // all duplicates have their answer while the first still runs
				}
			})
		}
		if wait > 0 {
			time.AfterFunc(300*time.Millisecond, func() { close(go1) })
		}
		all.Wait()
		replays := 0
		for _, a := range got {
			switch {
			case a.status.Code() == codes.Aborted:
				s.wantRefused(a, codes.Aborted, InProgress, true)
			case a.replayed():
				replays++
			}
			if a.status.Code() == codes.OK && string(a.body) != string(must(pays(t.Context(), order("x")))) {
				t.Errorf("answer %q", a.body)
			}
		}
		if wait == 0 && refused.Load() != 63 || wait > 0 && replays != 63 {
			t.Errorf("waiting %v: %d refused, %d replayed", wait, refused.Load(), replays)
		}
		s.wantRuns(1)
	}
}

// A client that goes does not stop the method, and finds the answer when it is back.
func TestClientGoes(t *testing.T) {
	for name, leave := range map[string]func(ctx context.Context, begun <-chan struct{}, patience time.Duration) (context.Context, context.CancelFunc){
		"deadline": func(ctx context.Context, _ <-chan struct{}, patience time.Duration) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, patience)
		},
		"cancel": func(ctx context.Context, begun <-chan struct{}, _ time.Duration) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			go func() { <-begun; cancel() }()
			return ctx, cancel
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, Options{}, keepsContext)
			begun, gone, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
			s.work = func(ctx context.Context, r *pb.SimpleRequest) (*pb.SimpleResponse, error) {
				close(begun)
				<-gone
				<-clients(ctx).Done()
				ended <- ctx.Err()
				return pays(ctx, r)
			}
			// A call that ends before its method begins leaves nothing to be stopped.
			for patience := 50 * time.Millisecond; !closed(begun); patience *= 2 {
				ctx, cancel := leave(t.Context(), begun, patience)
				if a := s.sendTo(ctx, unaryCall, order("x"), MetadataKey, "k"); a.status.Code() == codes.OK && !a.replayed() {
					t.Error("the client did not go")
				}
				cancel()
			}
			close(gone)
			if err := <-ended; err != nil {
				t.Errorf("the method was cut short: %v", err)
			}
			for end := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
				a := s.send(order("x"), MetadataKey, "k")
				if a.status.Code() == codes.OK && a.replayed() {
					break
				}
				if time.Now().After(end) {
					t.Fatalf("the answer is not there: %v", a.status)
				}
			}
			s.wantRuns(1)
		})
	}
}

// clientsContext is the key of the context that ends when the client goes.
type clientsContext struct{}

// keepsContext is an outer interceptor that keeps that context.
func keepsContext(ctx context.Context, r any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	return next(context.WithValue(ctx, clientsContext{}, ctx), r)
}

func clients(ctx context.Context) context.Context {
	return ctx.Value(clientsContext{}).(context.Context)
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// recovers is what a server has outermost.
func recovers(ctx context.Context, r any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (resp any, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = status.Errorf(codes.Internal, "recovered: %v", v)
		}
	}()
	return next(ctx, r)
}

func TestPanics(t *testing.T) {
	for _, c := range []struct {
		g    idempotency.Guarantee
		held bool
	}{{idempotency.GuaranteeHold, true}, {idempotency.GuaranteeReexecute, false}, {idempotency.GuaranteeTx, false}} {
		s := start(t, guaranteed(c.g), recovers)
		s.work = func(context.Context, *pb.SimpleRequest) (*pb.SimpleResponse, error) { panic("boom") }
		if a := s.send(order("x"), MetadataKey, "k"); a.status.Message() != "recovered: boom" {
			t.Errorf("%v: %v", c.g, a.status)
		}
		s.work = pays
		a := s.send(order("x"), MetadataKey, "k")
		if c.held {
			s.wantRefused(a, codes.Unknown, OutcomeUnknown, false)
		} else if a.status.Code() != codes.OK {
			t.Errorf("%v: %v", c.g, a.status)
		}
	}
}

func TestStoreDown(t *testing.T) {
	s := start(t, Options{})
	s.store.begin.Store(&errDown)
	s.wantRefused(s.send(order("x"), MetadataKey, "k"), codes.Unavailable, StoreUnavailable, true)
	s.store.begin.Store(&idempotency.ErrUnreadable)
	s.wantRefused(s.send(order("x"), MetadataKey, "k"), codes.Unavailable, RecordUnreadable, false)
	s.wantRuns(0)
	s.store.begin.Store(nil)

	s.store.apply.Store(&errDown)
	a := s.send(order("x"), MetadataKey, "k2")
	if a.status.Code() != codes.OK || len(a.header.Get(MetadataStatus)) != 1 {
		t.Errorf("the answer was not stored: %v %v", a.status, a.header)
	}
	s.wantRefused(s.send(order("x"), MetadataKey, "k2"), codes.Aborted, InProgress, true)
	s.wantRuns(1)
	s.store.apply.Store(nil)
}

func TestCommit(t *testing.T) {
	s := start(t, guaranteed(idempotency.GuaranteeTx))
	s.store.commit.Store(&idempotency.ErrUnknown)
	s.wantRefused(s.send(order("x"), MetadataKey, "k"), codes.Unavailable, CommitUnknown, true)
	s.store.commit.Store(&errDown)
	s.wantRefused(s.send(order("x"), MetadataKey, "k"), codes.Unavailable, StoreUnavailable, true)
}

func TestResponseThatIsTooLargeIsNotRunAgain(t *testing.T) {
	for _, c := range []struct{ option, store int }{{100, 0}, {0, 100}, {1000, 100}, {100, 1000}} {
		s := startOn(t, &shelf{Store: idempotency.NewMemoryStore(0, 0), most: c.store}, Options{MaxResponse: c.option})
		s.work = func(_ context.Context, r *pb.SimpleRequest) (*pb.SimpleResponse, error) {
			return &pb.SimpleResponse{Payload: r.Payload}, nil
		}
		small, large := order(strings.Repeat("x", 90)), order(strings.Repeat("x", 101))
		s.wantReplay(s.send(small, MetadataKey, "small"), s.send(small, MetadataKey, "small"))
		if a := s.send(large, MetadataKey, "large"); a.status.Code() != codes.OK || len(a.body) < 101 {
			t.Errorf("%v, %d bytes", a.status, len(a.body))
		}
		s.wantRefused(s.send(large, MetadataKey, "large"), codes.FailedPrecondition, NotRetained, false)
		s.wantRuns(2)
	}
}

// A caller whose access was taken away gets no stored answer: authentication is
// outside.
func TestRevokedCallerGetsNoReplay(t *testing.T) { // 19
	var revoked atomic.Bool
	s := start(t, Options{}, func(ctx context.Context, r any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		if revoked.Load() {
			return nil, status.Error(codes.Unauthenticated, "revoked")
		}
		return next(ctx, r)
	})
	first := s.send(order("x"), MetadataKey, "k")
	s.wantReplay(first, s.send(order("x"), MetadataKey, "k"))
	revoked.Store(true)
	if a := s.send(order("x"), MetadataKey, "k"); a.status.Code() != codes.Unauthenticated || len(a.body) > 0 {
		t.Errorf("%v %q", a.status, a.body)
	}
}

func TestMethodSeesItsRun(t *testing.T) {
	s := start(t, Options{})
	s.work = func(ctx context.Context, r *pb.SimpleRequest) (*pb.SimpleResponse, error) {
		if idempotency.Token(ctx) == 0 || idempotency.StepKey(ctx, "bank") == "" {
			t.Error("the method has no run")
		}
		if grpc.SetHeader(ctx, metadata.Pairs("own", "header")) != nil {
			t.Error("the method can't set a header")
		}
		return pays(ctx, r)
	}
	if a := s.send(order("x"), MetadataKey, "k"); len(a.header.Get("own")) != 1 {
		t.Errorf("header %v", a.header)
	}
}

func TestStreamsPassBy(t *testing.T) {
	s := start(t, Options{})
	stream, err := pb.NewTestServiceClient(s.conn).StreamingOutputCall(t.Context(), &pb.StreamingOutputCallRequest{})
	if err == nil {
		_, err = stream.Recv()
	}
	if status.Code(err) != codes.Unimplemented { // by this test's service: the call got there without a key
		t.Error(err)
	}
}

func TestArguments(t *testing.T) {
	store := idempotency.NewMemoryStore(0, 0)
	for _, c := range []struct {
		scope Scope
		store idempotency.Store
		o     Options
		want  string
	}{
		{nil, store, Options{}, "scope"},
		{Global, nil, Options{}, "store"},
		{Global, store, Options{MaxResponse: -1}, "bound"},
		{Global, store, guaranteed(idempotency.GuaranteeTx), "transactions"},
		{Global, store, Options{Runner: idempotency.RunnerConfig{Lease: -1}}, "lease"},
	} {
		if _, err := UnaryServerInterceptor(c.scope, c.store, c.o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want one about %q", err, c.want)
		}
	}
}
