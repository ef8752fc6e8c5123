package gabiongrpc

import (
	"context"
	"errors"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/internal/serving"
	"github.com/gabion-go/gabion/policy"
)

// UnaryErrors is a [grpc.UnaryServerInterceptor] that tells callers what [Status] makes of a
// method's error. Where the method made a call through gabion that was repeated in vain, was
// not sent at all, or can't be helped by repeating, it adds the pushback -1: three layers of
// three attempts are 27 calls without it and 3 with it. [MetadataGaveUp] says that it was
// repeated. A method returns such an error as it is, or wrapped.
func UnaryErrors(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	response, err := handler(ctx, request)
	if err == nil {
		return response, nil
	}
	if trailer := gaveUp(err); trailer != nil {
		_ = grpc.SetTrailer(ctx, trailer) // fails if there is no client to see it
	}
	return response, Status(err)
}

// StreamErrors is UnaryErrors for streams, a [grpc.StreamServerInterceptor].
func StreamErrors(server any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	err := handler(server, stream)
	if err == nil {
		return nil
	}
	if trailer := gaveUp(err); trailer != nil {
		stream.SetTrailer(trailer)
	}
	return Status(err)
}

// gaveUp is what stops the retries of callers; nil if nothing should.
func gaveUp(err error) metadata.MD {
	e, ok := errors.AsType[*gabion.Error](err)
	switch {
	case !ok || e == nil || !serving.Final(e.Reason, e.Attempts):
		return nil
	case !serving.InVain(e.Reason, e.Attempts):
		return metadata.MD{trailerPushback: dontRetry}
	}
	return metadata.MD{trailerPushback: dontRetry, MetadataGaveUp: {serving.GaveUp(e.Reason, e.Attempts)}}
}

// PolicyDomain is the domain of the ErrorInfo that [Status] attaches. Its reason is the
// text of the gabion.Reason, such as "breaker_open".
const PolicyDomain = "policy.gabion"

// Status makes of a *gabion.Error, anywhere in err, the gRPC status that a method's
// caller should see. As it is, grpc-go tells such an error as UNKNOWN, and one of a [Client]
// by the status of its last attempt, as if nothing had been repeated. Other errors, and nil,
// come back as they are. It is safe for concurrent use.
//
//	UNAVAILABLE         refused here, as breaker_open and bulkhead_full are: nothing was sent
//	DEADLINE_EXCEEDED   call_timeout, attempt_timeout, idle_timeout, body_timeout, deadline_short,
//	                    and not_retryable where no time was left for the next hop
//	CANCELLED           canceled
//	INVALID_ARGUMENT    key_missing
//	INTERNAL            unknown_dependency, invalid
//	UNKNOWN             outcome_unknown
//
// Any other reason keeps the code of the call that failed, or UNKNOWN if that was none of
// gRPC's. Where the time to come back is known, RetryInfo has it. [UnaryErrors] calls it for
// all methods.
func Status(err error) error {
	e, ok := errors.AsType[*gabion.Error](err)
	if !ok || e == nil {
		return err
	}
	code := codeOf(e)
	if code == codes.Unavailable && e.Attempts == 0 && gabion.EffectOf(err) != policy.NoEffect {
		code = codes.Unknown // it was refused here, and err tells of another call, too
	}
	s := status.New(code, err.Error())
	details := []protoadapt.MessageV1{&errdetails.ErrorInfo{Reason: gabion.ReasonOf(err).String(), Domain: PolicyDomain}}
	if e.RetryAfter > 0 {
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(e.RetryAfter)})
	}
	if detailed, err := s.WithDetails(details...); err == nil {
		s = detailed
	}
	return s.Err()
}

func codeOf(e *gabion.Error) codes.Code {
	switch e.Reason {
	case policy.KeyMissing:
		return codes.InvalidArgument
	case policy.OutcomeUnknown:
		return codes.Unknown
	case policy.UnknownDependency, policy.Invalid:
		return codes.Internal
	case policy.CallTimeout, policy.AttemptTimeout, policy.IdleTimeout, policy.BodyTimeout, policy.DeadlineShort:
		return codes.DeadlineExceeded
	case policy.Canceled:
		return codes.Canceled
	}
	if e.Reason.Local() && e.Attempts == 0 {
		return codes.Unavailable
	}
	if s, ok := status.FromError(e.Err); ok && e.Err != nil {
		return s.Code()
	}
	if e.Reason == policy.NotRetryable && errors.Is(e, context.DeadlineExceeded) { // no time was left to pass on
		return codes.DeadlineExceeded
	}
	return codes.Unknown
}
