package gabiongrpc_test

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/policy"
)

type (
	downStream   = grpc.ServerStreamingServer[pb.StreamingOutputCallResponse]
	duplexStream = grpc.BidiStreamingServer[pb.StreamingOutputCallRequest, pb.StreamingOutputCallResponse]
)

// step is what a handler of a stream does next: it waits, and then sends a message or ends.
type step struct {
	after time.Duration
	code  codes.Code
	end   bool
	push  string
	md    bool // send the header alone
}

func message() step                      { return step{} }
func header() step                       { return step{md: true} }
func ends(code codes.Code) step          { return step{end: true, code: code} }
func later(d time.Duration, s step) step { s.after = d; return s }

func play(s grpc.ServerStream, steps []step) error {
	for _, p := range steps {
		select {
		case <-time.After(p.after):
		case <-s.Context().Done():
			return status.FromContextError(s.Context().Err()).Err()
		}
		switch {
		case p.md:
			if err := s.SendHeader(metadata.Pairs("sent", "early")); err != nil {
				return err
			}
		case p.end:
			if p.push != "" {
				s.SetTrailer(metadata.Pairs("grpc-retry-pushback-ms", p.push))
			}
			return status.Error(p.code, "as told")
		default:
			if err := s.SendMsg(&pb.StreamingOutputCallResponse{}); err != nil {
				return err
			}
		}
	}
	return nil
}

// streams plays the scripts, one for each attempt; the last serves all that follow.
func (r *room) streams(all ...[]step) {
	r.server.down = func(n int, _ *pb.StreamingOutputCallRequest, s downStream) error {
		return play(s, all[min(n, len(all))-1])
	}
	r.server.duplex = func(n int, s duplexStream) error {
		if _, err := s.Recv(); err != nil {
			return err
		}
		return play(s, all[min(n, len(all))-1])
	}
}

// drain reads a stream to its end.
func drain(s grpc.ServerStreamingClient[pb.StreamingOutputCallResponse]) (n int, err error) {
	for {
		if _, err = s.Recv(); err != nil {
			return n, err
		}
		n++
	}
}

func (r *room) listen(opts ...grpc.CallOption) (int, error) {
	s, err := r.stub.StreamingOutputCall(r.Context(), &pb.StreamingOutputCallRequest{}, opts...)
	if err != nil {
		return 0, err
	}
	return drain(s)
}

func failures(r *room) (n int) {
	for _, e := range r.rec.Events() {
		if e.Kind == policy.KindAttemptSettled && e.Class != policy.ClassSuccess {
			n++
		}
	}
	return n
}

func TestStreamsAreRepeatedUntilTheirFirstMessage(t *testing.T) {
	down := []step{ends(codes.Unavailable)}
	two := []step{message(), message()}
	for _, c := range []struct {
		fact   string
		plays  [][]step
		opts   []grpc.CallOption
		came   []time.Duration
		got    int
		end    error
		code   codes.Code
		reason gabion.Reason
	}{
		{"that did not come", [][]step{down, down, two}, []grpc.CallOption{safely()}, []time.Duration{0, 100 * ms, 200 * ms}, 2, io.EOF, codes.Unknown, policy.None},
		{"C68 and not after it", [][]step{{message(), ends(codes.Unavailable)}, two}, []grpc.CallOption{safely()}, []time.Duration{0}, 1, nil, codes.Unavailable, policy.None},
		{"C68 nor once the header reached the caller", [][]step{{header(), ends(codes.Unavailable)}, two}, []grpc.CallOption{safely()}, []time.Duration{0}, 0, nil, codes.Unavailable, policy.None},
		{"if they are safe", [][]step{down, two}, nil, []time.Duration{0}, 0, nil, codes.Unavailable, policy.NotSafe},
		{"and attempts are left", [][]step{down}, []grpc.CallOption{safely()}, []time.Duration{0, 100 * ms, 200 * ms}, 0, nil, codes.Unavailable, policy.AttemptsExhausted},
		{"C73 at the time that pushback says", [][]step{{step{end: true, code: codes.Unavailable, push: "700"}}, two}, []grpc.CallOption{safely()}, []time.Duration{0, 700 * ms}, 2, io.EOF, codes.Unknown, policy.None},
		{"C73 or never", [][]step{{step{end: true, code: codes.Unavailable, push: "-1"}}, two}, []grpc.CallOption{safely()}, []time.Duration{0}, 0, nil, codes.Unavailable, policy.DoNotRetry},
		{"and an attempt without a header has its time", [][]step{{later(time.Minute, message())}, two}, []grpc.CallOption{safely()}, []time.Duration{0, 4100 * ms}, 2, io.EOF, codes.Unknown, policy.None},
		{"of which there is an end", [][]step{{later(time.Minute, message())}}, []grpc.CallOption{safely()}, []time.Duration{0, 4100 * ms, 8200 * ms}, 0, nil, codes.DeadlineExceeded, policy.AttemptsExhausted},
		{"an empty stream is a success", [][]step{{}}, []grpc.CallOption{safely()}, []time.Duration{0}, 0, io.EOF, codes.Unknown, policy.None},
		{"an answer is not repeated", [][]step{{ends(codes.NotFound)}}, []grpc.CallOption{safely()}, []time.Duration{0}, 0, nil, codes.NotFound, policy.NotRetryable},
	} {
		t.Run(c.fact, func(t *testing.T) {
			inRoom(t, plain(), func(r *room) {
				r.streams(c.plays...)
				var finished int
				n, err := r.listen(append(c.opts, grpc.OnFinish(func(error) { finished++ }))...)
				r.wantAt(c.came...)
				if n != c.got || c.end != nil && err != c.end || status.Code(err) != c.code || gabion.ReasonOf(err) != c.reason {
					t.Errorf("%d messages and %v", n, err)
				}
				if finished != 1 {
					t.Errorf("the call ended %d times", finished)
				}
				for i, s := range r.seen() {
					if got := s.md.Get("grpc-previous-rpc-attempts"); (i == 0) != (got == nil) {
						t.Errorf("attempt %d says %q", i+1, got)
					}
				}
			})
		})
	}
}

func TestWhatAStreamShowsOfItsDependency(t *testing.T) {
	for _, c := range []struct {
		fact  string
		plays []step
		opens bool
	}{
		{"one that breaks midway is a failure", []step{message(), ends(codes.Unavailable)}, true},
		{"one that ends with an answer is no failure", []step{message(), ends(codes.NotFound)}, false},
		{"one that ends well is no failure", []step{message()}, false},
		{"one of an hour is not slow", []step{message(), later(20*time.Second, message()), later(20*time.Second, message()), later(20*time.Second, message())}, false},
	} {
		t.Run(c.fact, func(t *testing.T) {
			p := with(plain(), func(p *policy.Policy) { p.Breaker.Consecutive = 1 })
			inRoom(t, p, func(r *room) {
				r.answers(ok(""))
				r.streams(c.plays)
				_, _ = r.listen()
				s, err := r.stub.FullDuplexCall(r.Context())
				if c.opens {
					if gabion.ReasonOf(err) != policy.BreakerOpen || status.Code(err) != codes.Unavailable {
						t.Errorf("the next stream: %v", err)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				if err := s.Send(&pb.StreamingOutputCallRequest{}); err != nil {
					t.Fatal(err)
				}
				for {
					if _, err = s.Recv(); err != nil {
						break
					}
				}
				if _, err = r.call(); gabion.ReasonOf(err) == policy.BreakerOpen {
					t.Error(err)
				}
			})
		})
	}
}

func (r *room) slots() int { return r.dep.Stats().Bulkhead.InUse }

func TestTheTimeOfAnOpenStream(t *testing.T) {
	for _, c := range []struct {
		fact   string
		change func(*policy.Policy)
		plays  []step
		got    int
		took   time.Duration
		reason gabion.Reason
		code   codes.Code
	}{
		{"is not the attempt's nor the call's", func(*policy.Policy) {}, []step{message(), later(25*time.Second, message())}, 2, 25 * time.Second, policy.None, codes.Unknown},
		{"silence is bounded while the caller waits", func(*policy.Policy) {}, []step{message(), later(time.Hour, message())}, 1, 30 * time.Second, policy.IdleTimeout, codes.DeadlineExceeded},
		{"or not, if the policy says so", func(p *policy.Policy) { p.Timeout.Idle = policy.Off }, []step{message(), later(time.Hour, message())}, 2, time.Hour, policy.None, codes.Unknown},
		{"the whole is bounded if the policy says so", func(p *policy.Policy) { p.Timeout.Body = 25 * time.Second }, []step{message(), later(20*time.Second, message()), later(20*time.Second, message())}, 2, 25 * time.Second, policy.BodyTimeout, codes.DeadlineExceeded},
	} {
		t.Run(c.fact, func(t *testing.T) {
			inRoom(t, with(plain(), c.change), func(r *room) {
				r.streams(c.plays)
				n, err := r.listen()
				if took := time.Since(r.start); n != c.got || took != c.took || gabion.ReasonOf(err) != c.reason || status.Code(err) != c.code {
					t.Errorf("%d messages and %v after %v", n, err, took)
				}
				if left := r.seen()[0].left; left != 0 {
					t.Errorf("the server was told to end after %v", left)
				}
			})
		})
	}
}

func TestTheServerOfAStreamIsToldTheCallersDeadline(t *testing.T) {
	for _, c := range []struct {
		trust policy.Trust
		left  time.Duration
	}{{policy.External, time.Minute}, {policy.Internal, time.Minute - 100*ms}} {
		inRoom(t, with(plain(), func(p *policy.Policy) { p.Trust = c.trust }), func(r *room) {
			r.streams([]step{message()})
			ctx, cancel := context.WithTimeout(r.Context(), time.Minute)
			defer cancel()
			s, err := r.stub.StreamingOutputCall(ctx, &pb.StreamingOutputCallRequest{})
			if err != nil {
				t.Fatal(err)
			}
			_, _ = drain(s)
			if left := r.seen()[0].left; left != c.left {
				t.Errorf("the server has %v", left)
			}
		})
	}
}

func TestAStreamThatIsLeftHoldsNothing(t *testing.T) {
	listens := func(r *room, ctx context.Context) error {
		s, err := r.stub.StreamingOutputCall(ctx, &pb.StreamingOutputCallRequest{})
		if err == nil {
			_, err = s.Recv()
		}
		return err
	}
	for _, c := range []struct {
		fact string
		use  func(*room, context.Context) error
	}{
		{"half read", listens},
		{"unread", func(r *room, ctx context.Context) error {
			_, err := r.stub.StreamingOutputCall(ctx, &pb.StreamingOutputCallRequest{})
			return err
		}},
		{"never sent", func(r *room, ctx context.Context) error {
			_, err := r.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, pb.TestService_StreamingOutputCall_FullMethodName)
			return err
		}},
		{"of many requests", func(r *room, ctx context.Context) error {
			s, err := r.stub.FullDuplexCall(ctx)
			if err == nil {
				err = s.Send(&pb.StreamingOutputCallRequest{})
			}
			return err
		}},
	} {
		t.Run(c.fact, func(t *testing.T) {
			inRoom(t, plain(), func(r *room) {
				r.streams([]step{message(), later(time.Hour, message())})
				ctx, cancel := context.WithCancel(r.Context())
				if err := c.use(r, ctx); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				if held := r.slots(); held != 1 && c.fact != "never sent" {
					t.Errorf("%d slots are held while it is open", held)
				}
				cancel()
				synctest.Wait()
				if held := r.slots(); held != 0 || failures(r) != 0 {
					t.Errorf("%d slots are held, %d failures", held, failures(r))
				}
			})
		})
	}
}

func TestWhoWaitsOnAStreamThatIsCanceled(t *testing.T) {
	inRoom(t, plain(), func(r *room) {
		r.streams([]step{later(time.Hour, message())})
		ctx, cancel := context.WithCancel(r.Context())
		s, err := r.stub.StreamingOutputCall(ctx, &pb.StreamingOutputCallRequest{})
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(time.Second, cancel)
		_, err = s.Recv()
		if status.Code(err) != codes.Canceled || gabion.ReasonOf(err) != policy.Canceled || time.Since(r.start) != time.Second {
			t.Error(err)
		}
	})
	inRoom(t, plain(), func(r *room) {
		ctx, cancel := context.WithCancel(r.Context())
		s, err := r.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, pb.TestService_StreamingOutputCall_FullMethodName)
		if err != nil {
			t.Fatal(err)
		}
		if s.Context() != ctx || s.Trailer() != nil {
			t.Error("a stream that was not sent has what only an open one has")
		}
		time.AfterFunc(time.Second, cancel)
		if err := s.RecvMsg(new(pb.StreamingOutputCallResponse)); status.Code(err) != codes.Canceled {
			t.Error(err)
		}
	})
}

func TestStreamsOfManyRequests(t *testing.T) {
	inRoom(t, plain(), func(r *room) {
		r.server.up = func(n int, s grpc.ClientStreamingServer[pb.StreamingInputCallRequest, pb.StreamingInputCallResponse]) error {
			for n := int32(0); ; n++ {
				if _, err := s.Recv(); err == io.EOF {
					return s.SendAndClose(&pb.StreamingInputCallResponse{AggregatedPayloadSize: n})
				} else if err != nil {
					return err
				}
			}
		}
		s, err := r.stub.StreamingInputCall(r.Context())
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if err := s.Send(&pb.StreamingInputCallRequest{}); err != nil {
				t.Fatal(err)
			}
		}
		if reply, err := s.CloseAndRecv(); err != nil || reply.GetAggregatedPayloadSize() != 3 {
			t.Errorf("%v, %v", reply, err)
		}
	})
	t.Run("are not repeated once they are open", func(t *testing.T) {
		inRoom(t, plain(), func(r *room) {
			r.streams([]step{ends(codes.Unavailable)})
			s, err := r.stub.FullDuplexCall(r.Context(), safely())
			if err != nil {
				t.Fatal(err)
			}
			_ = s.Send(&pb.StreamingOutputCallRequest{})
			if _, err := s.Recv(); status.Code(err) != codes.Unavailable {
				t.Error(err)
			}
			r.wantAt(0)
		})
	})
	t.Run("are opened again if they could not be", func(t *testing.T) {
		inRoomOf(t, plain(), nil, []grpc.DialOption{refusing()}, func(r *room) {
			_, err := r.stub.FullDuplexCall(r.Context())
			if e, _ := errors.AsType[*gabion.Error](err); e == nil || e.Attempts != 3 || e.Effect != policy.NoEffect {
				t.Error(err)
			}
		})
	})
}

// A panic below a stream reaches who reads it, and not the goroutine that opened it.
func TestAPanicBelowAStreamIsTheReaders(t *testing.T) {
	below := grpc.WithChainStreamInterceptor(func(context.Context, *grpc.StreamDesc, *grpc.ClientConn, string, grpc.Streamer, ...grpc.CallOption) (grpc.ClientStream, error) {
		panic("below")
	})
	inRoomOf(t, plain(), nil, []grpc.DialOption{below}, func(r *room) {
		defer func() {
			if v := recover(); v != "below" {
				t.Errorf("recovered %v", v)
			}
		}()
		_, _ = r.listen()
		t.Error("no panic")
	})
}

func TestOptionsOfAStreamAreFilledWithTheLastAttempt(t *testing.T) {
	inRoom(t, plain(), func(r *room) {
		r.streams([]step{ends(codes.Unavailable)}, []step{header(), message()})
		var header, trailer metadata.MD
		s, err := r.stub.StreamingOutputCall(r.Context(), &pb.StreamingOutputCallRequest{}, safely(), grpc.Header(&header), grpc.Trailer(&trailer))
		if err != nil {
			t.Fatal(err)
		}
		early, err := s.Header()
		if _, end := drain(s); end != io.EOF || err != nil || !slices.Equal(early.Get("sent"), []string{"early"}) || !slices.Equal(header.Get("sent"), []string{"early"}) {
			t.Errorf("%v and %v, %v, %v", early, header, err, end)
		}
	})
}

// ownStream is an interceptor's own stream, of which grpc-go knows nothing.
type ownStream struct {
	grpc.ClientStream
	messages int
}

func (*ownStream) SendMsg(any) error            { return nil }
func (*ownStream) CloseSend() error             { return nil }
func (*ownStream) Header() (metadata.MD, error) { return metadata.MD{}, nil }
func (o *ownStream) RecvMsg(any) error {
	if o.messages--; o.messages < 0 {
		return io.EOF
	}
	return nil
}

func TestAStreamOfAnInterceptorsOwnGivesItsSlotBack(t *testing.T) {
	below := grpc.WithChainStreamInterceptor(func(context.Context, *grpc.StreamDesc, *grpc.ClientConn, string, grpc.Streamer, ...grpc.CallOption) (grpc.ClientStream, error) {
		return &ownStream{messages: 1}, nil
	})
	inRoomOf(t, plain(), nil, []grpc.DialOption{below}, func(r *room) {
		if n, err := r.listen(); n != 1 || err != io.EOF || r.slots() != 0 {
			t.Errorf("%d messages, %v, %d slots are held", n, err, r.slots())
		}
		s, err := r.stub.StreamingInputCall(r.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.CloseAndRecv(); err != nil || r.slots() != 0 {
			t.Errorf("%v, %d slots are held", err, r.slots())
		}
	})
}

func TestAnAttemptThatFailedBeforeEndsNotTheStream(t *testing.T) {
	var first func(error)
	below := grpc.WithChainStreamInterceptor(func(ctx context.Context, d *grpc.StreamDesc, cc *grpc.ClientConn, method string, next grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		if first != nil {
			return next(ctx, d, cc, method, opts...)
		}
		for _, o := range opts {
			if o, ok := o.(grpc.OnFinishCallOption); ok {
				first = o.OnFinish
			}
		}
		return nil, status.Error(codes.Unavailable, "its stream ends later")
	})
	inRoomOf(t, plain(), nil, []grpc.DialOption{below}, func(r *room) {
		r.streams([]step{message(), later(time.Second, message())})
		s, err := r.stub.StreamingOutputCall(r.Context(), &pb.StreamingOutputCallRequest{}, safely())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Recv(); err != nil {
			t.Fatal(err)
		}
		first(errors.New("at last"))
		if n, err := drain(s); n != 1 || err != io.EOF {
			t.Errorf("%d messages and %v", n, err)
		}
	})
}

func TestAClassifierOfRepliesIsNotAskedAboutStreams(t *testing.T) {
	asked := gabion.WithClassify(func(any, error) policy.Outcome { panic("asked") })
	inRoomOf(t, plain(), nil, nil, func(r *room) {
		r.streams([]step{ends(codes.NotFound)})
		if _, err := r.listen(); status.Code(err) != codes.NotFound {
			t.Error(err)
		}
	}, asked)
}

// C110
func TestStreamsAreNeverHedged(t *testing.T) {
	inRoom(t, hedged(2, 100*ms), func(r *room) {
		r.streams([]step{later(time.Second, message())})
		if n, err := r.listen(safely()); n != 1 || err != io.EOF || len(r.seen()) != 1 {
			t.Errorf("%d messages and %v, %d attempts", n, err, len(r.seen()))
		}
	})
}

// Reading and sending may go on at once, and what is left over at the end must not.
func TestManyStreamsAtOnce(t *testing.T) {
	inRoom(t, with(plain(), func(p *policy.Policy) { p.Bulkhead.Limit, p.Bulkhead.Queue = 100, policy.Off }), func(r *room) {
		r.server.duplex = func(n int, s duplexStream) error {
			for {
				if _, err := s.Recv(); err != nil || s.Send(&pb.StreamingOutputCallResponse{}) != nil {
					return nil //nolint:nilerr // the client has ended it
				}
			}
		}
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				ctx, cancel := context.WithCancel(r.Context())
				defer cancel()
				s, err := r.stub.FullDuplexCall(ctx)
				if err != nil {
					t.Error(err)
					return
				}
				all.Go(func() {
					for range 20 {
						_ = s.Send(&pb.StreamingOutputCallRequest{})
					}
					_ = s.CloseSend()
				})
				for {
					if _, err := s.Recv(); err != nil {
						if err != io.EOF {
							t.Error(err)
						}
						return
					}
				}
			})
		}
		all.Wait()
		if r.slots() != 0 {
			t.Errorf("%d slots are held", r.slots())
		}
	})
}
