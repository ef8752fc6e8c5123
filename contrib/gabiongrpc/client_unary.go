package gabiongrpc

import (
	"context"
	"errors"
	"io"
	"reflect"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/classify"
	"github.com/gabion-go/gabion/policy"
)

// unaryCall is a call that is no stream.
type unaryCall struct {
	call
	invoker    grpc.UnaryInvoker
	req, reply any
	hedged     bool                     // attempts may be out at once, so each but the first has messages of its own
	kind       protoreflect.MessageType // of the reply, if hedged: the reply itself is the first attempt's to use
	begun      atomic.Bool
	first      attempt // most calls have one

	mu   sync.Mutex // guards over, and req while a hedge copies it
	over bool       // the caller has its answer, and may change req
}

// gabionOptions finds out whether the call can have two attempts out at once.
func (u *unaryCall) gabionOptions(room []gabion.CallOption) []gabion.CallOption {
	all := u.call.gabionOptions(room, gabion.WithClassify(judge), gabion.WithDiscard(nil))
	u.hedged = u.policy.Hedge.Max > 0 && (u.key == "" || u.safe || u.client.HedgeKeyed) &&
		messageOf(u.req) != nil && messageOf(u.reply) != nil
	if u.hedged {
		u.kind = messageOf(u.reply).ProtoReflect().Type()
	} else {
		all = append(all, gabion.WithoutHedge())
	}
	return all
}

// messageOf returns v as a message, or nil.
func messageOf(v any) proto.Message {
	switch m := v.(type) {
	case proto.Message:
		return m
	case protoadapt.MessageV1:
		return protoadapt.MessageV2Of(m)
	}
	return nil
}

var errOver = classify.NotSent(errors.New("gabiongrpc: the call was over before this attempt began"))

// send is one attempt. Hedges run on other goroutines, and may return after the call.
func (u *unaryCall) send(ctx context.Context) (*attempt, error) {
	a, req := &u.first, u.req
	switch again := u.begun.Swap(true); {
	case !again:
		a.reply = u.reply
	case u.hedged:
		a = &attempt{reply: as(u.kind.New().Interface(), u.reply)}
		if req = u.copied(); req == nil {
			return nil, errOver
		}
	default:
		a = &attempt{reply: u.reply}
		empty(u.reply) // what an attempt before it left there
	}
	if err := a.prepare(ctx, &u.call); err != nil {
		return a, err
	}
	defer a.crashed()
	err := u.invoker(a, u.method, req, a.reply, u.conn, a.callOptions()...)
	a.back = true
	if err == io.EOF {
		err = errCutOff
	}
	a.kept = a.ofUnary(req, err)
	return a, err
}

// errCutOff is for grpc-go's io.EOF, which has no status: a stream that it sent again by
// itself ended before the request was written (v1.85.0).
var errCutOff = status.Error(codes.Unavailable, "the stream ended before its answer")

// copied returns a copy of the request, or nil if the call is over.
func (u *unaryCall) copied() any {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.over {
		return nil
	}
	return as(proto.Clone(messageOf(u.req)), u.req)
}

// as returns m in the form of a message of the caller's, whose codec and interceptors know
// its type.
func as(m proto.Message, form any) any {
	if _, ok := form.(proto.Message); ok {
		return m
	}
	return protoadapt.MessageV1Of(m)
}

// leave keeps hedges that come late from the request, also if the call ends by a panic.
func (u *unaryCall) leave() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.over = true
}

// empty makes a reply what a new one is.
func empty(reply any) {
	if m := messageOf(reply); m != nil {
		proto.Reset(m)
		return
	}
	if v := reflect.ValueOf(reply); v.Kind() == reflect.Pointer && !v.IsNil() {
		v.Elem().SetZero()
	}
}

// end gives the caller what the attempt brought.
func (u *unaryCall) end(a *attempt, err error) error {
	if err == nil && a.reply != u.reply {
		empty(u.reply)
		proto.Merge(messageOf(u.reply), messageOf(a.reply))
	}
	err = u.told(err)
	u.finish(a, err)
	return err
}

// judge says what an attempt brought.
func judge(a *attempt, err error) policy.Outcome {
	if a == nil {
		return classify.Error(err)
	}
	return a.outcome(err)
}
