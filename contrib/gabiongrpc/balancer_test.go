package gabiongrpc_test

import (
	"context"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/contrib/gabiongrpc"
	"github.com/gabion-go/gabion/gabiontest"
	"github.com/gabion-go/gabion/policy"
)

// fleet is some servers behind round_robin, in a bubble.
type fleet struct {
	*testing.T
	dep     *gabion.Dependency
	client  *gabiongrpc.Client
	dial    func(name string, first ...grpc.DialOption) *grpc.ClientConn
	stub    pb.TestServiceClient
	servers []*server
	stops   []func()
	names   *manual.Resolver // of the connection that was made last
	addrs   []resolver.Address
}

// serves lets each server answer by itself.
func (f *fleet) serves(by ...func(ctx context.Context) error) {
	for i, s := range f.servers {
		answer := by[min(i, len(by)-1)]
		s.unary = func(ctx context.Context, _ int, _ *pb.SimpleRequest) (*pb.SimpleResponse, error) {
			return &pb.SimpleResponse{}, answer(ctx)
		}
	}
}

// came is how many attempts each server got.
func (f *fleet) came() (all []int) {
	for _, s := range f.servers {
		all = append(all, len(s.seen()))
	}
	return all
}

func inFleet(t *testing.T, n int, p policy.Policy, run func(*fleet)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := &fleet{T: t, dep: gabion.New("payments", p)}
		f.client = &gabiongrpc.Client{Dependency: f.dep}
		listeners := map[string]*bufconn.Listener{}
		var addrs []resolver.Address
		var served sync.WaitGroup
		defer served.Wait()
		for i := range n {
			addr := string(rune('a'+i)) + ":443"
			l, s, own := bufconn.Listen(1<<20), grpc.NewServer(), &server{t: t, start: time.Now()}
			listeners[addr], addrs, f.servers = l, append(addrs, resolver.Address{Addr: addr}), append(f.servers, own)
			pb.RegisterTestServiceServer(s, own)
			served.Go(func() { _ = s.Serve(l) })
			f.stops = append(f.stops, s.Stop)
			defer s.Stop()
		}
		f.dial = func(name string, first ...grpc.DialOption) *grpc.ClientConn {
			names := manual.NewBuilderWithScheme("fleet")
			names.InitialState(resolver.State{Addresses: addrs})
			f.names, f.addrs = names, addrs
			conn, err := grpc.NewClient("fleet:///"+name, append(first, grpc.WithResolvers(names),
				grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) { return listeners[addr].DialContext(ctx) }),
				grpc.WithDefaultServiceConfig(`{"loadBalancingConfig": [{"round_robin": {}}]}`),
				grpc.WithTransportCredentials(insecure.NewCredentials()))...)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { conn.Close() })
			conn.Connect()
			synctest.Wait()
			return conn
		}
		conn := f.dial("payments", f.client.DialOptions()...)
		f.stub = pb.NewTestServiceClient(conn)
		run(f)
		synctest.Wait()
		gabiontest.NothingHeld(t, f.dep)
	})
}

// healthy answers after 10 ms and sometimes a little more.
func healthy(ctx context.Context) error {
	time.Sleep(10*ms + time.Duration(rand.Float64()*float64(10*ms)))
	return nil
}

func failing(context.Context) error { return status.Error(codes.Unavailable, "no") }

func hanging(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// openLoop makes calls at a rate, whatever becomes of them, and says what their callers saw.
func (f *fleet) openLoop(calls int, every time.Duration) (failed int, p99 time.Duration) {
	var all sync.WaitGroup
	var mu sync.Mutex
	var took []time.Duration
	for range calls {
		time.Sleep(time.Duration(rand.ExpFloat64() * float64(every)))
		all.Go(func() {
			began := time.Now()
			_, err := f.stub.UnaryCall(f.Context(), &pb.SimpleRequest{}, safely())
			mu.Lock()
			defer mu.Unlock()
			took = append(took, time.Since(began))
			if err != nil {
				failed++
			}
		})
	}
	all.Wait()
	slices.Sort(took)
	return failed, took[len(took)*99/100]
}

func TestOneBadServerOfSeveral(t *testing.T) {
	slowly := func(ctx context.Context) error { _ = healthy(ctx); return failing(ctx) }
	half := func(ctx context.Context) error {
		if rand.IntN(4) == 0 {
			return healthy(ctx)
		}
		return failing(ctx)
	}
	for i, c := range []struct {
		fact    string
		servers int
		bad     func(context.Context) error
		every   time.Duration
	}{
		{"fails at once", 3, failing, 5 * ms},
		{"fails at once, where few calls come", 3, failing, 50 * ms},
		{"fails as late as others answer", 3, slowly, 5 * ms},
		{"fails three of four", 3, half, 5 * ms},
		{"is one of two", 2, failing, 5 * ms},
		{"is one of ten", 10, failing, 5 * ms},
		{"hangs", 3, hanging, 5 * ms},
		{"hangs, where few calls come", 3, hanging, 50 * ms},
		{"hangs and is one of two", 2, hanging, 10 * ms},
	} {
		t.Run(c.fact, func(t *testing.T) {
			calls := 4000
			if testing.Short() {
				if calls = 1000; i > 0 {
					t.Skip("long: one of the cases shows it")
				}
			}
			var usual time.Duration
			inFleet(t, c.servers, policy.Policy{}, func(f *fleet) {
				f.serves(healthy)
				_, usual = f.openLoop(calls, c.every)
			})
			inFleet(t, c.servers, policy.Policy{}, func(f *fleet) {
				f.serves(c.bad, healthy)
				failed, p99 := f.openLoop(calls, c.every)
				bad := float64(f.came()[0]) / float64(calls)
				t.Logf("%d of %d failed, p99 %v where it is %v without, %.1f %% came to the bad one", failed, calls, p99, usual, 100*bad)
				if failed > calls/50 || p99 > 2*usual || bad > 0.05 {
					t.Error("too many")
				}
			})
		})
	}
}

// Calls that come close together, long calls beside short ones, and a server that is somewhat
// slower than others are no reason to leave one out, and more than half are never left out.
func TestWhoIsLeftOutBecauseItDoesNotAnswer(t *testing.T) {
	slower := func(by time.Duration) func(context.Context) error {
		return func(ctx context.Context) error { time.Sleep(by); return healthy(ctx) }
	}
	long := func(ctx context.Context) error {
		if rand.IntN(10) == 0 {
			time.Sleep(500 * ms)
		}
		return healthy(ctx)
	}
	pausing := func() func(context.Context) error {
		over := sync.OnceValue(func() time.Time { return time.Now().Add(200 * ms) })
		return func(ctx context.Context) error {
			time.Sleep(time.Until(over()))
			return healthy(ctx)
		}
	}
	for _, c := range []struct {
		fact  string
		every time.Duration
		by    []func(context.Context) error
		least float64 // share of the attempts that the first gets
		most  float64
	}{
		{"many calls", ms / 2, []func(context.Context) error{healthy}, 0.3, 0.37},
		{"some calls are long", 5 * ms, []func(context.Context) error{long}, 0.3, 0.37},
		{"one is slower", 5 * ms, []func(context.Context) error{slower(30 * ms), healthy}, 0.3, 0.37},
		{"one is a little slower, and many are out", ms, []func(context.Context) error{slower(120 * ms), slower(100 * ms)}, 0.3, 0.37},
		{"one is a little slower, and very many are out", ms / 20, []func(context.Context) error{slower(13 * ms), slower(10 * ms)}, 0.3, 0.37},
		{"one pauses for a moment", ms / 2, []func(context.Context) error{pausing(), healthy}, 0.3, 0.37},
		{"all hang", 5 * ms, []func(context.Context) error{hanging}, 0.3, 0.37},
		{"all but one hang", 5 * ms, []func(context.Context) error{healthy, hanging}, 0.4, 0.55},
	} {
		t.Run(c.fact, func(t *testing.T) {
			p := policy.Policy{Timeout: policy.Timeout{Attempt: 4 * time.Second}, Retry: policy.Retry{Attempts: 1}}
			inFleet(t, 3, p, func(f *fleet) {
				f.serves(c.by...)
				f.openLoop(600, c.every)
				all := 0
				for _, n := range f.came() {
					all += n
				}
				if share := float64(f.came()[0]) / float64(all); share < c.least || share > c.most {
					t.Errorf("%v: the first got %.2f", f.came(), share)
				}
			})
		})
	}
}

// C51
func TestWhereAllServersFailNoneIsLeftOut(t *testing.T) {
	p := with(plain(), func(p *policy.Policy) {
		p.Retry.Attempts, p.Breaker.Consecutive, p.Breaker.ConsecutiveFor = 1, 1<<20, policy.Off
	})
	p.Breaker.FailureRate = policy.Off
	inFleet(t, 3, p, func(f *fleet) {
		f.serves(failing)
		for range 120 {
			_, _ = f.stub.UnaryCall(f.Context(), &pb.SimpleRequest{})
		}
		for _, n := range f.came() {
			if n < 35 || n > 45 {
				t.Errorf("120 attempts: %v", f.came())
			}
		}
		if spread := f.client.SpreadToAll(); spread < 80 || spread > 96 {
			t.Errorf("%d were spread to all", spread)
		}
		f.serves(func(context.Context) error { return nil })
		time.Sleep(10 * time.Second)
		for range 30 {
			if _, err := f.stub.UnaryCall(f.Context(), &pb.SimpleRequest{}); err != nil {
				t.Error(err)
			}
		}
		if before := f.client.SpreadToAll(); before > 96 {
			t.Errorf("%d were spread to all, of which some after they work", before)
		}
	})
}

func TestARetryGoesToAnotherServer(t *testing.T) {
	for _, c := range []struct {
		fact     string
		answers  []func(context.Context) error
		servers  int
		took     time.Duration
		code     codes.Code
		attempts []int
	}{
		{"at once", []func(context.Context) error{failing, failing, func(context.Context) error { return nil }}, 3, 0, codes.OK, []int{1, 1, 1}},
		{"and waits when it was at all of them", []func(context.Context) error{failing}, 2, 100 * ms, codes.Unavailable, nil},
	} {
		t.Run(c.fact, func(t *testing.T) {
			inFleet(t, c.servers, plain(), func(f *fleet) {
				f.serves(c.answers...)
				for range 3 { // wherever round_robin stands
					began := time.Now()
					_, err := f.stub.UnaryCall(f.Context(), &pb.SimpleRequest{}, safely())
					if took := time.Since(began); took != c.took || status.Code(err) != c.code {
						t.Errorf("%v after %v", err, took)
					}
				}
				if all := f.client.SpreadToAll(); all != 0 {
					t.Errorf("%d attempts count as spread to all", all)
				}
				if c.attempts != nil {
					for i, n := range f.came() {
						if n > 3 {
							t.Errorf("server %d got %d attempts of three calls", i, n)
						}
					}
				}
			})
		})
	}
}

func TestAHedgeGoesToAnotherServer(t *testing.T) {
	inFleet(t, 2, hedged(1, 50*ms), func(f *fleet) {
		f.serves(hanging, func(context.Context) error { return nil })
		for range 4 {
			var other sync.WaitGroup
			other.Go(func() { // it takes the turn that the hedge would have
				time.Sleep(25 * ms)
				_, _ = f.stub.UnaryCall(f.Context(), &pb.SimpleRequest{}, safely())
			})
			began := time.Now()
			if _, err := f.stub.UnaryCall(f.Context(), &pb.SimpleRequest{}, safely()); err != nil || time.Since(began) > 50*ms {
				t.Errorf("%v after %v", err, time.Since(began))
			}
			other.Wait()
		}
	})
}

// A stream of many requests is open before its server has said anything: only its end counts.
func TestAStreamTellsItsAddressHowItEnded(t *testing.T) {
	inFleet(t, 2, with(plain(), func(p *policy.Policy) { p.Breaker.FailureRate, p.Breaker.Consecutive = policy.Off, policy.Off }), func(f *fleet) {
		for i, s := range f.servers {
			s.duplex = func(_ int, st grpc.BidiStreamingServer[pb.StreamingOutputCallRequest, pb.StreamingOutputCallResponse]) error {
				if i == 0 {
					return failing(st.Context())
				}
				return nil
			}
		}
		for range 60 {
			s, err := f.stub.FullDuplexCall(f.Context())
			if err != nil {
				t.Fatal(err)
			}
			_, _ = s.Recv()
		}
		if came := f.came(); came[0] != 8 || came[1] != 52 {
			t.Errorf("%v", came)
		}
	})
}

// Calls of a connection without a Client are balanced as ever, even in the context of an
// attempt, as those of an interceptor are.
func TestOtherCallsAreBalancedAsEver(t *testing.T) {
	inFleet(t, 2, plain(), func(f *fleet) {
		f.serves(failing, func(context.Context) error { return nil })
		for range 30 {
			_, _ = f.stub.UnaryCall(f.Context(), &pb.SimpleRequest{}, safely())
		}
		before := f.came()
		if before[0] > 8 {
			t.Errorf("the bad one is not left out: %v", before)
		}
		other := f.dial("payments")
		for range 40 {
			_, _ = pb.NewTestServiceClient(other).UnaryCall(f.Context(), &pb.SimpleRequest{})
		}
		if came := f.came(); came[0] != before[0]+20 {
			t.Errorf("%v, then %v", before, came)
		}
	})
}

// An interceptor may use an attempt's context for a call of its own.
func TestWhatAnInterceptorCallsIsNoAttempt(t *testing.T) {
	inFleet(t, 2, plain(), func(f *fleet) {
		f.serves(failing, func(context.Context) error { return nil })
		mirror := pb.NewTestServiceClient(f.dial("mirror"))
		mirrors := grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, next grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			err := next(ctx, method, req, reply, conn, opts...)
			_, _ = mirror.UnaryCall(ctx, &pb.SimpleRequest{})
			return err
		})
		stub := pb.NewTestServiceClient(f.dial("payments", append(f.client.DialOptions(), mirrors)...))
		for range 60 {
			if _, err := stub.UnaryCall(f.Context(), &pb.SimpleRequest{}, safely()); err != nil {
				t.Error(err)
			}
		}
		if came := f.came(); came[0] != 8+34 || came[1] != 60+34 { // 68 attempts, of which each has a mirror
			t.Errorf("%v", came)
		}
	})
}

// Who is let in to see whether an address works again, and panics, lets another do so.
func TestAPanicGivesItsTurnBack(t *testing.T) {
	inFleet(t, 2, plain(), func(f *fleet) {
		panics := false
		below := grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, next grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			err := next(ctx, method, req, reply, conn, opts...)
			if panics {
				panic("x")
			}
			return err
		})
		stub := pb.NewTestServiceClient(f.dial("payments", append(f.client.DialOptions(), below)...))
		call := func() {
			defer func() { _ = recover() }()
			_, _ = stub.UnaryCall(f.Context(), &pb.SimpleRequest{}, safely())
		}
		f.serves(failing, func(context.Context) error { return nil })
		for range 20 {
			call()
		}
		time.Sleep(3 * time.Second)
		f.serves(func(context.Context) error { return nil })
		panics = true
		call()
		call()
		panics = false
		before := f.came()
		for range 20 {
			call()
		}
		if after := f.came(); after[0] != before[0]+10 {
			t.Errorf("%v, then %v", before, after)
		}
	})
}

func TestARetryWaitsWhereTheOthersAreDown(t *testing.T) {
	inFleet(t, 3, plain(), func(f *fleet) {
		f.serves(failing)
		f.stops[1]()
		synctest.Wait()
		began := time.Now() // two attempts at once, and the third waits
		if _, err := f.stub.UnaryCall(f.Context(), &pb.SimpleRequest{}, safely()); err == nil || time.Since(began) != 100*ms {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

func TestARetryWaitsWhereTheOthersAreLeftOut(t *testing.T) {
	inFleet(t, 2, plain(), func(f *fleet) {
		f.serves(failing, func(context.Context) error { return nil })
		for range 20 {
			_, _ = f.stub.UnaryCall(f.Context(), &pb.SimpleRequest{}, safely())
		}
		f.serves(failing)
		began := time.Now()
		if _, err := f.stub.UnaryCall(f.Context(), &pb.SimpleRequest{}, safely()); err == nil || time.Since(began) != 200*ms {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}
