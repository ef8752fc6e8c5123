package gabiongrpc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/internal/adapter"
	"github.com/gabion-go/gabion/policy"
)

// call is one call of a Client, unary or a stream.
type call struct {
	client   *Client
	ctx      context.Context // the caller's
	conn     *grpc.ClientConn
	method   string
	policy   *policy.Policy // in force when the call began; never changes
	asked    classifier     // nil means that the code alone decides
	priority policy.Priority
	key      string // the caller's, from the metadata or from the call around this one
	safe     bool   // declared by the policy or for the method
	strays   bool   // the caller's metadata has what only attempts may write

	rest  []grpc.CallOption   // what attempts get of the caller's
	given []gabion.CallOption // of With
	wants wanted

	places places
}

// wanted is what the caller wants to know of the attempt that answered.
type wanted struct {
	any      bool
	headers  []*metadata.MD
	trailers []*metadata.MD
	peers    []grpc.PeerCallOption
	finish   []func(error)
}

const maxOptions = 12

var errNoDependency = errors.New("gabiongrpc: the Client has no Dependency")

// begin learns all that is known before the first attempt.
func (c *call) begin(ctx context.Context, client *Client, method string, conn *grpc.ClientConn, opts []grpc.CallOption) error {
	c.client, c.ctx, c.conn, c.method = client, ctx, conn, method
	c.read(opts)
	if client.Dependency == nil {
		return errNoDependency
	}
	c.policy = adapter.Of(client.Dependency).PolicyInForce()
	c.priority = gabion.PriorityOf(ctx)
	c.safe = c.policy.Safe || client.idempotent(method)
	if err := cmp.Or(c.learnMetadata(), c.learnClassifier()); err != nil {
		return &gabion.Error{Dependency: client.Dependency.Name(), Reason: policy.Invalid, Err: err}
	}
	return nil
}

// read takes those options of the caller's that concern the call and not an attempt.
func (c *call) read(opts []grpc.CallOption) {
	for i, o := range opts {
		if !c.take(o) {
			if c.rest != nil {
				c.rest = append(c.rest, o)
			}
			continue
		}
		if c.rest == nil {
			c.rest = append(make([]grpc.CallOption, 0, len(opts)), opts[:i]...)
		}
	}
	if c.rest == nil {
		c.rest = opts
	}
}

func (c *call) take(o grpc.CallOption) bool {
	w := &c.wants
	switch o := o.(type) {
	case withOption:
		c.given = append(c.given, o.options...)
		return true
	case grpc.HeaderCallOption:
		w.headers = append(w.headers, o.HeaderAddr)
	case grpc.TrailerCallOption:
		w.trailers = append(w.trailers, o.TrailerAddr)
	case grpc.PeerCallOption:
		w.peers = append(w.peers, o)
	case grpc.OnFinishCallOption:
		w.finish = append(w.finish, o.OnFinish)
	default:
		return false
	}
	w.any = true
	return true
}

var errKeys = errors.New("gabiongrpc: the metadata has more than one idempotency key, or an empty one")

// learnMetadata finds the call's key: in the metadata, or in the call of gabion's around
// this one. The latter is for the one effect that the call is about, so reading does not
// take it.
func (c *call) learnMetadata() error {
	c.strays = len(metadata.ValueFromOutgoingContext(c.ctx, MetadataAttempts)) > 0 ||
		len(metadata.ValueFromOutgoingContext(c.ctx, MetadataPriority)) > 0
	switch keys := metadata.ValueFromOutgoingContext(c.ctx, MetadataKey); {
	case len(keys) > 1, len(keys) == 1 && keys[0] == "":
		return fmt.Errorf("%w (%w)", errKeys, gabion.KeyMalformed)
	case len(keys) == 1:
		c.key = keys[0]
		adapter.Sends(c.ctx, c.key)
	case !c.safe:
		c.key = gabion.Key(c.ctx)
	}
	return nil
}

// gabionOptions puts the options of the call into room, if they fit. Those that the Client
// can't do without are the last.
func (c *call) gabionOptions(room []gabion.CallOption, last ...gabion.CallOption) []gabion.CallOption {
	all := append(room, gabion.WithPartition(c.partition()), gabion.WithOperation(c.operation()))
	if c.priority != policy.PriorityNormal {
		all = append(all, gabion.WithPriority(c.priority))
	}
	if c.key != "" {
		all = append(all, gabion.WithKey(c.key))
	}
	if c.safe {
		all = append(all, gabion.WithIdempotent())
	}
	if c.client.KeyRetention != 0 {
		all = append(all, gabion.WithKeyRetention(c.client.KeyRetention))
	}
	return append(append(all, c.given...), last...)
}

func (c *call) partition() string {
	switch {
	case c.client.Partition != nil:
		return c.client.Partition(c.conn, c.method)
	case c.conn == nil:
		return ""
	}
	return c.conn.Target()
}

func (c *call) operation() string {
	if c.client.Operation != nil {
		return c.client.Operation(c.method)
	}
	return strings.TrimPrefix(c.method, "/")
}

// classifier is the dependency's, if it has one.
type classifier func(reply any, err error) policy.Outcome

// learnClassifier finds out who is asked before the code is.
func (c *call) learnClassifier() error {
	switch by := adapter.Of(c.client.Dependency).Classifier().(type) {
	case nil:
	case func(any, error) policy.Outcome:
		c.asked = by
	case func(proto.Message, error) policy.Outcome:
		c.asked = func(reply any, err error) policy.Outcome { return by(messageOf(reply), err) }
	default:
		return fmt.Errorf("the dependency's classifier is a %T: the results of gRPC calls are proto.Message", by)
	}
	return nil
}

// finish tells the caller of the attempt that answered, and that the call is over. A nil
// attempt is one that was never made.
func (c *call) finish(a *attempt, err error) {
	w := &c.wants
	if !w.any {
		return
	}
	if a != nil {
		for _, to := range w.headers {
			*to = a.header
		}
		for _, to := range w.trailers {
			*to = a.trailer
		}
		for _, to := range w.peers {
			if a.opened() {
				*to.PeerAddr = a.peer
			}
		}
	}
	for _, f := range w.finish {
		f(err)
	}
}
