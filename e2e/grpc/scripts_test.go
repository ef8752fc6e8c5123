package grpc

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/contrib/gabiongrpc"
	"github.com/gabion-go/gabion/gabiontest"
)

// A step is what a server does in one attempt of a stream, in this order.
type step struct {
	reads    int // messages of the request
	header   bool
	messages int
	pushback string
	code     codes.Code
}

// actor does what its script says, one step for each attempt.
type actor struct {
	pb.UnimplementedTestServiceServer
	mu      sync.Mutex
	script  []step
	came    int
	numbers []string // what each attempt said of those before it
}

func (a *actor) play(s grpc.ServerStream, read func() error, send func(*pb.StreamingOutputCallResponse) error) error {
	a.mu.Lock()
	now := a.script[min(a.came, len(a.script)-1)]
	a.came++
	a.numbers = append(a.numbers, strings.Join(metadata.ValueFromIncomingContext(s.Context(), "grpc-previous-rpc-attempts"), ","))
	a.mu.Unlock()
	for range now.reads {
		if err := read(); err != nil {
			return err
		}
	}
	if now.header {
		if err := s.SendHeader(nil); err != nil {
			return err
		}
	}
	for range now.messages {
		if err := send(&pb.StreamingOutputCallResponse{}); err != nil {
			return err
		}
	}
	if now.pushback != "" {
		s.SetTrailer(metadata.Pairs("grpc-retry-pushback-ms", now.pushback))
	}
	if now.code != codes.OK {
		return status.Error(now.code, "as told")
	}
	return nil
}

func (a *actor) StreamingOutputCall(_ *pb.StreamingOutputCallRequest, s pb.TestService_StreamingOutputCallServer) error {
	return a.play(s, func() error { return nil }, s.Send)
}

func (a *actor) FullDuplexCall(s pb.TestService_FullDuplexCallServer) error {
	return a.play(s, func() error { _, err := s.Recv(); return err }, s.Send)
}

// seen is what came of a stream.
type seen struct {
	came     int
	messages int
	code     codes.Code
	numbers  []string
}

func (a *actor) streamFrom(ctx context.Context, client pb.TestServiceClient, both bool, script []step) seen {
	a.mu.Lock()
	a.script, a.came, a.numbers = script, 0, nil
	a.mu.Unlock()
	n, err := messagesOf(ctx, client, both)
	a.mu.Lock()
	defer a.mu.Unlock()
	return seen{a.came, n, status.Code(err), slices.Clone(a.numbers)}
}

func messagesOf(ctx context.Context, client pb.TestServiceClient, both bool) (n int, err error) {
	var in interface {
		Recv() (*pb.StreamingOutputCallResponse, error)
	}
	if both {
		s, err := client.FullDuplexCall(ctx)
		if err != nil {
			return 0, err
		}
		if err := s.Send(&pb.StreamingOutputCallRequest{}); err == nil {
			_ = s.CloseSend()
		}
		in = s
	} else if in, err = client.StreamingOutputCall(ctx, &pb.StreamingOutputCallRequest{}); err != nil {
		return 0, err
	}
	for ; ; n++ {
		if _, err := in.Recv(); err == io.EOF {
			return n, nil
		} else if err != nil {
			return n, err
		}
	}
}

// The same service config and the same script for a stream, followed by grpc-go and by
// gabion: as many attempts come, and the caller gets the same. Where it differs, the fact
// says so.
func TestStreamsAreRepeatedAsByGRPC(t *testing.T) {
	const config = `{"methodConfig": [{"name": [{}], "retryPolicy": {"maxAttempts": 4, "initialBackoff": "0.005s",
		"maxBackoff": "0.01s", "backoffMultiplier": 1, "retryableStatusCodes": ["UNAVAILABLE"]}}]%s}`
	const throttle = `, "retryThrottling": {"maxTokens": 2, "tokenRatio": 0.1}`
	down, fine := step{code: codes.Unavailable}, step{messages: 3}
	push := func(ms string) step { return step{code: codes.Unavailable, pushback: ms} }
	for _, c := range []struct {
		fact   string
		both   bool
		more   string // of the config
		script []step
		theirs int // attempts
		ours   int
	}{
		{"a stream that works", false, "", []step{fine}, 1, 1},
		{"it fails before anything", false, "", []step{down, down, fine}, 3, 3},
		{"it always fails", false, "", []step{down}, 4, 4},
		{"another code", false, "", []step{down, {code: codes.Internal}}, 2, 2},
		{"after the header", false, "", []step{{header: true, code: codes.Unavailable}}, 1, 1},
		{"after a message", false, "", []step{{messages: 1, code: codes.Unavailable}}, 1, 1},
		{"in the second attempt, after a message", false, "", []step{down, {messages: 1, code: codes.Unavailable}}, 2, 2},
		{"without a message", false, "", []step{down, {}}, 2, 2},
		{"with a pushback", false, "", []step{push("10"), push("0"), fine}, 3, 3},
		{"with a negative pushback", false, "", []step{push("-1")}, 1, 1},
		{"with a pushback that is no number", false, "", []step{push("soon")}, 1, 1},
		{"with a pushback and a header", false, "", []step{{header: true, code: codes.Unavailable, pushback: "1"}}, 1, 1},
		{"with a pushback for a code that is not listed", false, "", []step{{code: codes.Internal, pushback: "1"}}, 1, 1},
		{"the throttling has no tokens left", false, throttle, []step{down}, 1, 1},
		{"both ways, and it works", true, "", []step{{reads: 1, messages: 2}}, 1, 1},
		{"both ways, after a message", true, "", []step{{reads: 1, messages: 1, code: codes.Unavailable}}, 1, 1},
		{"differs: both ways, before a message. grpc-go keeps what was sent and sends it again", true, "", []step{{reads: 1, code: codes.Unavailable}, {reads: 1, messages: 2}}, 2, 1},
	} {
		t.Run(c.fact, func(t *testing.T) {
			gabiontest.NoLeaks(t)
			a := new(actor)
			addr := strings.TrimPrefix(serveGRPC(t, a), "http://")
			js := fmt.Sprintf(config, c.more)
			dial := func(options ...grpc.DialOption) pb.TestServiceClient {
				conn, err := grpc.NewClient(addr, append(options, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { conn.Close() })
				return pb.NewTestServiceClient(conn)
			}
			service, err := gabiongrpc.FromServiceConfig([]byte(js))
			if err != nil {
				t.Fatal(err)
			}
			service = service.Exact()
			deps, err := gabion.NewRegistry(service.Policies())
			if err != nil {
				t.Fatal(err)
			}
			options, err := service.DialOptions(deps)
			if err != nil {
				t.Fatal(err)
			}
			theirs := a.streamFrom(t.Context(), dial(grpc.WithDefaultServiceConfig(js)), c.both, c.script)
			ours := a.streamFrom(t.Context(), dial(options...), c.both, c.script)
			if theirs.came != c.theirs || ours.came != c.ours {
				t.Errorf("grpc-go %+v, gabion %+v", theirs, ours)
			}
			if c.theirs == c.ours && (theirs.messages != ours.messages || theirs.code != ours.code || !slices.Equal(theirs.numbers, ours.numbers)) {
				t.Errorf("grpc-go %+v, gabion %+v", theirs, ours)
			}
		})
	}
}
