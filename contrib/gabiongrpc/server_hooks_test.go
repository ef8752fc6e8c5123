package gabiongrpc_test

import (
	"context"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gabion-go/gabion/contrib/gabiongrpc"
	"github.com/gabion-go/gabion/policy"
)

// strange is a context of a user's own.
type strange struct {
	context.Context
	value func()
}

func (s strange) Value(any) any { s.value(); return nil }

var method = &grpc.UnaryServerInfo{FullMethod: "/a.Service/Method"}

// A hook of the user's is asked when there is no slot to lose yet.
func TestAHookThatPanicsCostsNoSlot(t *testing.T) {
	for _, end := range []struct {
		fact string
		call func()
	}{{"panics", func() { panic("a hook") }}, {"leaves", runtime.Goexit}, {"returns", func() {}}} {
		for _, c := range []struct {
			fact string
			set  func(*gabiongrpc.Admission)
			ctx  context.Context
		}{
			{"Lasts", func(a *gabiongrpc.Admission) {
				a.Lasts = func(context.Context, string) bool { end.call(); return true }
			}, t.Context()},
			{"Tenant", func(a *gabiongrpc.Admission) {
				a.Tenant = func(context.Context, string) string { end.call(); return "" }
			}, t.Context()},
			{"Priority", func(a *gabiongrpc.Admission) {
				a.Priority = func(context.Context, string) policy.Priority { end.call(); return 0 }
			}, t.Context()},
			{"Exempt", func(a *gabiongrpc.Admission) {
				a.Exempt = func(context.Context, string) bool { end.call(); return false }
			}, t.Context()},
			{"a value of the context", func(a *gabiongrpc.Admission) {
				a.Priority = func(context.Context, string) policy.Priority { return policy.PriorityHigh }
			}, strange{t.Context(), end.call}},
			{"a value of the context of a call that lasts", func(a *gabiongrpc.Admission) {
				a.Priority = func(context.Context, string) policy.Priority { return policy.PriorityHigh }
				a.Lasts = func(context.Context, string) bool { return true }
			}, strange{t.Context(), end.call}},
		} {
			t.Run(c.fact+" "+end.fact, func(t *testing.T) {
				a := &gabiongrpc.Admission{Limit: 1, Queue: policy.Off}
				c.set(a)
				ask := end.call
				defer func() { end.call = ask }()
				end.call = func() {
					if s := a.Stats(); s.InUse != 0 && !strings.HasPrefix(c.fact, "a value") {
						t.Error("it is asked with a slot in use")
					}
					ask()
				}
				for range 3 {
					over, returned := make(chan struct{}), false
					go func() {
						defer close(over)
						defer func() { _ = recover() }()
						_, _ = a.Unary(c.ctx, nil, method, func(context.Context, any) (any, error) { return nil, nil })
						returned = true
					}()
					<-over
					if s := a.Stats(); returned != (end.fact == "returns") || s.InUse != 0 {
						t.Fatalf("returned %v, %+v", returned, s)
					}
				}
			})
		}
	}
}

// A call with less time than the work takes is refused at once, and this caller only.
func TestACallThatHasTooLittleTimeIsNotBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &gabiongrpc.Admission{}
		begun := 0
		ask := func(left time.Duration) error {
			ctx, cancel := context.WithTimeout(context.Background(), left)
			defer cancel()
			_, err := a.Unary(ctx, nil, method, func(context.Context, any) (any, error) {
				begun++
				time.Sleep(20 * time.Millisecond)
				return nil, nil
			})
			return err
		}
		for range 30 {
			if err := ask(time.Second); err != nil {
				t.Fatal(err)
			}
		}
		_ = ask(10 * time.Millisecond) // admitted as a trial: one call in a number, or one each second
		begun = 0
		s, came := status.Convert(ask(10*time.Millisecond)), time.Now()
		if reason, after := details(s); s.Code() != codes.ResourceExhausted || reason != gabiongrpc.AdmissionDomain+"/DEADLINE_SHORT" || after < time.Second {
			t.Errorf("%v because of %q, again after %v", s, reason, after)
		}
		if x := a.Stats(); begun != 0 || time.Since(came) != 0 || x.DeadlineShort != 1 || x.Saved() != 1 || x.Refused() != 0 {
			t.Errorf("%d begun after %v, %+v", begun, time.Since(came), x)
		}
	})
}
