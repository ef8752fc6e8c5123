package gabiongrpc_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/contrib/gabiongrpc"
	"github.com/gabion-go/gabion/policy"
)

// C70
func TestAttemptsAreNumberedAsGRPCDoes(t *testing.T) {
	for _, c := range []struct {
		fact string
		ctx  func(context.Context) context.Context
	}{
		{"absent, 1, 2", func(ctx context.Context) context.Context { return ctx }},
		{"whatever an earlier hop wrote", func(ctx context.Context) context.Context {
			return metadata.AppendToOutgoingContext(ctx, gabiongrpc.MetadataAttempts, "7", "x-request-priority", "high")
		}},
	} {
		t.Run(c.fact, func(t *testing.T) {
			inRoom(t, plain(), func(r *room) {
				r.answers(fails(codes.Unavailable))
				ctx := c.ctx(metadata.AppendToOutgoingContext(r.Context(), "tenant", "a"))
				_, _ = r.stub.UnaryCall(ctx, &pb.SimpleRequest{}, safely())
				var got [][]string
				for _, s := range r.seen() {
					got = append(got, s.md.Get(gabiongrpc.MetadataAttempts))
					if tenant := s.md.Get("tenant"); !slices.Equal(tenant, []string{"a"}) || s.md.Get("x-request-priority") != nil {
						t.Errorf("metadata %v", s.md)
					}
				}
				if len(got) != 3 || got[0] != nil || !slices.Equal(got[1], []string{"1"}) || !slices.Equal(got[2], []string{"2"}) {
					t.Errorf("attempts were numbered %q", got)
				}
			})
		})
	}
}

func TestTheCallersMetadataIsNotChanged(t *testing.T) {
	inRoom(t, with(plain(), func(p *policy.Policy) { p.Key = policy.KeyMade }), func(r *room) {
		r.answers(fails(codes.Unavailable))
		md := metadata.Pairs("tenant", "a")
		ctx := metadata.NewOutgoingContext(r.Context(), md)
		_, _ = r.stub.UnaryCall(ctx, &pb.SimpleRequest{})
		if now, _ := metadata.FromOutgoingContext(ctx); len(now) != 1 || len(md) != 1 || len(r.seen()) != 3 {
			t.Errorf("the metadata is %v, %d attempts", now, len(r.seen()))
		}
	})
}

func TestTheServerIsToldTheSmallerDeadline(t *testing.T) {
	internal := func(p *policy.Policy) { p.Trust = policy.Internal }
	for _, c := range []struct {
		fact   string
		policy policy.Policy
		caller time.Duration
		left   time.Duration
	}{
		{"the attempt's", plain(), time.Minute, 4 * time.Second},
		{"the caller's", plain(), time.Second, time.Second},
		{"the call's", with(plain(), func(p *policy.Policy) { p.Timeout.Call, p.Timeout.Attempt = 3*time.Second, policy.Off }), 0, 3 * time.Second},
		{"of what a hop of ours has, less a margin", with(plain(), internal), 0, 3900 * ms},
		{"none, without a timeout", with(plain(), func(p *policy.Policy) { p.Timeout = policy.Timeout{Call: policy.Off, Attempt: policy.Off} }), 0, 0},
	} {
		t.Run(c.fact, func(t *testing.T) {
			inRoom(t, c.policy, func(r *room) {
				r.answers(ok(""))
				ctx := r.Context()
				if c.caller > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, c.caller)
					defer cancel()
				}
				if _, err := r.stub.UnaryCall(ctx, &pb.SimpleRequest{}); err != nil {
					t.Fatal(err)
				}
				if got := r.seen()[0].left; got != c.left {
					t.Errorf("the server had %v, want %v", got, c.left)
				}
			})
		})
	}
}

func TestAKeyIsTheSameOnEveryAttempt(t *testing.T) {
	keyed := with(plain(), func(p *policy.Policy) { p.Key = policy.KeyMade })
	inMetadata := func(ctx context.Context) context.Context {
		return metadata.AppendToOutgoingContext(ctx, "idempotency-key", "order-7")
	}
	for _, c := range []struct {
		fact   string
		policy policy.Policy
		ctx    func(context.Context) context.Context
		opts   []grpc.CallOption
		key    string // "" is any
	}{
		{"of the caller's metadata", plain(), inMetadata, nil, "order-7"},
		{"of an option", plain(), nil, []grpc.CallOption{gabiongrpc.With(gabion.WithKey("order-8"))}, "order-8"},
		{"that the policy makes", keyed, nil, nil, ""},
		{"of the metadata and not of the policy", keyed, inMetadata, nil, "order-7"},
	} {
		t.Run(c.fact, func(t *testing.T) {
			inRoom(t, c.policy, func(r *room) {
				r.answers(fails(codes.Unavailable), fails(codes.Unavailable), ok(""))
				ctx := r.Context()
				if c.ctx != nil {
					ctx = c.ctx(ctx)
				}
				if _, err := r.stub.UnaryCall(ctx, &pb.SimpleRequest{}, c.opts...); err != nil {
					t.Fatal(err)
				}
				first := r.seen()[0].md.Get("idempotency-key")
				for _, s := range r.seen() {
					if got := s.md.Get("idempotency-key"); len(got) != 1 || got[0] != first[0] || c.key != "" && got[0] != c.key {
						t.Errorf("keys %q and %q, want %q", first, got, c.key)
					}
				}
				if len(r.seen()) != 3 {
					t.Errorf("%d attempts", len(r.seen()))
				}
			})
		})
	}
}

func TestTwoKeysOrAnEmptyOneAreRefusedUnsent(t *testing.T) {
	for _, keys := range [][]string{{"idempotency-key", "a", "idempotency-key", "b"}, {"idempotency-key", ""}} {
		inRoom(t, plain(), func(r *room) {
			r.answers(ok(""))
			_, err := r.stub.UnaryCall(metadata.AppendToOutgoingContext(r.Context(), keys...), &pb.SimpleRequest{})
			r.wantAt()
			if !errors.Is(err, gabion.KeyMalformed) || status.Code(err) != codes.Internal || gabion.ReasonOf(err) != policy.Invalid {
				t.Error(err)
			}
		})
	}
}

func TestWhatTheServerSaysOfTheKey(t *testing.T) {
	say := func(code codes.Code, reason string) answer {
		return answer{code: code, details: []protoadapt.MessageV1{&errdetails.ErrorInfo{Domain: "idempotency.gabion", Reason: reason}}}
	}
	for _, c := range []struct {
		says    answer
		problem gabion.KeyProblem
		came    int
		effect  policy.Effect
	}{
		{say(codes.Aborted, "IN_PROGRESS").retryIn(time.Second), gabion.KeyInFlight, 3, policy.UnknownEffect},
		{say(codes.FailedPrecondition, "KEY_REUSED"), gabion.KeyReused, 1, policy.UnknownEffect},
		{say(codes.FailedPrecondition, "RESPONSE_NOT_RETAINED"), gabion.KeyAnswerNotKept, 1, policy.UnknownEffect},
		{say(codes.Unknown, "OUTCOME_UNKNOWN"), gabion.KeyOutcomeUnknown, 1, policy.UnknownEffect},
	} {
		t.Run(c.problem.Error(), func(t *testing.T) {
			inRoom(t, plain(), func(r *room) {
				r.answers(c.says)
				_, err := r.call(gabiongrpc.With(gabion.WithKey("k")))
				if !errors.Is(err, c.problem) || gabion.EffectOf(err) != c.effect || len(r.seen()) != c.came {
					t.Errorf("%d attempts, %v", len(r.seen()), err)
				}
				if slices.ContainsFunc(r.rec.Events(), func(e gabion.Event) bool { return e.Kind == policy.KindPaceSet }) {
					t.Error("other calls are held back for this one's key")
				}
			})
		})
	}
}

// The caller must see what belongs to the answer that it got, and nothing of an attempt
// before it.
func TestHeaderTrailerAndPeerAreOfTheAttemptThatAnswered(t *testing.T) {
	note := func(s string) metadata.MD { return metadata.Pairs("from", s) }
	for _, c := range []struct {
		fact   string
		policy policy.Policy
		says   []answer
		want   string
	}{
		{"the second", plain(), []answer{{code: codes.Unavailable, header: note("1"), trailer: note("1")}, {header: note("2"), trailer: note("2")}}, "2"},
		{"the last failure", plain(), []answer{{code: codes.Unavailable, header: note("1"), trailer: note("1")}, {code: codes.NotFound, header: note("2"), trailer: note("2")}}, "2"},
		{"a hedge", hedged(1, 100*ms), []answer{{takes: time.Second, header: note("1"), trailer: note("1")}, {takes: ms, body: "hedge", header: note("2"), trailer: note("2")}}, "2"},
	} {
		t.Run(c.fact, func(t *testing.T) {
			inRoom(t, c.policy, func(r *room) {
				r.answers(c.says...)
				var header, trailer metadata.MD
				var from peer.Peer
				var ended []error
				_, err := r.call(grpc.Header(&header), safely(), grpc.Trailer(&trailer), grpc.Peer(&from), grpc.OnFinish(func(err error) { ended = append(ended, err) }))
				if !slices.Equal(header.Get("from"), []string{c.want}) || !slices.Equal(trailer.Get("from"), []string{c.want}) || from.Addr == nil {
					t.Errorf("header %v, trailer %v, peer %v", header, trailer, from)
				}
				if len(ended) != 1 || ended[0] != err {
					t.Errorf("the call ended with %v, told %v", err, ended)
				}
			})
		})
	}
}

func TestNothingOfAFailedAttemptIsInTheReply(t *testing.T) {
	inRoom(t, with(plain(), func(p *policy.Policy) { p.Safe = true }), func(r *room) {
		r.answers(ok("first"), ok(""))
		var bad bool
		once := grpc.UnaryClientInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, next grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			if reply.(*pb.SimpleResponse).GetUsername() != "" {
				t.Error("an attempt begins with another's reply")
			}
			err := next(ctx, method, req, reply, cc, opts...)
			if !bad { // after the reply was read
				bad = true
				return status.Error(codes.Unavailable, "broken off")
			}
			return err
		})
		intercept := gabiongrpc.UnaryClientInterceptor(r.dep)
		reply := new(pb.SimpleResponse)
		err := intercept(r.Context(), pb.TestService_UnaryCall_FullMethodName, &pb.SimpleRequest{}, reply, r.conn,
			func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, opts ...grpc.CallOption) error {
				return once(ctx, method, req, reply, cc, bare, opts...)
			})
		if err != nil || reply.GetUsername() != "" || len(r.seen()) != 2 {
			t.Errorf("%v, %v", reply, err)
		}
	})
}

// bare makes the call without the connection's own interceptors.
func bare(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, opts ...grpc.CallOption) error {
	s, err := grpc.NewClientStream(ctx, &grpc.StreamDesc{}, cc, method, opts...)
	if err != nil {
		return err
	}
	if err := s.SendMsg(req); err != nil {
		return err
	}
	return s.RecvMsg(reply)
}

func TestTheKeyOfTheCallAroundIsForTheOneEffect(t *testing.T) {
	for _, c := range []struct {
		fact string
		opts func(*gabiongrpc.Client)
		key  []string
	}{
		{"it goes along", func(*gabiongrpc.Client) {}, []string{"outer"}},
		{"and not with what only reads", func(c *gabiongrpc.Client) { c.Idempotent = func(string) bool { return true } }, nil},
	} {
		t.Run(c.fact, func(t *testing.T) {
			inRoomOf(t, plain(), c.opts, nil, func(r *room) {
				r.answers(ok(""))
				outer := gabion.New("outer", policy.Policy{})
				err := outer.Run(r.Context(), func(ctx context.Context) error {
					_, err := r.stub.UnaryCall(ctx, &pb.SimpleRequest{})
					return err
				}, gabion.WithKey("outer"))
				if got := r.seen()[0].md.Get("idempotency-key"); err != nil || !slices.Equal(got, c.key) {
					t.Errorf("key %q, %v", got, err)
				}
			})
		})
	}
}

func TestThePriorityIsToldToOursOnly(t *testing.T) {
	for _, c := range []struct {
		fact  string
		trust policy.Trust
		as    policy.Priority
		want  []string
	}{
		{"high", policy.Internal, policy.PriorityHigh, []string{"high"}},
		{"low", policy.Internal, policy.PriorityLow, []string{"low"}},
		{"normal is not said", policy.Internal, policy.PriorityNormal, nil},
		{"nor anything to others", policy.External, policy.PriorityHigh, nil},
	} {
		t.Run(c.fact, func(t *testing.T) {
			inRoom(t, with(plain(), func(p *policy.Policy) { p.Trust = c.trust }), func(r *room) {
				r.answers(ok(""))
				if _, err := r.stub.UnaryCall(gabion.ContextWithPriority(r.Context(), c.as), &pb.SimpleRequest{}); err != nil {
					t.Fatal(err)
				}
				if got := r.seen()[0].md.Get(gabiongrpc.MetadataPriority); !slices.Equal(got, c.want) {
					t.Errorf("the server read %q", got)
				}
			})
		})
	}
}
