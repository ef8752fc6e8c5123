package gabiongrpc

import (
	"context"
	"fmt"
	"log/slog"
	"reflect"

	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	"github.com/gabion-go/gabion/internal/adapter"
)

// StatsHandler returns what counts for [Client.Hidden], to be given to grpc.WithStatsHandler.
// Calls cost a few allocations more with it.
func (c *Client) StatsHandler() stats.Handler { return hiddenCounter{c} }

// Hidden returns how many times grpc-go sent an attempt again by itself, as far as a
// [Client.StatsHandler] saw it: without limit where nothing had left, and once where the server
// said that it had not looked at it (GOAWAY, REFUSED_STREAM). Neither can do anything twice,
// and neither takes an attempt or anything of the retry budget.
//
// On a connection without grpc.WithDisableRetry it also counts the retries of a service config,
// which multiply with those of the policy. Each of them is an event [policy.KindResent], and is
// charged to the retry budget as far as that has any left.
func (c *Client) Hidden() int64 { return c.hidden.Load() }

type hiddenCounter struct{ client *Client }

// TagRPC implements stats.Handler.
func (hiddenCounter) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

// HandleRPC implements stats.Handler.
func (h hiddenCounter) HandleRPC(ctx context.Context, s stats.RPCStats) {
	b, ok := s.(*stats.Begin)
	if !ok {
		return
	}
	if b.IsTransparentRetryAttempt {
		h.client.hidden.Add(1)
		return
	}
	a, _ := ctx.Value(attemptKey{}).(*attempt)
	if a != nil && a.of.client == h.client && a.begun.Swap(true) {
		h.client.hidden.Add(1)
		adapter.Of(h.client.Dependency).Resent(a.of.ctx, 1)
	}
}

// TagConn implements stats.Handler.
func (hiddenCounter) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

// HandleConn implements stats.Handler.
func (hiddenCounter) HandleConn(context.Context, stats.ConnStats) {}

// multiplies warns once if grpc-go repeats by itself what the policy repeats, too. An attempt
// has failed, so no call that succeeds pays for the look.
func (c *call) multiplies(err error) {
	if c.conn == nil || c.policy.Retry.Attempts < 2 && c.policy.Hedge.Max == 0 || c.client.warned.Load() {
		return
	}
	code, config := status.Code(err), c.conn.GetMethodConfig(c.method).RetryPolicy
	if config == nil || !config.RetryableStatusCodes[code] || retriesOff(c.conn) || c.client.warned.Swap(true) {
		return
	}
	slog.Default().Warn(fmt.Sprintf("gabiongrpc: the service config lets grpc-go send each attempt up to %d times by itself, which multiplies with the policy's attempts: use Client.DialOptions, or grpc.WithDisableRetry", config.MaxAttempts),
		"dependency", c.client.Dependency.Name(), "target", c.conn.Target(), "method", c.method, "code", code.String())
}

// retriesOff reports whether a connection has grpc.WithDisableRetry. grpc-go (v1.85.0) does not
// tell, so it is read from the connection's own fields, which do not change. If another version
// names them otherwise, retries count as on.
func retriesOff(conn *grpc.ClientConn) bool {
	options := reflect.ValueOf(conn).Elem().FieldByName("dopts")
	if options.Kind() != reflect.Struct {
		return false
	}
	off := options.FieldByName("disableRetry")
	return off.Kind() == reflect.Bool && off.Bool()
}
