package gabiongrpc

import (
	"context"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"github.com/gabion-go/gabion"
)

// The metadata that a [Client] writes besides what grpc-go does.
const (
	MetadataKey      = "idempotency-key"            // the call's key, the same on every attempt
	MetadataAttempts = "grpc-previous-rpc-attempts" // how many attempts came before; absent on the first
)

// Client makes calls through a dependency's policy, by interceptors of grpc-go. The zero
// Client has no dependency: its calls fail with INTERNAL and send nothing.
//
// A call is repeated if its failure is transient and repeating it is safe: see Idempotent.
// What an answer means is decided by its code (policy.GRPC adjusts that), and pushback and
// RetryInfo are obeyed. Streams are repeated until their first message has arrived: see
// docs/grpc.md.
//
// The error of a call that did not succeed is a [*gabion.Error]: errors.As finds it, and
// status.FromError finds the status of the attempt that was last, or one that says why
// nothing was sent. A Client is safe for concurrent use. Its fields must not change after
// its first use.
type Client struct {
	// Dependency is who is called. It must not be nil.
	Dependency *gabion.Dependency

	// Partition names whose breaker a call concerns. Nil means the connection's target, so
	// that two connections never share a breaker. It must be quick.
	Partition func(conn *grpc.ClientConn, method string) string

	// Operation names what a call does, for events. Nil means the method without the
	// slash before it, "pkg.Service/Method". A proxy, whose callers can invent methods,
	// must set it, since names become labels.
	Operation func(method string) string

	// Idempotent reports whether a method may be called twice with the effect of once. A
	// method is named as "/pkg.Service/Method". Nil means those whose descriptor says
	// idempotency_level = NO_SIDE_EFFECTS or IDEMPOTENT. Calls with an idempotency key, those
	// with gabion.WithIdempotent (see [With]), and all of a policy that says Safe may be
	// repeated in any case, and an attempt that provably never left may, too.
	Idempotent func(method string) bool

	// KeyRetention is for how long the server remembers an idempotency key, as it
	// declares; see [gabion.WithKeyRetention]. Zero means that nothing is known and every
	// key is sent.
	KeyRetention time.Duration

	// HedgeKeyed lets calls be hedged whose only leave to be repeated is a key in their
	// metadata. It declares that the server can tell two calls with one key that arrive at
	// once. Zero means that such calls are not hedged.
	HedgeKeyed bool

	warned atomic.Bool // of retries that multiply
	hidden atomic.Int64
	spread atomic.Int64
}

// NewClient is grpc.NewClient with the options of a [Client] of d:
//
//	conn, err := gabiongrpc.NewClient("dns:///payments:443", payments, grpc.WithTransportCredentials(creds))
//
// Interceptors among opts are inside: they see each attempt.
func NewClient(target string, d *gabion.Dependency, opts ...grpc.DialOption) (*grpc.ClientConn, error) {
	return grpc.NewClient(target, append((&Client{Dependency: d}).DialOptions(), opts...)...)
}

// DialOptions are what a connection needs whose calls all go through c: both interceptors,
// and grpc.WithDisableRetry, since two layers of retries multiply. The rest of a service
// config stays in force. Put them first, so that interceptors which follow see each attempt.
func (c *Client) DialOptions() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithChainUnaryInterceptor(c.UnaryInterceptor()),
		grpc.WithChainStreamInterceptor(c.StreamInterceptor()),
		grpc.WithDisableRetry(),
	}
}

// UnaryInterceptor returns the interceptor for calls that are no streams. Interceptors
// after it in a chain see each attempt, and those before it each call. A connection that
// uses it without [Client.DialOptions] needs grpc.WithDisableRetry. If it has not, and the
// first retryable failure comes under a service config that retries, slog.Default gets a
// warning, once for a Client.
func (c *Client) UnaryInterceptor() grpc.UnaryClientInterceptor { return c.unary }

// UnaryClientInterceptor is the UnaryInterceptor of a [Client] of d.
func UnaryClientInterceptor(d *gabion.Dependency) grpc.UnaryClientInterceptor {
	return (&Client{Dependency: d}).UnaryInterceptor()
}

// With gives one call options of package gabion:
//
//	reply, err := payments.Refund(ctx, req, gabiongrpc.With(gabion.WithKey(key)))
//
// Several With add up. A [gabion.WithClassify] or [gabion.WithDiscard] among them has no effect: those
// of the dependency are asked. On a connection without a [Client] it
// does nothing.
func With(opts ...gabion.CallOption) grpc.CallOption { return withOption{options: opts} }

type withOption struct {
	grpc.EmptyCallOption
	options []gabion.CallOption
}

func (c *Client) unary(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	u := &unaryCall{invoker: invoker, req: req, reply: reply}
	if err := u.call.begin(ctx, c, method, conn, opts); err != nil {
		return u.end(nil, err)
	}
	var room [maxOptions]gabion.CallOption
	all := u.gabionOptions(room[:0])
	if u.hedged {
		defer u.leave()
	}
	a, err := gabion.Do(ctx, c.Dependency, u.send, all...)
	return u.end(a, err)
}
