package gabiongrpc_test

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/contrib/gabiongrpc"
	"github.com/gabion-go/gabion/policy"
)

func TestWhatARefusedCallIsTold(t *testing.T) {
	one := func() *gabiongrpc.Admission { return &gabiongrpc.Admission{Limit: 1, Queue: 1} }
	for _, c := range []struct {
		fact   string
		is     *gabiongrpc.Admission
		before func(*house)
		code   codes.Code
		reason string // as ErrorInfo has it
		name   string // as the trailer has it
		stop   bool
	}{
		{"a full queue has room again soon", one(), func(h *house) { h.ask("a"); h.ask("b") }, codes.Unavailable, "QUEUE_FULL", "queue-full", false},
		{"a full queue in an overload has not", &gabiongrpc.Admission{Limit: 1, Queue: 2}, func(h *house) { h.overloaded(); h.fill(2) }, codes.Unavailable, "QUEUE_FULL", "queue-full", true},
		{"its turn does not come in an overload", &gabiongrpc.Admission{Limit: 1, Queue: 2}, func(h *house) { h.overloaded() }, codes.Unavailable, "TOO_LONG", "too-long", true},
		{"no queue at all", &gabiongrpc.Admission{Limit: 1, Queue: policy.Off}, func(h *house) { h.ask("a") }, codes.Unavailable, "QUEUE_FULL", "queue-full", false},
		{"its turn does not come in an interval", one(), func(h *house) { h.ask("a") }, codes.Unavailable, "TOO_LONG", "too-long", false},
		{"a tenant with all that one may have", &gabiongrpc.Admission{Limit: 4, Queue: 4, Tenant: byName, TenantShare: 0.25}, func(h *house) { h.ask("a"); h.ask("b") }, codes.ResourceExhausted, "OVER_SHARE", "over-share", false},
	} {
		t.Run(c.fact, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := admits(t, c.is)
				c.before(h)
				began := len(h.begun)
				a := h.ask("refused")
				<-a.over
				reason, after := details(a.status)
				if a.status.Code() != c.code || reason != gabiongrpc.AdmissionDomain+"/"+c.reason || a.first(t, gabiongrpc.MetadataRefused) != c.name {
					t.Errorf("%v because of %q, %q", a.status, reason, a.trailer)
				}
				if after < time.Second || after > 2*time.Second || after%time.Millisecond != 0 {
					t.Errorf("retry in %v", after)
				}
				want := strconv.FormatInt(after.Milliseconds(), 10)
				if c.stop {
					want = "-1"
				}
				if got := a.first(t, "grpc-retry-pushback-ms"); got != want {
					t.Errorf("pushback %q, want %q", got, want)
				}
				if len(h.begun) != began {
					t.Errorf("%v was begun", h.begun[began:])
				}
				h.close()
			})
		})
	}
}

func TestWhichCallIsServedNext(t *testing.T) {
	low, high, none := []string{gabiongrpc.MetadataPriority, "low"}, []string{gabiongrpc.MetadataPriority, "high"}, []string{}
	of := func(tenant string) []string { return []string{"tenant", tenant} }
	for _, c := range []struct {
		fact string
		is   *gabiongrpc.Admission
		come [][]string
		want string // the names are 0, 1, …; 0 is served at once
	}{
		{"the first one", &gabiongrpc.Admission{Limit: 1}, [][]string{low, low, low}, "012"},
		{"a low priority is last", &gabiongrpc.Admission{Limit: 1}, [][]string{low, low, none}, "021"},
		{"a caller can't raise its own priority", &gabiongrpc.Admission{Limit: 1}, [][]string{low, none, high}, "012"},
		{"unless the operator lets them", &gabiongrpc.Admission{Limit: 1, TrustPriority: true}, [][]string{low, none, high}, "021"},
		{"an unknown priority is a normal one", &gabiongrpc.Admission{Limit: 1, TrustPriority: true}, [][]string{low, {gabiongrpc.MetadataPriority, "urgent!"}, low, none}, "0132"},
		{"of two priorities the lower counts", &gabiongrpc.Admission{Limit: 1, TrustPriority: true}, [][]string{low, append(high, low...), none}, "021"},
		{"the tenant with the fewest slots", &gabiongrpc.Admission{Limit: 1, Tenant: byName}, [][]string{of("a"), of("a"), of("b")}, "012"},
		{"the operator's own function", &gabiongrpc.Admission{Limit: 1, Priority: func(ctx context.Context, _ string) policy.Priority {
			n, _ := strconv.Atoi(one(ctx, "name"))
			return policy.Priority(n)
		}}, [][]string{low, low, low}, "012"},
	} {
		t.Run(c.fact, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := admits(t, c.is)
				for i, pairs := range c.come {
					h.ask(strconv.Itoa(i), pairs...)
				}
				got := ""
				for range c.come {
					h.next()
				}
				for _, name := range h.begun {
					got += name
				}
				if got != c.want {
					t.Errorf("served %s, want %s", got, c.want)
				}
			})
		})
	}
}

// The method learns the priority, and so do the calls that it makes.
func TestThePriorityGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := admits(t, &gabiongrpc.Admission{TrustPriority: true})
		var got []policy.Priority
		h.work = func(ctx context.Context) error { got = append(got, gabion.PriorityOf(ctx)); return nil }
		for _, p := range []string{"low", "normal", "high"} {
			<-h.ask("a", gabiongrpc.MetadataPriority, p).over
		}
		want := []policy.Priority{policy.PriorityLow, policy.PriorityNormal, policy.PriorityHigh}
		for i, p := range want {
			if len(got) != 3 || got[i] != p || gabion.PriorityOf(gabion.ContextWithPriority(t.Context(), p)) != p {
				t.Errorf("the method saw %v", got)
			}
		}
	})
}

// A call whose caller has left is not begun, and its place is free for others.
func TestAnAbandonedCallIsNotBegun(t *testing.T) {
	for _, c := range []struct {
		fact          string
		within        time.Duration
		gone, expired int64
	}{
		{"the caller is gone", 0, 1, 0},
		{"the deadline has passed", 10 * time.Millisecond, 0, 1},
	} {
		t.Run(c.fact, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := admits(t, &gabiongrpc.Admission{Limit: 1, Queue: 1})
				h.ask("first")
				ctx := t.Context()
				if c.within > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, c.within)
					defer cancel()
				}
				a := h.askIn(ctx, "in vain")
				if c.within == 0 {
					a.cancel()
				}
				<-a.over
				synctest.Wait()
				h.ask("third")
				h.next()
				if len(h.begun) != 2 || h.begun[1] != "third" {
					t.Errorf("begun: %v", h.begun)
				}
				h.close()
				if s := h.Stats(); s.Gone+s.Expired != 1 || s.Saved() != 1 || s.InUse != 0 || s.Queued != 0 || s.Refused() != 0 {
					t.Errorf("stats: %+v", s)
				}
			})
		})
	}
}

func TestHealthChecksOfGRPCTakeNoSlot(t *testing.T) {
	only := func(_ context.Context, method string) bool { return method == pb.TestService_EmptyCall_FullMethodName }
	for _, c := range []struct {
		fact         string
		exempt       func(context.Context, string) bool
		health, work codes.Code
	}{
		{"health checks are exempt", nil, codes.OK, codes.Unavailable},
		{"others, where the operator says so", only, codes.Unavailable, codes.OK},
	} {
		t.Run(c.fact, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := admits(t, &gabiongrpc.Admission{Limit: 1, Queue: policy.Off, Exempt: c.exempt})
				h.work = func(context.Context) error { return nil }
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if _, err := pb.NewTestServiceClient(h.conn).FullDuplexCall(ctx); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				_, err := healthpb.NewHealthClient(h.conn).Check(ctx, &healthpb.HealthCheckRequest{})
				_, other := pb.NewTestServiceClient(h.conn).EmptyCall(ctx, &pb.Empty{})
				if s := h.Stats(); status.Code(err) != c.health || status.Code(other) != c.work || s.Exempt != 1 {
					t.Errorf("health %v, work %v, %+v", err, other, s)
				}
				h.close()
			})
		})
	}
}

// A thousand calls at once on four slots: never more than four are worked on, each is
// answered, and everything comes back.
func TestAFloodOfCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := admits(t, &gabiongrpc.Admission{Limit: 4, Queue: 8})
		var mu sync.Mutex
		now, most, done := 0, 0, 0
		h.work = func(context.Context) error {
			mu.Lock()
			now++
			most = max(most, now)
			mu.Unlock()
			time.Sleep(10 * time.Millisecond)
			mu.Lock()
			now--
			done++
			mu.Unlock()
			return nil
		}
		var all sync.WaitGroup
		var ok, refused int64
		for range 1000 {
			all.Go(func() {
				_, err := pb.NewTestServiceClient(h.conn).EmptyCall(t.Context(), &pb.Empty{})
				mu.Lock()
				defer mu.Unlock()
				switch status.Code(err) {
				case codes.OK:
					ok++
				case codes.Unavailable:
					refused++
				default:
					t.Error(err)
				}
			})
		}
		all.Wait()
		s := h.Stats()
		if most != 4 || int64(done) != ok || ok+refused != 1000 || s.Admitted != ok || s.Refused() != refused || s.InUse != 0 || s.Queued != 0 {
			t.Errorf("%d at once, %d done, %d ok, %d refused, %+v", most, done, ok, refused, s)
		}
	})
}

// One tenant's flood takes no more than its share.
func TestAFloodOfOneTenantsCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := admits(t, &gabiongrpc.Admission{Limit: 4, Queue: 8, Tenant: byName, TenantShare: 0.5})
		for range 20 {
			h.ask("flood", "tenant", "a")
		}
		h.ask("other", "tenant", "b")
		if last := h.begun[len(h.begun)-1]; len(h.begun) != 3 || last != "other" {
			t.Errorf("begun: %v", h.begun)
		}
		h.close()
		if s := h.Stats(); s.OverShare != 14 || s.InUse != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// A limit that is learned follows what the server can take: 20 calls at once take 10 ms, and
// each further one makes all of them slower.
func TestALearnedLimitOfCallsMoves(t *testing.T) {
	if testing.Short() {
		t.Skip("long: a limit learns in real time")
	}
	synctest.Test(t, func(t *testing.T) {
		h := admits(t, &gabiongrpc.Admission{})
		var mu sync.Mutex
		now := 0
		h.work = func(context.Context) error {
			mu.Lock()
			now++
			slow := max(now-20, 0)
			mu.Unlock()
			time.Sleep(10*time.Millisecond + time.Duration(slow)*2*time.Millisecond)
			mu.Lock()
			now--
			mu.Unlock()
			return nil
		}
		if n := h.Stats().Limit; n != 100 {
			t.Fatalf("it begins with %d", n)
		}
		began := time.Now()
		var all sync.WaitGroup
		for range 120 {
			all.Go(func() {
				for time.Since(began) < 5*time.Second {
					_, _ = pb.NewTestServiceClient(h.conn).EmptyCall(t.Context(), &pb.Empty{})
				}
			})
		}
		all.Wait()
		if s := h.Stats(); s.Limit >= 70 || s.InUse != 0 || s.Queued != 0 {
			t.Errorf("%+v", s)
		}
	})
}

func TestAnAdmissionOfCallsThatCannotBeMeant(t *testing.T) {
	for _, c := range []struct {
		fact string
		is   *gabiongrpc.Admission
		code codes.Code
	}{
		{"the zero Admission", &gabiongrpc.Admission{}, codes.OK},
		{"a limit below nothing", &gabiongrpc.Admission{Limit: -7}, codes.Internal},
		{"a time without its unit", &gabiongrpc.Admission{Target: 5}, codes.Internal},
		{"a share without tenants", &gabiongrpc.Admission{TenantShare: 0.5}, codes.Internal},
	} {
		t.Run(c.fact, func(t *testing.T) {
			_, err := c.is.Unary(t.Context(), nil, &grpc.UnaryServerInfo{}, func(context.Context, any) (any, error) { return nil, nil })
			if status.Code(err) != c.code {
				t.Error(err)
			}
			c.is.Stats()
		})
	}
}

func TestACallThatNeedNotWaitCostsNoAllocation(t *testing.T) {
	a := &gabiongrpc.Admission{Limit: 10}
	info := &grpc.UnaryServerInfo{FullMethod: "/a.B/C"}
	handler := func(context.Context, any) (any, error) { return nil, nil }
	ctx := t.Context()
	if n := testing.AllocsPerRun(200, func() { _, _ = a.Unary(ctx, nil, info, handler) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
