package gabiongrpc

import (
	"context"
	"sync/atomic"

	"google.golang.org/grpc/stats"
)

// StatsHandler returns what counts for [Client.Hidden], to be given to grpc.WithStatsHandler.
// Calls cost a few allocations more with it.
func (c *Client) StatsHandler() stats.Handler { return hiddenCounter{&c.hidden} }

// Hidden returns how many times grpc-go sent an attempt again by itself, as far as a
// [Client.StatsHandler] saw it: without limit where nothing had left, and once where the server
// said that it had not looked at it (GOAWAY, REFUSED_STREAM). Neither can do anything twice,
// and neither takes an attempt or anything of the retry budget.
func (c *Client) Hidden() int64 { return c.hidden.Load() }

type hiddenCounter struct{ n *atomic.Int64 }

// TagRPC implements stats.Handler.
func (hiddenCounter) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

// HandleRPC implements stats.Handler.
func (h hiddenCounter) HandleRPC(_ context.Context, s stats.RPCStats) {
	if b, ok := s.(*stats.Begin); ok && b.IsTransparentRetryAttempt {
		h.n.Add(1)
	}
}

// TagConn implements stats.Handler.
func (hiddenCounter) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

// HandleConn implements stats.Handler.
func (hiddenCounter) HandleConn(context.Context, stats.ConnStats) {}
