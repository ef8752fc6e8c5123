package gabiongrpc_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/contrib/gabiongrpc"
	"github.com/gabion-go/gabion/policy"
)

func ExampleServer() {
	server := grpc.NewServer(gabiongrpc.Server{
		Deadline:  &gabiongrpc.Deadline{Margin: 10 * time.Millisecond},
		Admission: &gabiongrpc.Admission{Limit: 64},
	}.Options()...)
	fmt.Println(len(server.GetServiceInfo()), "services so far")
	// Output: 0 services so far
}

// At most one call at a time here, and none that waits: the second one is refused before
// any work.
func ExampleAdmission() {
	a := &gabiongrpc.Admission{Limit: 1, Queue: policy.Off}
	info := &grpc.UnaryServerInfo{FullMethod: "/bank.Accounts/Balance"}
	_, _ = a.Unary(context.Background(), "first", info, func(ctx context.Context, _ any) (any, error) {
		_, err := a.Unary(ctx, "second", info, nil)
		fmt.Println(err)
		return "done", nil
	})
	fmt.Println(a.Stats().Admitted, a.Stats().Refused())
	// Output:
	// rpc error: code = Unavailable desc = the server has no room for more calls
	// 1 1
}

func ExampleDeadline() {
	d := &gabiongrpc.Deadline{Margin: 10 * time.Millisecond}
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	_, err := d.Unary(ctx, nil, &grpc.UnaryServerInfo{}, nil)
	fmt.Println(err, d.Saved())
	// Output: rpc error: code = DeadlineExceeded desc = the call's deadline passed before it was begun 1
}

// A method returns the error of its own call as it is.
func ExampleUnaryErrors() {
	stock := gabion.New("stock", policy.Policy{Safe: true, Retry: policy.Retry{Attempts: 1}})
	method := func(ctx context.Context, _ any) (any, error) {
		return gabion.Do(ctx, stock, func(context.Context) (any, error) { return nil, errors.New("no such shelf") })
	}
	_, err := gabiongrpc.UnaryErrors(context.Background(), nil, &grpc.UnaryServerInfo{}, method)
	fmt.Println(status.Code(err))
	// Output: Unknown
}

func ExampleStatus() {
	err := &gabion.Error{Dependency: "stock", Reason: policy.BreakerOpen, RetryAfter: time.Second, Err: io.EOF}
	fmt.Println(status.Code(gabiongrpc.Status(err)))
	// Output: Unavailable
}

// A stream gives its slot back when it has begun, so that others are let in.
func ExampleReleaseSlot() {
	a := &gabiongrpc.Admission{Limit: 1, Lasts: func(context.Context, string) bool { return true }}
	info := &grpc.UnaryServerInfo{FullMethod: "/bank.Accounts/Watch"}
	_, _ = a.Unary(context.Background(), nil, info, func(ctx context.Context, _ any) (any, error) {
		fmt.Println("given back:", gabiongrpc.ReleaseSlot(ctx), a.Stats().InUse)
		return nil, nil
	})
	// Output: given back: true 0
}

func ExampleHealthCheck() {
	a := &gabiongrpc.Admission{Exempt: func(ctx context.Context, method string) bool {
		return gabiongrpc.HealthCheck(ctx, method) || method == "/bank.Admin/Dump"
	}}
	fmt.Println(a.Exempt(context.Background(), "/grpc.health.v1.Health/Check"), a.Exempt(context.Background(), "/bank.Accounts/Balance"))
	// Output: true false
}
