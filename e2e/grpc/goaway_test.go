package grpc

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/contrib/gabiongrpc"
	"github.com/gabion-go/gabion/gabiontest"
	"github.com/gabion-go/gabion/policy"
)

// busy is a service whose calls take a while, and which counts how often each was carried out.
type busy struct {
	pb.UnimplementedTestServiceServer
	unary, message time.Duration

	mu   sync.Mutex
	came map[string]int
}

func (b *busy) note(ctx context.Context) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.came[strings.Join(metadata.ValueFromIncomingContext(ctx, requestID), ",")]++
}

func (b *busy) UnaryCall(ctx context.Context, _ *pb.SimpleRequest) (*pb.SimpleResponse, error) {
	b.note(ctx)
	takes(ctx, b.unary)
	return &pb.SimpleResponse{}, nil
}

func (b *busy) StreamingOutputCall(_ *pb.StreamingOutputCallRequest, out pb.TestService_StreamingOutputCallServer) error {
	b.note(out.Context())
	for i := range streamed {
		takes(out.Context(), b.message)
		if err := out.Send(&pb.StreamingOutputCallResponse{Payload: &pb.Payload{Body: []byte{byte(i)}}}); err != nil {
			return err
		}
	}
	return nil
}

// storm is how calls of one client went.
type storm struct {
	name   string
	client pb.TestServiceClient
	dep    *gabion.Dependency // nil for grpc-go alone
	safe   bool

	mu     sync.Mutex
	calls  int
	failed map[string]error // by id
}

func (s *storm) run(ctx context.Context, worker, calls int) {
	for n := range calls {
		id := fmt.Sprint(s.name, "/", worker, "-", n)
		ctx := metadata.AppendToOutgoingContext(ctx, requestID, id)
		var err error
		if n%5 == 0 {
			var in pb.TestService_StreamingOutputCallClient
			if in, err = s.client.StreamingOutputCall(ctx, &pb.StreamingOutputCallRequest{}); err == nil {
				err = readAll(in)
			}
		} else {
			_, err = s.client.UnaryCall(ctx, &pb.SimpleRequest{})
		}
		s.mu.Lock()
		s.calls++
		if err != nil {
			s.failed[id] = err
		}
		s.mu.Unlock()
	}
}

// Servers that end their connections all the time: no call fails that grpc-go alone would not
// have failed, and what is not safe is carried out once. Where there is time for a call to
// end, none fails at all; where connections are cut, what is safe is repeated.
func TestAStormOfGoAways(t *testing.T) {
	for _, c := range []struct {
		fact           string
		age, grace     time.Duration
		unary, message time.Duration
		cut            bool // some calls meet the end of the grace
	}{
		{"with time for each call to end", 50 * time.Millisecond, 10 * time.Second, 3 * time.Millisecond, time.Millisecond, false},
		{"with less time than calls take", 100 * time.Millisecond, time.Millisecond, 6 * time.Millisecond, 3 * time.Millisecond, true},
	} {
		t.Run(c.fact, func(t *testing.T) {
			gabiontest.NoLeaks(t)
			b := &busy{came: map[string]int{}, unary: c.unary, message: c.message}
			url := serveGRPC(t, b, grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionAge: c.age, MaxConnectionAgeGrace: c.grace}))
			unsafe := impatient()
			safe := unsafe
			safe.Safe, safe.Retry.Attempts, safe.Retry.Budget.Off = true, 5, true
			storms := []*storm{stormOf(t, "grpc-go", url, nil, false), stormOf(t, "gabion", url, &unsafe, false), stormOf(t, "gabion, safe", url, &safe, true)}
			var working sync.WaitGroup
			for _, s := range storms {
				for worker := range 4 {
					working.Go(func() { s.run(t.Context(), worker, 40) })
				}
			}
			working.Wait()
			for _, s := range storms {
				s.check(t, b, c.cut)
			}
			bare, ours, repeated := len(storms[0].failed), len(storms[1].failed), len(storms[2].failed)
			t.Logf("failed of %d: %d of grpc-go, %d of gabion, %d of gabion where safe", storms[0].calls, bare, ours, repeated)
			if c.cut && bare == 0 {
				t.Error("nothing was cut: the test shows nothing")
			}
			if c.cut && (ours > 2*bare+10 || repeated > bare) {
				t.Errorf("%d calls failed, and %d where they are safe; of grpc-go alone %d", ours, repeated, bare)
			}
		})
	}
}

func stormOf(t *testing.T, name, url string, p *policy.Policy, safe bool) *storm {
	t.Helper()
	s := &storm{name: name, safe: safe, failed: map[string]error{}}
	options := []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials()), soon}
	if p != nil {
		s.dep = gabion.New(name, *p)
		options = append((&gabiongrpc.Client{Dependency: s.dep}).DialOptions(), options...)
	}
	conn, err := grpc.NewClient(strings.TrimPrefix(url, "http://"), options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	s.client = pb.NewTestServiceClient(conn)
	return s
}

func (s *storm) check(t *testing.T, b *busy, cut bool) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for id, n := range b.came {
		if strings.HasPrefix(id, s.name+"/") && !s.safe && n > 1 {
			t.Errorf("%s came %d times", id, n)
		}
	}
	for id, err := range s.failed {
		switch came := b.came[id]; {
		case !cut:
			t.Errorf("%s: %v", id, err)
		case status.Code(err) != codes.Unavailable:
			t.Errorf("%s: %v", id, err)
		case s.safe && !errors.As(err, new(*gabion.Error)):
			// A stream that had begun, which is never repeated.
		case s.safe:
			t.Errorf("%s is safe, and was not repeated until it succeeded: %v", id, err)
		case s.dep != nil && gabion.EffectOf(err) == policy.NoEffect && came > 0:
			t.Errorf("%s came %d times, and the error says never: %v", id, came, err)
		}
	}
	if s.dep != nil {
		gabiontest.NothingHeld(t, s.dep)
	}
}
