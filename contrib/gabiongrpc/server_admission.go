package gabiongrpc

import (
	"cmp"
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/internal/admission"
	"github.com/gabion-go/gabion/internal/serving"
	"github.com/gabion-go/gabion/policy"
)

// Admission lets as many calls in at once as the server can work on. The others wait for
// their turn in a short queue. What can't be done in time is refused at once and before any
// work, so that what was begun gets finished.
//
// Its methods Unary and Stream are interceptors, which share the slots. [Server] puts them
// where they belong:
//
//	server := grpc.NewServer(gabiongrpc.Server{Admission: &gabiongrpc.Admission{Limit: 64}}.Options()...)
//
// A refusal is UNAVAILABLE, and RESOURCE_EXHAUSTED where this tenant alone has too many. It
// says when to come back, as RetryInfo and as pushback (grpc-retry-pushback-ms), and in an
// overload of the whole server that it is no use to ask again: the pushback is -1 then. A
// call whose deadline passed before it was begun is DEADLINE_EXCEEDED with the pushback -1.
// [MetadataRefused] has the reason.
//
// A call has its slot until its method returns, panics or leaves by runtime.Goexit; see
// [ReleaseSlot] for those that last. grpc-go has read the request of a unary call when an
// interceptor sees it: grpc.MaxRecvMsgSize and grpc.MaxConcurrentStreams bound that.
//
// The zero Admission learns its limit. The fields must not change once calls are served. All
// methods are safe for concurrent use. An Admission must not be copied.
type Admission struct {
	// Limit is how many calls are worked on at once. Zero means policy.Learned: it begins
	// with 100 and moves between Min and Max, as the work gets slower or not. A Limit that
	// can't be meant, as any field, answers every call with an INTERNAL that says so.
	Limit int

	// Min and Max bound a learned limit. Zero means 1 and 1000.
	Min, Max int

	// Queue is how many calls may wait. Zero means twice the limit, and 128 at least.
	// policy.Off means that none waits.
	Queue int

	// Target is how long a call may wait in an overload. Zero means 20 ms.
	Target time.Duration

	// Interval is how long a call may wait otherwise. If for so long everybody had to
	// wait for longer than Target, it is an overload. Zero means 1 s.
	Interval time.Duration

	// NewestFirst serves the newest call first in an overload: its caller is the likeliest
	// one to be there still. Zero means that the first one is always first.
	NewestFirst bool

	// Tenant names the tenant for whom a call is made; method is its full name, such as
	// /package.Service/Method. Slots and queue are then shared fairly: the tenant with the fewest
	// slots is served next, and a full queue makes room for a tenant that has fewer calls in it.
	// Nil means that all calls are one tenant's. Names are kept only while their calls are here,
	// so strangers may invent as many as they like.
	Tenant func(ctx context.Context, method string) string

	// TenantShare is the share of the slots and of the queue that a tenant may have, even if
	// all others are idle, above 0 and at most 1; it is at least one slot. Zero means that
	// there is no such bound. It needs Tenant.
	TenantShare float64

	// Priority says which class a call is in, such as by its method or its user. A higher
	// class is served first; within one the order is as above. Nil means what
	// [MetadataPriority] says, if that is low. See TrustPriority.
	Priority func(ctx context.Context, method string) policy.Priority

	// TrustPriority believes callers who say in [MetadataPriority] that their call is of
	// high priority. Zero means that they may lower their priority, and not raise it: right
	// for everything that strangers can reach.
	TrustPriority bool

	// Exempt are calls that take no slot and are never refused. Nil means [HealthCheck].
	Exempt func(ctx context.Context, method string) bool

	// Lasts are calls whose method may give their slot back early, with [ReleaseSlot]. Nil
	// means all streams. It costs such a call some allocations.
	Lasts func(ctx context.Context, method string) bool

	// RetryAfter is the least time that a refusal names; the most is twice that. It is
	// rounded up to whole milliseconds. Zero means 1 s.
	RetryAfter time.Duration

	once   sync.Once
	wrong  error // what can't be meant
	room   *serving.Room
	exempt atomic.Int64
}

// HealthCheck reports whether a method is one of grpc.health.v1.Health.
func HealthCheck(_ context.Context, method string) bool {
	return strings.HasPrefix(method, "/grpc.health.v1.Health/")
}

// ReleaseSlot gives the slot of an [Admission] back before its method returns. It is for
// calls that last: a stream would hold a slot for as long, and a hundred of them fill a
// server that is idle. Call it when what costs the server is done, such as after the first
// messages. It reports whether it gave a slot back: not a second time, and not for calls that
// Admission.Lasts does not name. ctx is that of the call.
func ReleaseSlot(ctx context.Context) bool { return serving.Release(ctx) }

// Unary is a [grpc.UnaryServerInterceptor].
func (a *Admission) Unary(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	t, err := a.enter(ctx, info.FullMethod, false)
	switch {
	case err != nil:
		return nil, err
	case t.exempt:
		return handler(ctx, request)
	case t.refused.err != nil:
		return nil, t.refused.unary(ctx)
	}
	done := false
	defer t.end(ctx, &done)
	response, err := handler(t.context(), request)
	done = true
	return response, err
}

// Stream is a [grpc.StreamServerInterceptor].
func (a *Admission) Stream(server any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	ctx := stream.Context()
	t, err := a.enter(ctx, info.FullMethod, true)
	switch {
	case err != nil:
		return err
	case t.exempt:
		return handler(server, stream)
	case t.refused.err != nil:
		return t.refused.stream(stream)
	}
	done := false
	defer t.end(ctx, &done)
	if seen := t.context(); seen != ctx {
		stream = &serverStream{stream, seen}
	}
	err = handler(server, stream)
	done = true
	return err
}

// turn is what became of a call that asked to be let in: it is exempt, or refused, or has a
// pass.
type turn struct {
	room     *serving.Room
	ctx      context.Context // of the call
	priority policy.Priority
	pass     serving.Pass
	hold     *serving.Hold // of the pass, if it may be given back early
	refused  refusal
	exempt   bool
}

// enter asks for a call to be let in. The error says that the fields can't be meant.
func (a *Admission) enter(ctx context.Context, method string, stream bool) (turn, error) {
	a.once.Do(a.open)
	switch {
	case a.wrong != nil:
		return turn{}, a.wrong
	case a.exempts(ctx, method):
		a.exempt.Add(1)
		return turn{exempt: true}, nil
	}
	ask := serving.Request{Priority: a.priority(ctx, method)}
	if a.Tenant != nil {
		ask.Tenant = a.Tenant(ctx, method)
	}
	lasts := stream
	if a.Lasts != nil {
		lasts = a.Lasts(ctx, method)
	}
	pass, result := a.room.Enter(ctx, ask)
	if result.Answer != admission.Admitted {
		return turn{refused: refused(result, cmp.Or(a.RetryAfter, time.Second))}, nil
	}
	t := turn{room: a.room, pass: pass, ctx: ctx, priority: ask.Priority}
	if lasts {
		t.hold = a.room.Hold(pass)
	}
	return t, nil
}

// context is what the method sees. It is asked for when end is deferred: ctx may be a user's.
func (t *turn) context() context.Context {
	ctx := gabion.ContextWithPriority(t.ctx, t.priority)
	if t.hold != nil {
		ctx = t.hold.In(ctx)
	}
	return ctx
}

// end gives the pass back.
func (t *turn) end(ctx context.Context, done *bool) {
	if t.hold != nil {
		t.hold.End(ctx, done)
		return
	}
	t.room.End(ctx, t.pass, done)
}

func (a *Admission) exempts(ctx context.Context, method string) bool {
	if a.Exempt == nil {
		return HealthCheck(ctx, method)
	}
	return a.Exempt(ctx, method)
}

func (a *Admission) priority(ctx context.Context, method string) policy.Priority {
	if a.Priority != nil {
		return serving.Bounded(a.Priority(ctx, method))
	}
	return serving.ReadPriority(metadata.ValueFromIncomingContext(ctx, MetadataPriority), a.TrustPriority)
}

// open makes the room from the fields.
func (a *Admission) open() {
	o := serving.Options{
		Limit: a.Limit, Min: a.Min, Max: a.Max, Queue: a.Queue, Target: a.Target, Interval: a.Interval, RetryAfter: a.RetryAfter,
		NewestFirst: a.NewestFirst, Fair: a.Tenant != nil, TenantShare: a.TenantShare,
	}
	if problem := o.Problem(); problem != "" {
		a.wrong = status.Error(codes.Internal, "gabiongrpc: "+problem)
		return
	}
	a.room = o.Open()
}
