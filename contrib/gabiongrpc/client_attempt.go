package gabiongrpc

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/classify"
	"github.com/gabion-go/gabion/gabionhttp"
	"github.com/gabion-go/gabion/policy"
)

// attempt is one attempt: the context in which it goes, and what grpc-go tells of it.
type attempt struct {
	context.Context // gabion's, with the metadata of the attempt

	of      *call
	conn    *grpc.ClientConn // where it goes; nil if that is no ClientConn of grpc-go's
	began   time.Time
	until   time.Time // what the server gets as deadline, if not the context's own
	tells   bool      // until counts; a zero one means no deadline
	header  metadata.MD
	trailer metadata.MD
	peer    peer.Peer
	begun   atomic.Bool // grpc-go has sent it, as far as a StatsHandler saw it
	ended   atomic.Bool // grpc-go has ended it, so that peer says whether it opened a stream
	reply   any
	kept    kept              // whether grpc-go sent the request
	sending atomic.Int32      // how many are in SendMsg of a stream of many requests
	stream  *streamCall       // nil for a unary call
	opens   grpc.ClientStream // what a stream's attempt has opened
	last    error             // with which that ended before any message came
	left    bool              // grpc-go has ended the stream; guarded by the mutex of the call
	why     error             // with this
	visit   visit
	back    bool // the attempt came back, so it will be judged
	options [8]grpc.CallOption
}

// Deadline implements context.Context: what grpc-go writes as grpc-timeout. A unary attempt
// ends at the deadline of gabion's context, which may be a margin later. A stream's attempt
// ends there too if it is not open by then, but the stream itself has only the caller's.
func (a *attempt) Deadline() (time.Time, bool) {
	if a.tells {
		return a.until, !a.until.IsZero()
	}
	return a.Context.Deadline()
}

// noPeer is the address of a peer that grpc-go has not written yet. What it writes can have no address
// at all, since connections and credentials may be a user's own.
var noPeer net.Addr = new(net.UnixAddr)

// opened reports whether grpc-go opened a stream for the attempt, so that something may
// have been sent.
func (a *attempt) opened() bool { return a.peer.Addr != noPeer }

// unsent reports whether grpc-go itself ended the attempt without having opened a stream.
// Where something else answered, as an interceptor can, nothing is known.
func (a *attempt) unsent() bool { return a.ended.Load() && !a.opened() }

// errNoTime says that a hop has no time to pass on. It is permanent, since another
// attempt has no more, and says nothing about the dependency.
var errNoTime = classify.Permanent(classify.NotSent(
	fmt.Errorf("gabiongrpc: no time is left for the next hop: %w", context.DeadlineExceeded)))

// prepare makes a ready to be sent in ctx, which is gabion's.
func (a *attempt) prepare(ctx context.Context, c *call) error {
	a.of, a.conn, a.began, a.peer.Addr = c, c.conn, time.Now(), noPeer
	number := gabion.AttemptNumber(ctx)
	key := gabion.Key(ctx)
	if c.strays {
		ctx = withoutStrays(ctx)
	}
	if number > 1 {
		ctx = metadata.AppendToOutgoingContext(ctx, MetadataAttempts, strconv.Itoa(number-1))
	}
	if key != "" && len(metadata.ValueFromOutgoingContext(ctx, MetadataKey)) == 0 {
		ctx = metadata.AppendToOutgoingContext(ctx, MetadataKey, key)
	}
	ours := c.policy.Trust == policy.Internal
	if ours && c.priority != policy.PriorityNormal {
		ctx = metadata.AppendToOutgoingContext(ctx, MetadataPriority, priorityText(c.priority))
	}
	a.Context = ctx
	return a.tell(ours)
}

// tell decides which deadline the server gets.
func (a *attempt) tell(ours bool) error {
	from := a.Context
	if a.stream != nil {
		from, a.tells = a.of.ctx, true
	}
	at, ok := from.Deadline()
	switch {
	case !ok:
		return nil
	case !ours:
		a.until = at
		return nil
	}
	left := gabionhttp.NextHop(0, at.Sub(a.began), max(a.of.policy.Timeout.HopMargin, 0))
	if left <= 0 {
		return errNoTime
	}
	a.until, a.tells = a.began.Add(left), true
	return nil
}

func priorityText(p policy.Priority) string {
	if p > policy.PriorityNormal {
		return "high"
	}
	return "low"
}

// withoutStrays drops what an earlier hop wrote of itself, as a proxy passes it on.
func withoutStrays(ctx context.Context) context.Context {
	md, _ := metadata.FromOutgoingContext(ctx) // a copy
	delete(md, MetadataAttempts)
	delete(md, MetadataPriority)
	return metadata.NewOutgoingContext(ctx, md)
}

// callOptions are those of the attempt: the caller's, and what tells how it went.
func (a *attempt) callOptions() []grpc.CallOption {
	opts := append(a.options[:0], a.of.rest...)
	if len(a.of.wants.headers) > 0 {
		opts = append(opts, grpc.Header(&a.header))
	}
	return append(opts, grpc.Trailer(&a.trailer), grpc.Peer(&a.peer), grpc.OnFinish(a.finished))
}

// finished is called by grpc-go when the attempt is over.
func (a *attempt) finished(err error) {
	a.ended.Store(true)
	if err != nil {
		a.of.multiplies(err)
	}
	if a.stream != nil {
		a.stream.left(a, err)
	}
}
