package gabiongrpc_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/contrib/gabiongrpc"
	"github.com/gabion-go/gabion/policy"
)

// turner is an HTTP/2 server that turns every stream away without looking at it.
type turner struct {
	goAway  bool // with its connection
	cuts    bool // the connection instead, as a server does that dies
	streams atomic.Int64
}

func (s *turner) dial(context.Context, string) (net.Conn, error) {
	here, there := net.Pipe()
	go s.serve(there)
	return here, nil
}

func (s *turner) serve(c net.Conn) {
	defer c.Close()
	if _, err := io.ReadFull(c, make([]byte, len(http2.ClientPreface))); err != nil {
		return
	}
	f := http2.NewFramer(c, c)
	write := make(chan func() error, 100) // a pipe has no room, so who reads must not write
	defer close(write)
	go func() {
		for w := range write {
			if w() != nil {
				c.Close()
			}
		}
	}()
	write <- func() error { return f.WriteSettings() }
	for {
		frame, err := f.ReadFrame()
		if err != nil {
			return
		}
		switch frame := frame.(type) {
		case *http2.SettingsFrame:
			if !frame.IsAck() {
				write <- f.WriteSettingsAck
			}
		case *http2.HeadersFrame:
			s.streams.Add(1)
			id := frame.StreamID
			if s.cuts {
				return
			}
			if s.goAway {
				write <- func() error { return f.WriteGoAway(0, http2.ErrCodeNo, nil) }
			} else {
				write <- func() error { return f.WriteRSTStream(id, http2.ErrCodeRefusedStream) }
			}
		}
	}
}

// C69: what grpc-go sends again by itself costs no attempt, and is bounded.
func TestWhatGRPCSendsAgainByItselfIsCounted(t *testing.T) {
	for _, c := range []struct {
		fact     string
		server   *turner
		opts     []grpc.CallOption
		attempts int
		streams  int64
		hidden   int64
		effect   policy.Effect
	}{
		{"a refused stream once, and no more, though the call is not safe", &turner{}, nil, 1, 2, 1, policy.UnknownEffect},
		{"once for each attempt of a call that is", &turner{}, []grpc.CallOption{safely()}, 3, 6, 3, policy.UnknownEffect},
		{"a call whose connection broke not at all: it may have happened", &turner{cuts: true}, nil, 1, 1, 0, policy.UnknownEffect},
		{"GOAWAY in the same way", &turner{goAway: true}, nil, 1, 2, 1, policy.UnknownEffect},
	} {
		t.Run(c.fact, func(t *testing.T) {
			used := new(gabiongrpc.Client)
			handler := used.StatsHandler()
			inRoomOf(t, plain(), func(made *gabiongrpc.Client) { used.Dependency = made.Dependency },
				[]grpc.DialOption{grpc.WithContextDialer(c.server.dial), grpc.WithStatsHandler(handler)}, func(r *room) {
					_, err := r.call(c.opts...)
					e, _ := errors.AsType[*gabion.Error](err)
					if e == nil || e.Attempts != c.attempts || e.Effect != c.effect || status.Code(err) != codes.Unavailable {
						t.Error(err)
					}
					if got, hidden := c.server.streams.Load(), used.Hidden(); got != c.streams || hidden != c.hidden {
						t.Errorf("%d streams came, %d hidden", got, hidden)
					}
				})
		})
	}
}

// Where a chain is built by hand, the retries of a service config multiply with those of the
// policy. The StatsHandler sees that, and observers get an event.
func TestTheRetriesOfAServiceConfigMultiplyAndAreTold(t *testing.T) {
	retries := grpc.WithDefaultServiceConfig(`{"methodConfig": [{"name": [{}], "retryPolicy":
		{"maxAttempts": 3, "initialBackoff": "0.01s", "maxBackoff": "0.01s", "backoffMultiplier": 1, "retryableStatusCodes": ["UNAVAILABLE"]}}]}`)
	for _, c := range []struct {
		fact       string
		opts       func(*gabiongrpc.Client) []grpc.DialOption
		came, told int
	}{
		{"a chain by hand", func(c *gabiongrpc.Client) []grpc.DialOption {
			return []grpc.DialOption{grpc.WithChainUnaryInterceptor(c.UnaryInterceptor())}
		}, 9, 6},
		{"with the retries off", func(c *gabiongrpc.Client) []grpc.DialOption {
			return []grpc.DialOption{grpc.WithChainUnaryInterceptor(c.UnaryInterceptor()), grpc.WithDisableRetry()}
		}, 3, 0},
		{"the options of a Client", (*gabiongrpc.Client).DialOptions, 3, 0},
	} {
		t.Run(c.fact, func(t *testing.T) {
			inRoom(t, plain(), func(r *room) {
				r.answers(fails(codes.Unavailable))
				client := &gabiongrpc.Client{Dependency: r.dep}
				stub := pb.NewTestServiceClient(r.dial(append(c.opts(client), retries, grpc.WithStatsHandler(client.StatsHandler()))...))
				_, err := stub.UnaryCall(r.Context(), &pb.SimpleRequest{}, safely())
				told := 0
				for _, e := range r.rec.Events() {
					if e.Kind == policy.KindResent {
						told += int(e.Count)
					}
				}
				if e, _ := errors.AsType[*gabion.Error](err); len(r.seen()) != c.came || e == nil || e.Attempts != 3 {
					t.Errorf("came %d times: %v", len(r.seen()), err)
				}
				if client.Hidden() != int64(c.told) || told != c.told {
					t.Errorf("%d hidden, %d told", client.Hidden(), told)
				}
			})
		})
	}
}

// A chain that is built by hand needs no StatsHandler for its user to know of the retries.
func TestRetriesThatMultiplyAreWarnedOf(t *testing.T) {
	retries := func(method, code string) grpc.DialOption {
		return grpc.WithDefaultServiceConfig(`{"methodConfig": [{"name": [` + method + `], "retryPolicy": {"maxAttempts": 3, ` +
			`"initialBackoff": "0.01s", "maxBackoff": "0.01s", "backoffMultiplier": 1, "retryableStatusCodes": ["` + code + `"]}}]}`)
	}
	const every, unavailable = "{}", "UNAVAILABLE"
	byHand := func(c *gabiongrpc.Client) []grpc.DialOption {
		return []grpc.DialOption{grpc.WithChainUnaryInterceptor(c.UnaryInterceptor()), grpc.WithChainStreamInterceptor(c.StreamInterceptor())}
	}
	once := func(p policy.Policy) policy.Policy { return with(p, func(p *policy.Policy) { p.Retry.Attempts = 1 }) }
	for _, c := range []struct {
		fact    string
		policy  policy.Policy
		opts    func(*gabiongrpc.Client) []grpc.DialOption
		config  grpc.DialOption
		answers answer
		warned  int
	}{
		{"a chain by hand, once", plain(), byHand, retries(every, unavailable), fails(codes.Unavailable), 1},
		{"a method of its own config", plain(), byHand, retries(`{"service": "grpc.testing.TestService"}`, unavailable), fails(codes.Unavailable), 1},
		{"a config of another service repeats nothing", plain(), byHand, retries(`{"service": "another"}`, unavailable), fails(codes.Unavailable), 0},
		{"no config repeats nothing", plain(), byHand, grpc.EmptyDialOption{}, fails(codes.Unavailable), 0},
		{"a code that the config does not name is not repeated", plain(), byHand, retries(every, "ABORTED"), fails(codes.Unavailable), 0},
		{"a call that succeeds is not looked at", plain(), byHand, retries(every, unavailable), ok(""), 0},
		{"a policy of one attempt multiplies nothing", once(plain()), byHand, retries(every, unavailable), fails(codes.Unavailable), 0},
		{"with the retries off", plain(), func(c *gabiongrpc.Client) []grpc.DialOption { return append(byHand(c), grpc.WithDisableRetry()) },
			retries(every, unavailable), fails(codes.Unavailable), 0},
		{"the options of a Client", plain(), (*gabiongrpc.Client).DialOptions, retries(every, unavailable), fails(codes.Unavailable), 0},
	} {
		for _, kind := range []string{"unary", "stream"} {
			t.Run(kind+": "+c.fact, func(t *testing.T) {
				inRoom(t, c.policy, func(r *room) {
					said := saidToDefault(t)
					r.answers(c.answers)
					r.down = func(n int, _ *pb.StreamingOutputCallRequest, _ grpc.ServerStreamingServer[pb.StreamingOutputCallResponse]) error {
						_, err := c.answers.give(t.Context())
						return err
					}
					client := &gabiongrpc.Client{Dependency: r.dep}
					stub := pb.NewTestServiceClient(r.dial(append(c.opts(client), c.config)...))
					for range 2 {
						if kind == "unary" {
							_, _ = stub.UnaryCall(r.Context(), &pb.SimpleRequest{}, safely())
							continue
						}
						if s, err := stub.StreamingOutputCall(r.Context(), &pb.StreamingOutputCallRequest{}, safely()); err == nil {
							_, _ = s.Recv()
						}
					}
					if got := strings.Count(said.String(), "up to 3 times by itself"); got != c.warned || c.warned == 0 && said.Len() > 0 {
						t.Errorf("%d warnings, want %d:\n%s", got, c.warned, said)
					}
				})
			})
		}
	}
}

// saidToDefault returns what slog.Default gets until the test ends.
func saidToDefault(t *testing.T) *bytes.Buffer {
	said, before := new(bytes.Buffer), slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(said, nil)))
	t.Cleanup(func() { slog.SetDefault(before) })
	return said
}
