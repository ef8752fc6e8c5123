package gabiongrpc_test

import (
	"context"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/contrib/gabiongrpc"
	"github.com/gabion-go/gabion/policy"
)

// tripsAtOnce opens the breaker at the first failure.
func tripsAtOnce() policy.Policy {
	return with(plain(), func(p *policy.Policy) { p.Breaker.Consecutive = 1 })
}

func TestWhatTheCallerEndedIsNoFailureOfTheServer(t *testing.T) {
	for _, c := range []struct {
		fact string
		use  func(*testing.T, *room)
	}{
		{"the caller's deadline ends an open stream", func(t *testing.T, r *room) {
			r.streams([]step{message(), later(time.Hour, message())})
			ctx, cancel := context.WithTimeout(r.Context(), 5*time.Second)
			defer cancel()
			s, err := r.stub.StreamingOutputCall(ctx, &pb.StreamingOutputCallRequest{})
			if err != nil {
				t.Fatal(err)
			}
			if n, err := drain(s); n != 1 || status.Code(err) != codes.DeadlineExceeded {
				t.Errorf("%d messages, %v", n, err)
			}
		}},
		{"the connection is closed under a stream", func(t *testing.T, r *room) {
			r.streams([]step{message(), later(time.Hour, message())})
			s, err := r.stub.StreamingOutputCall(r.Context(), &pb.StreamingOutputCallRequest{})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.Recv(); err != nil {
				t.Fatal(err)
			}
			_ = r.conn.Close()
			if _, err := s.Recv(); err == nil {
				t.Error("no error")
			}
		}},
		{"the connection is closed under a call", func(t *testing.T, r *room) {
			r.answers(ok("").after(time.Second))
			go func() {
				time.Sleep(100 * ms)
				_ = r.conn.Close()
			}()
			if _, err := r.call(safely()); err == nil {
				t.Error("no error")
			}
			if time.Since(r.start) != 100*ms {
				t.Error(time.Since(r.start))
			}
		}},
		{"the connection was closed before", func(t *testing.T, r *room) {
			_ = r.conn.Close()
			if _, err := r.call(safely()); err == nil {
				t.Error("no error")
			}
		}},
		{"a request cannot be marshaled", func(t *testing.T, r *room) {
			r.answers(ok(""))
			_, err := r.stub.UnaryCall(r.Context(), &pb.SimpleRequest{OrcaPerQueryReport: &pb.TestOrcaReport{RequestCost: map[string]float64{"\xff": 1}}})
			if status.Code(err) != codes.Internal || gabion.EffectOf(err) != policy.NoEffect {
				t.Error(err)
			}
		}},
		{"nor that of a stream", func(t *testing.T, r *room) {
			r.streams([]step{message()})
			s, err := r.stub.StreamingOutputCall(r.Context(), &pb.StreamingOutputCallRequest{OrcaOobReport: nil, Payload: nil, ResponseStatus: &pb.EchoStatus{Message: "\xff"}})
			if err == nil {
				_, err = s.Recv()
			}
			if status.Code(err) != codes.Internal {
				t.Error(err)
			}
		}},
		{"nor a message of many", func(t *testing.T, r *room) {
			r.streams([]step{message()})
			s, err := r.stub.FullDuplexCall(r.Context())
			if err == nil {
				err = s.Send(&pb.StreamingOutputCallRequest{ResponseStatus: &pb.EchoStatus{Message: "\xff"}})
			}
			if status.Code(err) != codes.Internal {
				t.Error(err)
			}
		}},
	} {
		for _, trust := range []policy.Trust{policy.External, policy.Internal} {
			t.Run(c.fact+", "+trust.String(), func(t *testing.T) {
				inRoom(t, with(tripsAtOnce(), func(p *policy.Policy) { p.Trust = trust }), func(r *room) {
					c.use(t, r)
					synctest.Wait()
					_, err := gabion.Do(r.Context(), r.dep, func(context.Context) (int, error) { return 0, nil }, gabion.WithPartition(r.conn.Target()))
					if err != nil {
						t.Errorf("the next call: %v", err)
					}
				})
			})
		}
	}
}

// silentAddresses is a connection that does not say where it leads.
type silentAddresses struct{ net.Conn }

func (silentAddresses) LocalAddr() net.Addr  { return nil }
func (silentAddresses) RemoteAddr() net.Addr { return nil }

// noAuthInfo says nothing of whom it speaks with.
type noAuthInfo struct {
	credentials.TransportCredentials
}

func (n noAuthInfo) ClientHandshake(ctx context.Context, name string, c net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return silentAddresses{c}, nil, nil
}
func (n noAuthInfo) Clone() credentials.TransportCredentials { return n }

func TestAConnectionWithoutAddressesProvesNothing(t *testing.T) {
	var came atomic.Int32
	inRoomOf(t, plain(), nil, []grpc.DialOption{grpc.WithTransportCredentials(noAuthInfo{insecure.NewCredentials()})}, func(r *room) {
		r.server.unary = func(context.Context, int, *pb.SimpleRequest) (*pb.SimpleResponse, error) {
			came.Add(1)
			return nil, status.Error(codes.Unavailable, "no")
		}
		if _, err := r.call(); came.Load() != 1 {
			t.Errorf("the server did it %d times: %v", came.Load(), err)
		}
	})
}

func TestAStreamCanBeAskedAgainAfterItsEnd(t *testing.T) {
	for _, c := range []struct {
		fact string
		play []step
		code codes.Code
	}{
		{"that was well", []step{message()}, codes.OK},
		{"that was empty", nil, codes.OK},
		{"that was a failure", []step{message(), ends(codes.DataLoss)}, codes.DataLoss},
		{"that was one at once", []step{ends(codes.NotFound)}, codes.NotFound},
	} {
		t.Run(c.fact, func(t *testing.T) {
			inRoom(t, tripsAtOnce(), func(r *room) {
				r.streams(c.play)
				s, err := r.stub.StreamingOutputCall(r.Context(), &pb.StreamingOutputCallRequest{})
				if err != nil {
					t.Fatal(err)
				}
				_, end := drain(s)
				for range 3 {
					_, again := s.Recv()
					if status.Code(again) != status.Code(end) || (again == io.EOF) != (c.code == codes.OK) {
						t.Errorf("first %v, then %v", end, again)
					}
					_ = s.Trailer()
					_, _ = s.Header()
					_ = s.CloseSend()
				}
				time.Sleep(time.Hour)
			})
		})
	}
}

func TestACallThatCannotBeginIsOver(t *testing.T) {
	inRoom(t, plain(), func(r *room) {
		ctx := metadata.AppendToOutgoingContext(r.Context(), "idempotency-key", "")
		finished := 0
		over := grpc.OnFinish(func(err error) {
			if err != nil {
				finished++
			}
		})
		if _, err := r.stub.UnaryCall(ctx, &pb.SimpleRequest{}, over); err == nil || finished != 1 {
			t.Errorf("%v, over %d times", err, finished)
		}
		if _, err := r.stub.StreamingOutputCall(ctx, &pb.StreamingOutputCallRequest{}, over); err == nil || finished != 2 {
			t.Errorf("%v, over %d times", err, finished)
		}
	})
}

// With retries of grpc-go's own, that the last one was never opened proves nothing of those
// before it.
func TestRetriesOfGRPCsOwnLeaveNoProof(t *testing.T) {
	for _, c := range []struct {
		fact string
		opts func(*gabiongrpc.Client) []grpc.DialOption
		want policy.Effect
	}{
		{"where they are on", func(c *gabiongrpc.Client) []grpc.DialOption {
			return []grpc.DialOption{grpc.WithChainUnaryInterceptor(c.UnaryInterceptor())}
		}, policy.UnknownEffect},
		{"and where they are off, there are none", (*gabiongrpc.Client).DialOptions, policy.UnknownEffect},
	} {
		t.Run(c.fact, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := bufconn.Listen(1 << 20)
				s := grpc.NewServer()
				came := 0
				down := func() {}
				pb.RegisterTestServiceServer(s, &server{t: t, start: time.Now(), unary: func(context.Context, int, *pb.SimpleRequest) (*pb.SimpleResponse, error) {
					came++
					down()
					return nil, status.Error(codes.Unavailable, "done, and gone")
				}})
				served := make(chan struct{})
				go func() { defer close(served); _ = s.Serve(l) }()
				down = func() { go s.GracefulStop() }
				defer func() { s.Stop(); <-served }()
				client := &gabiongrpc.Client{Dependency: gabion.New("payments", with(plain(), func(p *policy.Policy) { p.Retry.Attempts = 1 }))}
				conn, err := grpc.NewClient("passthrough:///memory", append(c.opts(client),
					grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }),
					grpc.WithDefaultServiceConfig(`{"methodConfig":[{"name":[{}],"retryPolicy":{"maxAttempts":3,"initialBackoff":"1s","maxBackoff":"1s","backoffMultiplier":1,"retryableStatusCodes":["UNAVAILABLE"]}}]}`),
					grpc.WithTransportCredentials(insecure.NewCredentials()))...)
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				_, err = pb.NewTestServiceClient(conn).UnaryCall(t.Context(), &pb.SimpleRequest{})
				if came != 1 || gabion.EffectOf(err) != c.want {
					t.Errorf("came %d times: %v", came, err)
				}
			})
		})
	}
}

// legacy is a message as older generators make it.
type legacy struct {
	Username string `protobuf:"bytes,2,opt,name=username,proto3"`
}

func (m *legacy) Reset()         { *m = legacy{} }
func (m *legacy) String() string { return m.Username }
func (*legacy) ProtoMessage()    {}

func TestAHedgeHasMessagesOfTheTypesOfTheCall(t *testing.T) {
	types := func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, next grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		_, one := req.(*legacy)
		_, two := reply.(*legacy)
		if !one || !two {
			t.Errorf("attempt %d has a %T and a %T", gabion.AttemptNumber(ctx), req, reply)
		}
		return next(ctx, method, req, reply, cc, opts...)
	}
	inRoomOf(t, hedged(1, 100*ms), nil, []grpc.DialOption{grpc.WithChainUnaryInterceptor(types)}, func(r *room) {
		r.answers(ok("late").after(time.Second), ok("hedge"))
		reply := new(legacy)
		err := r.conn.Invoke(r.Context(), pb.TestService_UnaryCall_FullMethodName, new(legacy), reply, safely())
		if err != nil || reply.Username != "hedge" || len(r.seen()) != 2 {
			t.Errorf("%q, %v", reply.Username, err)
		}
	})
}
