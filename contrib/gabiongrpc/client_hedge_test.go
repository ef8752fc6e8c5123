package gabiongrpc_test

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/contrib/gabiongrpc"
	"github.com/gabion-go/gabion/policy"
)

func hedged(most int, delay time.Duration) policy.Policy {
	return with(plain(), func(p *policy.Policy) {
		p.Hedge = policy.Hedge{Max: most, Delay: delay}
		p.Retry.Attempts = 1
		if delay == 0 {
			p.Hedge.Percentile = policy.Off // all at once
		}
	})
}

func TestHedgesOfUnaryCalls(t *testing.T) {
	at := func(n ...int) (all []time.Duration) {
		for _, n := range n {
			all = append(all, time.Duration(n)*ms)
		}
		return all
	}
	slow := ok("slow").after(3 * time.Second)
	down := fails(codes.Unavailable).after(100 * ms)
	for _, c := range []struct {
		fact   string
		policy policy.Policy
		says   []answer
		came   []time.Duration
		reply  string
		code   codes.Code
		took   time.Duration
	}{
		{"C104 one after the other", hedged(3, 500*ms), []answer{slow}, at(0, 500, 1000, 1500), "slow", codes.OK, 3 * time.Second},
		{"C105 a failure brings the next, and the delay starts anew", hedged(2, 500*ms), []answer{down, slow, ok("third")}, at(0, 100, 600), "third", codes.OK, 600 * ms},
		{"C105 a permanent failure ends all", hedged(2, 500*ms), []answer{slow, fails(codes.PermissionDenied)}, at(0, 500), "", codes.PermissionDenied, 500 * ms},
		{"C106 the first success wins", hedged(2, 500*ms), []answer{slow, ok("second").after(100 * ms)}, at(0, 500), "second", codes.OK, 600 * ms},
		{"C107 no delay: all at once", hedged(2, 0), []answer{slow, slow, ok("third").after(ms)}, at(0, 0, 0), "third", codes.OK, ms},
		{"C108 pushback: the next then, and then the delay", hedged(2, 500*ms), []answer{down.push("300"), slow, ok("third")}, at(0, 400, 900), "third", codes.OK, 900 * ms},
		{"C108 negative pushback: no more, and those in flight continue", hedged(3, 200*ms), []answer{slow, down.push("-1")}, at(0, 200), "slow", codes.OK, 3 * time.Second},
		{"C109 all fail: the last counts", hedged(1, 500*ms), []answer{down, fails(codes.DataLoss)}, at(0, 100), "", codes.DataLoss, 100 * ms},
	} {
		t.Run(c.fact, func(t *testing.T) {
			inRoom(t, c.policy, func(r *room) {
				r.answers(c.says...)
				reply, err := r.call(safely())
				if took := time.Since(r.start); took != c.took || status.Code(err) != c.code || reply.GetUsername() != c.reply {
					t.Errorf("%v, %v after %v", reply, err, took)
				}
				r.wantAt(c.came...)
			})
		})
	}
}

func TestWhatIsHedged(t *testing.T) {
	keyed := func(ctx context.Context) context.Context {
		return metadata.AppendToOutgoingContext(ctx, "idempotency-key", "k")
	}
	plain := func(ctx context.Context) context.Context { return ctx }
	for _, c := range []struct {
		fact   string
		client *gabiongrpc.Client
		ctx    func(context.Context) context.Context
		opts   []grpc.CallOption
		came   int
	}{
		{"a call that is declared safe", &gabiongrpc.Client{}, plain, []grpc.CallOption{safely()}, 2},
		{"a method that is", &gabiongrpc.Client{Idempotent: func(string) bool { return true }}, plain, nil, 2},
		{"no other", &gabiongrpc.Client{}, plain, nil, 1},
		{"C110 none of which only a key says so", &gabiongrpc.Client{}, keyed, nil, 1},
		{"but where the server can tell two at once", &gabiongrpc.Client{HedgeKeyed: true}, keyed, nil, 2},
		{"none that asks not to be", &gabiongrpc.Client{}, plain, []grpc.CallOption{safely(), gabiongrpc.With(gabion.WithoutHedge())}, 1},
	} {
		t.Run(c.fact, func(t *testing.T) {
			inRoomOf(t, hedged(1, 100*ms), func(used *gabiongrpc.Client) {
				used.Idempotent, used.HedgeKeyed = c.client.Idempotent, c.client.HedgeKeyed
			}, nil, func(r *room) {
				r.answers(ok("").after(time.Second))
				if _, err := r.stub.UnaryCall(c.ctx(r.Context()), &pb.SimpleRequest{}, c.opts...); err != nil {
					t.Fatal(err)
				}
				if got := len(r.seen()); got != c.came {
					t.Errorf("%d attempts", got)
				}
			})
		})
	}
}

// A hedge may run on after the call, whose caller uses request and reply as it likes.
func TestAHedgeThatIsLeftBehindTouchesNothingOfTheCallers(t *testing.T) {
	inRoomOf(t, hedged(1, 100*ms), nil, []grpc.DialOption{grpc.WithChainUnaryInterceptor(
		func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, next grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			if gabion.AttemptNumber(ctx) == 1 {
				return next(ctx, method, req, reply, cc, opts...)
			}
			time.Sleep(time.Second) // the call is over by then, and this goes on all the same
			_, _ = proto.Marshal(req.(proto.Message))
			reply.(*pb.SimpleResponse).Username = "late"
			return ctx.Err()
		})}, func(r *room) {
		r.answers(ok("first").after(200 * ms))
		req, reply := &pb.SimpleRequest{ResponseSize: 1}, new(pb.SimpleResponse)
		if err := r.conn.Invoke(r.Context(), pb.TestService_UnaryCall_FullMethodName, req, reply, safely()); err != nil {
			t.Fatal(err)
		}
		for range 20 {
			req.ResponseSize++
			time.Sleep(100 * ms)
			if reply.GetUsername() != "first" {
				t.Fatal(reply)
			}
		}
	})
}
