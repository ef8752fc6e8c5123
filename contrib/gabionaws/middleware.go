package gabionaws

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/policy"
)

// Option adjusts [Configure] and [Middleware].
type Option func(*settings)

type settings struct {
	d          *gabion.Dependency
	operations map[string]bool // whether they may be repeated, as the caller says
	classify   func(output any, err error) policy.Outcome
}

// Idempotent declares that operations may be repeated where an answer was lost, for
// instance because the receiver knows a message again. They are named as in
// "SQS.SendMessage": the SDK's ServiceID, a dot, and the operation.
func Idempotent(operations ...string) Option { return declare(operations, true) }

// NotIdempotent declares that operations are repeated only if they provably did nothing.
// They are named as in "Lambda.Invoke". Of all others it is known for those whose work is
// done twice:
//
//   - SQS and SNS messages that have no deduplication (queues and topics that are not FIFO);
//   - DynamoDB UpdateItem whose expression counts, adds or appends and has no condition, and
//     PartiQL statements that are no SELECT;
//   - Lambda Invoke, StartExecution of Step Functions without a name, StartSyncExecution;
//   - mails of SES, records of Kinesis and Firehose, events of EventBridge, messages of
//     Pinpoint, IoT and WebSocket connections, PutMetricData;
//   - SQL statements of RDS Data, SSM SendCommand, Batch SubmitJob, Glue StartJobRun.
func NotIdempotent(operations ...string) Option { return declare(operations, false) }

func declare(operations []string, safe bool) Option {
	return func(s *settings) {
		for _, name := range operations {
			s.operations[name] = safe
		}
	}
}

// WithClassify asks by what an attempt means before gabion decides, with the operation's
// output, such as *s3.GetObjectOutput, or the SDK's error. An outcome without a class
// decides nothing. By must be safe for concurrent use.
func WithClassify(by func(output any, err error) policy.Outcome) Option {
	return func(s *settings) { s.classify = by }
}

// Configure makes every client that is made from cfg afterwards call through d. Each service
// is a partition of d, with a breaker and latencies of its own; budget and bulkhead are d's.
// It panics if cfg or d is nil. Call it after the credentials are set up, so that fetching
// them is no call of d's.
func Configure(cfg *aws.Config, d *gabion.Dependency, opts ...Option) {
	if cfg == nil {
		panic("gabionaws: the config is nil")
	}
	// The slice may be shared with the config that cfg was copied from.
	cfg.APIOptions = append(cfg.APIOptions[:len(cfg.APIOptions):len(cfg.APIOptions)], Middleware(d, opts...))
}

// Middleware is [Configure] for a single client, or a single call:
//
//	client := s3.NewFromConfig(cfg, func(o *s3.Options) {
//		o.APIOptions = append(o.APIOptions, gabionaws.Middleware(storage))
//	})
//
// A client that has two calls through the one that was added last. It panics if d is nil.
func Middleware(d *gabion.Dependency, opts ...Option) func(*middleware.Stack) error {
	if d == nil {
		panic("gabionaws: the dependency is nil")
	}
	s := &settings{d: d, operations: map[string]bool{}}
	for _, set := range opts {
		set(s)
	}
	return s.install
}

type optionsKey struct{}

// WithOptions adds options to the calls that are made with the context it returns, such as
// gabion.WithoutRetry, or gabion.WithIdempotent for an operation that else is not.
func WithOptions(ctx context.Context, opts ...gabion.CallOption) context.Context {
	had, _ := ctx.Value(optionsKey{}).([]gabion.CallOption)
	return context.WithValue(ctx, optionsKey{}, append(had[:len(had):len(had)], opts...))
}

const retryID = "Retry" // of the SDK's middleware

// install replaces the SDK's retry. Requests that are signed but not sent have none.
func (s *settings) install(stack *middleware.Stack) error {
	own, ok := stack.Finalize.Get(retryID)
	if !ok {
		return nil
	}
	var attempt *retry.Attempt
	switch m := own.(type) {
	case *retry.Attempt:
		attempt = s.single(m)
	case *calls: // installed twice: the last one counts
		_, err := stack.Finalize.Swap(retryID, &calls{s, m.attempt})
		return err
	default:
		return errors.New("gabionaws: the client's Retry middleware is not the SDK's, so that it can't be replaced")
	}
	if _, err := stack.Finalize.Swap(retryID, &calls{s, attempt}); err != nil {
		return err
	}
	if err := stack.Initialize.Add(remember, middleware.After); err != nil {
		return err
	}
	return stack.Deserialize.Add(follow, middleware.After)
}

// single makes of the SDK's retry one that makes a single attempt: it signs, corrects the
// clock, measures and traces as the SDK does.
func (s *settings) single(own *retry.Attempt) *retry.Attempt {
	return retry.NewAttemptMiddleware(aws.NopRetryer{}, smithyhttp.RequestCloner, func(m *retry.Attempt) {
		m.OperationMeter, m.DisableClockSkewCorrection = own.OperationMeter, own.DisableClockSkewCorrection
		if m.ClientSkew = own.ClientSkew; m.ClientSkew == nil {
			m.ClientSkew = new(atomic.Int64)
		}
	})
}
