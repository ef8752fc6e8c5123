package grpc

import (
	"fmt"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/grpc/codes"
)

// What each code means: how many of three attempts are made, and how many failures the
// breaker counts. Connect's unary calls have an HTTP status for each code, which is read as of
// any other server: docs/grpc.md names the codes for which that differs.
func TestWhatEachCodeMeans(t *testing.T) {
	type meaning struct{ calls, failures int }
	for _, c := range []struct {
		code             codes.Code
		rpc, connectHTTP meaning
	}{
		{codes.Canceled, meaning{1, 1}, meaning{1, 0}},
		{codes.Unknown, meaning{1, 1}, meaning{2, 2}},
		{codes.InvalidArgument, meaning{1, 0}, meaning{1, 0}},
		{codes.DeadlineExceeded, meaning{1, 1}, meaning{3, 3}},
		{codes.NotFound, meaning{1, 0}, meaning{1, 0}},
		{codes.AlreadyExists, meaning{1, 0}, meaning{1, 0}},
		{codes.PermissionDenied, meaning{1, 0}, meaning{1, 0}},
		{codes.ResourceExhausted, meaning{1, 0}, meaning{3, 0}},
		{codes.FailedPrecondition, meaning{1, 0}, meaning{1, 0}},
		{codes.Aborted, meaning{3, 0}, meaning{1, 0}},
		{codes.OutOfRange, meaning{1, 0}, meaning{1, 0}},
		{codes.Unimplemented, meaning{1, 0}, meaning{1, 0}},
		{codes.Internal, meaning{1, 1}, meaning{2, 2}},
		{codes.Unavailable, meaning{3, 3}, meaning{3, 3}},
		{codes.DataLoss, meaning{1, 1}, meaning{2, 2}},
		{codes.Unauthenticated, meaning{1, 0}, meaning{1, 0}},
	} {
		s := new(service)
		url := serveConnect(t, s.asConnect())
		for name, options := range protocols {
			for _, streams := range []bool{false, true} {
				want := c.rpc
				if name == "Connect" && !streams {
					want = c.connectHTTP
				}
				t.Run(fmt.Sprintf("%v, %s, stream %v", c.code, name, streams), func(t *testing.T) {
					s.calls.Store(0)
					s.code.Store(uint32(c.code))
					hc, d := through(t, eager(3))
					if got := call(t, hc, url, streams, options); got != connect.Code(c.code) {
						t.Errorf("the client got %v", got)
					}
					if got := (meaning{int(s.calls.Load()), int(failures(d))}); got != want {
						t.Errorf("%+v, want %+v", got, want)
					}
				})
			}
		}
	}
}
