package gabiongrpc_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/contrib/gabiongrpc"
	"github.com/gabion-go/gabion/internal/grpccode"
	"github.com/gabion-go/gabion/policy"
)

// refusing fails each dial.
func refusing() grpc.DialOption {
	return grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) { return nil, errors.New("refused") })
}

// answering is an interceptor that answers by itself.
func answering(err error) grpc.DialOption {
	return grpc.WithChainUnaryInterceptor(func(context.Context, string, any, any, *grpc.ClientConn, grpc.UnaryInvoker, ...grpc.CallOption) error {
		return err
	})
}

// C66
func TestWhatProvablyNeverLeft(t *testing.T) {
	unavailable := status.Error(codes.Unavailable, "no connection")
	for _, c := range []struct {
		fact     string
		dial     grpc.DialOption
		opts     []grpc.CallOption
		attempts int
		effect   policy.Effect
		code     codes.Code
	}{
		{"a refused connection: an unsafe call is repeated", refusing(), nil, 3, policy.NoEffect, codes.Unavailable},
		{"C69 an interceptor that says so proves nothing", answering(unavailable), nil, 1, policy.UnknownEffect, codes.Unavailable},
		{"C69 the bare end of a stream: it may have happened", answering(io.EOF), nil, 1, policy.UnknownEffect, codes.Unavailable},
		{"the bare end of a stream of a safe call is repeated", answering(io.EOF), []grpc.CallOption{safely()}, 3, policy.UnknownEffect, codes.Unavailable},
		{"a call that waits for a connection until its time is over", refusing(), []grpc.CallOption{grpc.WaitForReady(true)}, 3, policy.NoEffect, codes.DeadlineExceeded},
		{"a request that is larger than the connection sends", grpc.WithDefaultCallOptions(grpc.MaxCallSendMsgSize(1)), nil, 1, policy.NoEffect, codes.ResourceExhausted},
		{"than the call sends", grpc.EmptyDialOption{}, []grpc.CallOption{grpc.MaxCallSendMsgSize(2)}, 1, policy.NoEffect, codes.ResourceExhausted},
		{"than the service config says", grpc.WithDefaultServiceConfig(`{"methodConfig": [{"name": [{}], "maxRequestMessageBytes": 2}]}`), nil, 1, policy.NoEffect, codes.ResourceExhausted},
		{"a codec that is not there", grpc.WithDefaultCallOptions(grpc.CallContentSubtype("none")), nil, 1, policy.NoEffect, codes.Internal},
	} {
		t.Run(c.fact, func(t *testing.T) {
			inRoomOf(t, plain(), nil, []grpc.DialOption{c.dial}, func(r *room) {
				r.answers(ok(""))
				_, err := r.stub.UnaryCall(r.Context(), &pb.SimpleRequest{ResponseSize: 700}, c.opts...)
				e, _ := errors.AsType[*gabion.Error](err)
				if e == nil || e.Attempts != c.attempts || e.Effect != c.effect || status.Code(err) != c.code {
					t.Errorf("%v, code %v", err, status.Code(err))
				}
				r.wantAt()
			})
		})
	}
}

func TestTimeOfAttemptAndCall(t *testing.T) {
	slow := ok("").after(time.Minute)
	limited := []grpc.DialOption{grpc.WithDefaultServiceConfig(`{"methodConfig": [{"name": [{}], "timeout": "1s", "retryPolicy":
		{"maxAttempts": 5, "initialBackoff": "0.01s", "maxBackoff": "0.01s", "backoffMultiplier": 1, "retryableStatusCodes": ["UNAVAILABLE"]}}]}`)}
	for _, c := range []struct {
		fact   string
		policy policy.Policy
		caller time.Duration
		says   []answer
		came   int
		took   time.Duration
		why    gabion.Reason
		code   codes.Code
		dial   []grpc.DialOption
	}{
		{"the time of a service config is an attempt's", plain(), 0, []answer{slow, ok("")}, 2, 1100 * ms, policy.None, codes.OK, limited},
		{"and its retries are not made", plain(), 0, []answer{fails(codes.Unavailable)}, 3, 200 * ms, policy.AttemptsExhausted, codes.Unavailable, limited},
		{"too little time for another attempt", plain(), 120 * ms, []answer{fails(codes.Unavailable)}, 1, 0, policy.DeadlineShort, codes.Unavailable, nil},
		{"no time for the next hop", with(plain(), func(p *policy.Policy) { p.Trust, p.Timeout.HopMargin = policy.Internal, 200*ms }), 100 * ms, []answer{ok("")}, 0, 0, policy.NotRetryable, codes.DeadlineExceeded, nil},
		{"little time for the next hop is halved", with(plain(), func(p *policy.Policy) { p.Trust = policy.Internal }), 100 * ms, []answer{ok("")}, 1, 0, policy.None, codes.OK, nil},
		{"an attempt that takes too long is repeated", plain(), 0, []answer{slow, ok("")}, 2, 4100 * ms, policy.None, codes.OK, nil},
		{"until attempts are used up", plain(), 0, []answer{slow}, 3, 12200 * ms, policy.AttemptsExhausted, codes.DeadlineExceeded, nil},
		{"the caller's deadline ends it", plain(), time.Second, []answer{slow}, 1, time.Second, policy.CallTimeout, codes.DeadlineExceeded, nil},
		{"what the server says at the deadline that it was told is our timeout", with(plain(), func(p *policy.Policy) { p.Trust = policy.Internal }),
			0, []answer{slow, ok("")}, 2, 4000 * ms, policy.None, codes.OK, nil},
	} {
		t.Run(c.fact, func(t *testing.T) {
			inRoomOf(t, c.policy, nil, c.dial, func(r *room) {
				r.answers(c.says...)
				ctx := r.Context()
				if c.caller > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, c.caller)
					defer cancel()
				}
				_, err := r.stub.UnaryCall(ctx, &pb.SimpleRequest{}, safely())
				if took := time.Since(r.start); took != c.took || gabion.ReasonOf(err) != c.why || status.Code(err) != c.code || len(r.seen()) != c.came {
					t.Errorf("%d attempts, %v after %v", len(r.seen()), err, took)
				}
				for _, e := range r.rec.Events() {
					if e.Kind == policy.KindAttemptSettled && e.Code == "DEADLINE_EXCEEDED" && e.Class != policy.ClassTimeout && c.why != policy.CallTimeout {
						t.Errorf("a timeout counts as %v", e.Class)
					}
				}
			})
		})
	}
}

// C65
func TestACancelIsNotRepeatedAndSaysNothing(t *testing.T) {
	inRoom(t, plain(), func(r *room) {
		r.answers(ok("").after(time.Minute))
		ctx, cancel := context.WithCancel(r.Context())
		time.AfterFunc(time.Second, cancel)
		_, err := r.stub.UnaryCall(ctx, &pb.SimpleRequest{}, safely())
		if gabion.ReasonOf(err) != policy.Canceled || status.Code(err) != codes.Canceled || !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if counts := r.dep.Stats().Partitions; time.Since(r.start) != time.Second {
			t.Errorf("after %v, %v", time.Since(r.start), counts)
		}
	})
}

func TestTheCodeOfWhatWasRefusedHere(t *testing.T) {
	down := fails(codes.Unavailable)
	for _, c := range []struct {
		fact   string
		policy policy.Policy
		before int
		opts   []grpc.CallOption
		why    gabion.Reason
		code   codes.Code
	}{
		{"an open breaker", with(plain(), func(p *policy.Policy) { p.Breaker.Consecutive = 1 }), 1, nil, policy.BreakerOpen, codes.Unavailable},
		{"a key that is missing", with(plain(), func(p *policy.Policy) { p.Key = policy.KeyRequired }), 0, nil, policy.KeyMissing, codes.InvalidArgument},
		{"an option that can't be meant", plain(), 0, []grpc.CallOption{gabiongrpc.With(gabion.WithTimeout(-1))}, policy.Invalid, codes.Internal},
	} {
		t.Run(c.fact, func(t *testing.T) {
			inRoom(t, c.policy, func(r *room) {
				r.answers(down)
				for range c.before {
					_, _ = r.call()
				}
				_, err := r.call(c.opts...)
				if gabion.ReasonOf(err) != c.why || status.Code(err) != c.code || len(r.seen()) != c.before {
					t.Errorf("%v, code %v", err, status.Code(err))
				}
			})
		})
	}
}

func TestADetailedStatusArrivesAsItWasSent(t *testing.T) {
	inRoom(t, plain(), func(r *room) {
		r.answers(fails(codes.NotFound).retryIn(time.Second))
		_, err := r.call()
		s, _ := status.FromError(err)
		if s.Message() != "as told: 5" || len(s.Details()) != 1 {
			t.Error(s)
		}
	})
}

func TestAClassifierSeesTheReply(t *testing.T) {
	full := func(reply proto.Message, err error) policy.Outcome {
		if m, _ := reply.(*pb.SimpleResponse); err == nil && m.GetUsername() == "busy" {
			return policy.Failed(policy.ClassServer)
		}
		return policy.Outcome{}
	}
	for _, c := range []struct {
		fact string
		by   gabion.Option
		says []answer
		came int
		why  gabion.Reason
	}{
		{"a success that is a failure is repeated", gabion.WithClassify(full), []answer{ok("busy"), ok("")}, 2, policy.None},
		{"and is one at the end", gabion.WithClassify(full), []answer{ok("busy")}, 3, policy.AttemptsExhausted},
		{"what it does not decide the code does", gabion.WithClassify(full), []answer{fails(codes.Unavailable), ok("")}, 2, policy.None},
		{"one of any is asked, too", gabion.WithClassify(func(reply any, err error) policy.Outcome { return full(reply.(proto.Message), err) }), []answer{ok("busy"), ok("")}, 2, policy.None},
		{"it can't take pushback back", gabion.WithClassify(func(any, error) policy.Outcome { return policy.Outcome{Class: policy.ClassServer} }),
			[]answer{fails(codes.Unavailable).push("-1")}, 1, policy.DoNotRetry},
		{"one of other results is a mistake", gabion.WithClassify(func(int, error) policy.Outcome { return policy.Outcome{} }), []answer{ok("")}, 0, policy.Invalid},
	} {
		t.Run(c.fact, func(t *testing.T) {
			inRoomOf(t, plain(), nil, nil, func(r *room) {
				r.answers(c.says...)
				_, err := r.call(safely())
				if gabion.ReasonOf(err) != c.why || len(r.seen()) != c.came {
					t.Errorf("%d attempts, %v", len(r.seen()), err)
				}
			}, c.by)
		})
	}
}

func TestMistakes(t *testing.T) {
	inRoomOf(t, plain(), func(c *gabiongrpc.Client) { c.Dependency = nil }, nil, func(r *room) {
		r.answers(ok(""))
		if _, err := r.call(); status.Code(err) != codes.Internal || len(r.seen()) != 0 {
			t.Error(err)
		}
	})
	for fact, leave := range map[string]func(){"a panic": func() { panic("x") }, "Goexit": nil} {
		t.Run(fact+" below gives everything back", func(t *testing.T) {
			below := grpc.WithChainUnaryInterceptor(func(context.Context, string, any, any, *grpc.ClientConn, grpc.UnaryInvoker, ...grpc.CallOption) error {
				if leave == nil {
					runtime.Goexit()
				}
				leave()
				return nil
			})
			inRoomOf(t, plain(), nil, []grpc.DialOption{below}, func(r *room) {
				done := make(chan struct{})
				go func() {
					defer close(done)
					defer func() { _ = recover() }()
					_, _ = r.call()
					t.Error("the call came back")
				}()
				<-done
			})
		})
	}
}

// A message that is too large was not sent if it is the request, and was if it is the answer,
// in whatever words the server says so.
func TestAMessageThatIsTooLarge(t *testing.T) {
	sizes := func(send, recv int) []grpc.CallOption {
		return []grpc.CallOption{grpc.MaxCallSendMsgSize(send), grpc.MaxCallRecvMsgSize(recv)}
	}
	request := &pb.SimpleRequest{Payload: &pb.Payload{Body: make([]byte, 500)}}
	words := fmt.Sprintf("trying to send message larger than max (%d vs. %d)", proto.Size(request), 300)
	smaller := func(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, next grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		return next(ctx, method, &pb.SimpleRequest{}, reply, conn, opts...)
	}
	exhausted := answer{code: codes.ResourceExhausted}
	for _, c := range []struct {
		fact   string
		dial   grpc.DialOption
		opts   []grpc.CallOption
		says   func(context.Context) (*pb.SimpleResponse, error)
		came   int
		effect policy.Effect
	}{
		{"the request", grpc.EmptyDialOption{}, sizes(300, 1000), exhausted.give, 0, policy.NoEffect},
		{"the answer, for its caller", grpc.EmptyDialOption{}, sizes(1000, 300), func(context.Context) (*pb.SimpleResponse, error) {
			return &pb.SimpleResponse{Payload: request.Payload}, nil
		}, 1, policy.UnknownEffect},
		{"the answer, for the server", grpc.EmptyDialOption{}, sizes(1000, 1000), func(context.Context) (*pb.SimpleResponse, error) {
			return nil, status.Error(codes.ResourceExhausted, words)
		}, 1, policy.UnknownEffect},
		{"the answer of the same size, where an interceptor made the request smaller", grpc.WithChainUnaryInterceptor(smaller), sizes(300, 1000), func(ctx context.Context) (*pb.SimpleResponse, error) {
			return nil, status.Error(codes.ResourceExhausted, words)
		}, 1, policy.UnknownEffect},
		{"neither, where an interceptor made the request smaller", grpc.WithChainUnaryInterceptor(smaller), sizes(300, 1000), func(ctx context.Context) (*pb.SimpleResponse, error) {
			_ = grpc.SendHeader(ctx, nil)
			return exhausted.give(ctx)
		}, 1, policy.UnknownEffect},
	} {
		t.Run(c.fact, func(t *testing.T) {
			throttled := with(tripsAtOnce(), func(p *policy.Policy) { p.GRPC.Transient = []policy.GRPCCode{grpccode.ResourceExhausted} })
			inRoomOf(t, throttled, nil, []grpc.DialOption{c.dial}, func(r *room) {
				r.server.unary = func(ctx context.Context, _ int, _ *pb.SimpleRequest) (*pb.SimpleResponse, error) { return c.says(ctx) }
				_, err := r.stub.UnaryCall(r.Context(), request, c.opts...)
				if len(r.seen()) != c.came || status.Code(err) != codes.ResourceExhausted || gabion.EffectOf(err) != c.effect {
					t.Errorf("came %d times: %v", len(r.seen()), err)
				}
			})
		})
	}
	t.Run("the request of a stream", func(t *testing.T) {
		inRoom(t, tripsAtOnce(), func(r *room) {
			r.streams([]step{message()})
			s, err := r.stub.StreamingOutputCall(r.Context(), &pb.StreamingOutputCallRequest{Payload: request.Payload}, sizes(300, 1000)...)
			if err == nil {
				_, err = s.Recv()
			}
			if len(r.seen()) != 0 || status.Code(err) != codes.ResourceExhausted || gabion.EffectOf(err) != policy.NoEffect {
				t.Errorf("came %d times: %v", len(r.seen()), err)
			}
		})
	})
}
