package grpcidem

import (
	"errors"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/policy"
)

// PolicyDomain is the domain of the ErrorInfo that [Status] attaches. Its reason is the
// text of the gabion.Reason, such as "breaker_open".
const PolicyDomain = "policy.gabion"

// Status makes of a *gabion.Error, anywhere in err, the gRPC status that a method's
// caller should see; as it is, grpc-go tells every such error as UNKNOWN. Other errors,
// and nil, come back as they are. It is safe for concurrent use.
//
//	UNAVAILABLE         refused here, as breaker_open and bulkhead_full are: nothing was sent
//	DEADLINE_EXCEEDED   call_timeout, attempt_timeout
//	CANCELLED           canceled
//	INVALID_ARGUMENT    key_missing
//	INTERNAL            unknown_dependency, invalid
//	UNKNOWN             outcome_unknown
//
// Any other reason keeps the code of the call that failed, or UNKNOWN if that was none of
// gRPC's. Where the time to come back is known, RetryInfo has it. A handler calls it, or
// an interceptor around all of them.
func Status(err error) error {
	e, ok := errors.AsType[*gabion.Error](err)
	if !ok || e == nil {
		return err
	}
	code := codeOf(e)
	if code == codes.Unavailable && gabion.EffectOf(err) != policy.NoEffect { // of another call that err tells of
		code = codes.Unknown
	}
	s := status.New(code, err.Error())
	details := []protoadapt.MessageV1{&errdetails.ErrorInfo{Reason: gabion.ReasonOf(err).String(), Domain: PolicyDomain}}
	if e.RetryAfter > 0 {
		details = append(details, retryIn(e.RetryAfter))
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
	case policy.CallTimeout, policy.AttemptTimeout:
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
	return codes.Unknown
}
