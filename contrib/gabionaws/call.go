package gabionaws

import (
	"context"
	"errors"
	"strconv"
	"strings"

	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/policy"
)

// calls stands where the SDK's retry stood.
type calls struct {
	*settings
	attempt *retry.Attempt
}

// ID implements middleware.FinalizeMiddleware.
func (*calls) ID() string { return retryID }

// sent is what is known of an attempt, and its result.
type sent struct {
	by       *settings
	out      middleware.FinalizeOutput
	metadata middleware.Metadata
	body     *body // nil if no answer came
	left     bool  // the request was handed to the HTTP client
	fixed    bool  // its stream can't be sent again
}

type sentKey struct{}

var (
	byResult = gabion.WithClassify(judge)
	discard  = gabion.WithDiscard(func(result any) {
		if r, ok := result.(*sent); ok && r != nil && r.body != nil {
			_ = r.body.Close()
		}
	})
)

// HandleFinalize implements middleware.FinalizeMiddleware: it makes the call. It never hedges,
// since what is below keeps its answer in the stack, which is for one attempt at a time.
func (c *calls) HandleFinalize(ctx context.Context, in middleware.FinalizeInput, next middleware.FinalizeHandler) (
	middleware.FinalizeOutput, middleware.Metadata, error,
) {
	req, ok := in.Request.(*smithyhttp.Request)
	if !ok {
		return next.HandleFinalize(ctx, in) // no HTTP: nothing can be said of it
	}
	service, operation := awsmiddleware.GetServiceID(ctx), awsmiddleware.GetOperationName(ctx)
	var buffer [8]gabion.CallOption
	opts := append(buffer[:0], byResult, discard, gabion.WithoutHedge(), gabion.WithPartition(service), gabion.WithOperation(operation))
	if c.repeatable(service, operation, middleware.GetStackValue(ctx, inputKey{})) {
		opts = append(opts, gabion.WithIdempotent())
	}
	s := newStream(req)
	if more, ok := ctx.Value(optionsKey{}).([]gabion.CallOption); ok {
		opts = append(opts, more...)
	}
	send := func(ctx context.Context) (*sent, error) {
		r := &sent{by: c.settings, fixed: s.fixed}
		at := in
		var err error
		if at.Request, err = s.next(req); err != nil {
			return r, err
		}
		number := gabion.AttemptNumber(ctx)
		r.out, r.metadata, err = c.attempt.HandleFinalize(middleware.WithStackValue(ctx, sentKey{}, r), at,
			middleware.FinalizeHandlerFunc(func(ctx context.Context, in middleware.FinalizeInput) (middleware.FinalizeOutput, middleware.Metadata, error) {
				c.number(in.Request, number)
				return next.HandleFinalize(ctx, in)
			}))
		return r, err
	}
	r, a, err := gabion.Open(ctx, c.d, send, opts...)
	if r == nil { // nothing was sent
		r = new(sent)
	}
	if a != nil {
		r.hand(a, err)
	}
	return r.out, r.metadata, err
}

// hand gives the attempt to the body that the caller will read, or ends it.
func (r *sent) hand(a *gabion.Attempt, err error) {
	if err == nil && r.body != nil {
		r.body.live(a)
		return
	}
	a.Close(nil)
}

// number says in the request which attempt it is, of how many: the SDK's single one says 1.
func (c *calls) number(request any, attempt int) {
	const header, first = "Amz-Sdk-Request", "attempt=1; max=1"
	req, ok := request.(*smithyhttp.Request)
	if !ok || len(req.Header[header]) == 0 {
		return
	}
	said, ok := strings.CutPrefix(req.Header[header][0], first)
	if !ok {
		return
	}
	text := "attempt=" + strconv.Itoa(attempt)
	if most := c.d.Policy().Retry.Attempts; most >= attempt {
		text += "; max=" + strconv.Itoa(most)
	}
	req.Header[header] = []string{text + said}
}

type inputKey struct{}

// remember keeps the operation's input for [settings.repeatable].
var remember = middleware.InitializeMiddlewareFunc("gabionInput",
	func(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (middleware.InitializeOutput, middleware.Metadata, error) {
		return next.HandleInitialize(middleware.WithStackValue(ctx, inputKey{}, in.Parameters), in)
	})

// follow is the last before the HTTP client: it notes that a request is sent, and follows the
// answer's body.
var follow = middleware.DeserializeMiddlewareFunc("gabionBody",
	func(ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler) (middleware.DeserializeOutput, middleware.Metadata, error) {
		r, ok := middleware.GetStackValue(ctx, sentKey{}).(*sent)
		if ok {
			r.left = true
		}
		out, metadata, err := next.HandleDeserialize(ctx, in)
		if resp, answered := out.RawResponse.(*smithyhttp.Response); ok && answered && resp != nil && resp.Response != nil && resp.Body != nil {
			r.body = &body{ReadCloser: resp.Body}
			resp.Body = r.body
		}
		return out, metadata, err
	})

// judge says what an attempt means.
func judge(r *sent, err error) (o policy.Outcome) {
	if r == nil {
		return o
	}
	if r.by.classify != nil {
		if o = r.by.classify(r.out.Result, err); o.Class != policy.ClassUndecided {
			o.Fixed = o.Fixed || r.fixed
			return o
		}
	}
	if err == nil {
		return policy.Succeeded()
	}
	o = read(err)
	if !r.left { // signing it failed, or credentials for that
		o.NeverSent, o.Effect = true, policy.NoEffect
		if o.Class == policy.ClassUnclassified {
			o.Class = policy.ClassClient
		}
	}
	o.Fixed = o.Fixed || r.fixed || errors.Is(err, errRewind)
	return o
}
