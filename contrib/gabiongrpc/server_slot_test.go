package gabiongrpc_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"github.com/gabion-go/gabion/contrib/gabiongrpc"
	"github.com/gabion-go/gabion/policy"
)

// pipe is a stream that goes nowhere.
type pipe struct {
	grpc.ServerStream
	ctx context.Context
}

func (p pipe) Context() context.Context { return p.ctx }

func TestEverySlotOfACallComesBack(t *testing.T) {
	released := func(ctx context.Context) error {
		if !gabiongrpc.ReleaseSlot(ctx) || gabiongrpc.ReleaseSlot(ctx) {
			return errors.New("not once")
		}
		return nil
	}
	for _, c := range []struct {
		fact string
		work func(context.Context) error
		slot bool // the method may give its slot back
	}{
		{"of a method that returns", func(context.Context) error { return nil }, false},
		{"of a method that fails", func(context.Context) error { return status.Error(codes.Internal, "no") }, false},
		{"of a method that panics", func(context.Context) error { panic("oh") }, false},
		{"of a method that leaves", func(context.Context) error { runtime.Goexit(); return nil }, false},
		{"of a method that gave it back", released, true},
		{"of a method that gave it back and panics", func(ctx context.Context) error { _ = released(ctx); panic("oh") }, true},
	} {
		for _, lasts := range []bool{false, true} {
			if c.slot && !lasts {
				continue
			}
			a := &gabiongrpc.Admission{Limit: 1, Queue: policy.Off, Lasts: func(context.Context, string) bool { return lasts }}
			call := map[string]func(){
				"unary": func() {
					_, _ = a.Unary(t.Context(), nil, &grpc.UnaryServerInfo{}, func(ctx context.Context, _ any) (any, error) { return nil, c.work(ctx) })
				},
				"stream": func() {
					_ = a.Stream(nil, pipe{ctx: t.Context()}, &grpc.StreamServerInfo{}, func(_ any, s grpc.ServerStream) error { return c.work(s.Context()) })
				},
			}
			for kind, f := range call {
				t.Run(c.fact+", "+kind, func(t *testing.T) {
					before := a.Stats().Admitted
					for range 3 {
						over := make(chan struct{})
						go func() {
							defer close(over)
							defer func() { _ = recover() }()
							f()
						}()
						<-over
					}
					if s := a.Stats(); s.Admitted != before+3 || s.InUse != 0 {
						t.Errorf("%+v", s)
					}
				})
			}
		}
	}
}

// A client that leaves its stream half read, or its unary call, gives the slot back: the
// method sees that its context has ended.
func TestAStreamThatIsAbandonedGivesItsSlotBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := admits(t, &gabiongrpc.Admission{Limit: 1, Queue: policy.Off})
		goroutines := runtime.NumGoroutine()
		h.stream = func(s pb.TestService_FullDuplexCallServer) error {
			for s.Send(&pb.StreamingOutputCallResponse{Payload: &pb.Payload{Body: make([]byte, 1<<10)}}) == nil {
			}
			return s.Context().Err()
		}
		h.work = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		for range 3 {
			ctx, cancel := context.WithCancel(t.Context())
			s, err := pb.NewTestServiceClient(h.conn).FullDuplexCall(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if _, err = s.Recv(); err != nil {
				t.Fatal(err)
			}
			if s := h.Stats(); s.InUse != 1 {
				t.Errorf("while it is open: %+v", s)
			}
			cancel()
			synctest.Wait()
			a := h.ask("unary")
			a.cancel()
			<-a.over
			synctest.Wait()
		}
		if s := h.Stats(); s.Admitted != 6 || s.InUse != 0 || s.Refused() != 0 {
			t.Errorf("%+v", s)
		}
		h.conn.Close()
		synctest.Wait()
		if n := runtime.NumGoroutine(); n > goroutines+2 {
			t.Errorf("%d goroutines, %d before", n, goroutines)
		}
	})
}

// A stream of an hour gives its slot back when it has begun, and goes on.
func TestAStreamOfCallsNeedsNoSlotForLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := admits(t, &gabiongrpc.Admission{Limit: 1, Queue: policy.Off})
		h.stream = func(s pb.TestService_FullDuplexCallServer) error {
			if !gabiongrpc.ReleaseSlot(s.Context()) {
				t.Error("there was no slot to give back")
			}
			<-h.hold
			return nil
		}
		h.work = func(ctx context.Context) error {
			if gabiongrpc.ReleaseSlot(ctx) {
				t.Error("a call that does not last gave its slot back")
			}
			return nil
		}
		for range 3 {
			if _, err := pb.NewTestServiceClient(h.conn).FullDuplexCall(t.Context()); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		for _, p := range []string{"low", "normal"} {
			if a := h.ask("work", gabiongrpc.MetadataPriority, p); a.status.Code() != codes.OK {
				t.Error(a.status)
			}
		}
		if s := h.Stats(); s.Admitted != 5 || s.InUse != 0 {
			t.Errorf("%+v", s)
		}
		h.close()
	})
}

// A refused stream is counted as a unary call is, and its method never runs.
func TestAStreamThatIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := admits(t, &gabiongrpc.Admission{Limit: 1, Queue: policy.Off})
		h.ask("a")
		s, err := pb.NewTestServiceClient(h.conn).FullDuplexCall(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.Recv()
		reason, after := details(status.Convert(err))
		trailer := s.Trailer()
		if status.Code(err) != codes.Unavailable || reason != "admission.gabion/QUEUE_FULL" || after == 0 ||
			len(trailer.Get(gabiongrpc.MetadataRefused)) != 1 || len(trailer.Get("grpc-retry-pushback-ms")) != 1 || len(h.begun) != 1 {
			t.Errorf("%v, %v, begun %v", err, trailer, h.begun)
		}
		h.close()
	})
}
