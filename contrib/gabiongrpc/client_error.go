package gabiongrpc

import (
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/policy"
)

// callError is a *gabion.Error that has a status, as grpc-go's errors have.
type callError struct{ why *gabion.Error }

// told makes the error of a call what its caller gets.
func (c *call) told(err error) error {
	if err == nil {
		return nil
	}
	if e, ok := err.(*gabion.Error); ok {
		return callError{e}
	}
	return status.Error(codes.Internal, err.Error())
}

// Error reads as that of the [gabion.Error] does.
func (e callError) Error() string { return e.why.Error() }

// Unwrap returns the [*gabion.Error].
func (e callError) Unwrap() error { return e.why }

// Is makes visible to errors.Is what the server said of the idempotency key.
func (e callError) Is(target error) bool {
	problem, ok := target.(gabion.KeyProblem)
	if !ok || problem == 0 {
		return false
	}
	s := statusOf(e.why.Err)
	return s != nil && keyProblem(s) == problem
}

// GRPCStatus is what status.FromError makes of the error, and a server whose handler returns
// it: the status of the last attempt as it came, or one that says why no attempt was made.
func (e callError) GRPCStatus() *status.Status {
	code, s := callCode(e.why), statusOf(e.why.Err)
	if s != nil && s.Code() == code {
		return s
	}
	return status.New(code, e.Error())
}

// callCode is the code of a call that ended with e: that of [Status], but where there was
// an answer, and too little time for another attempt, it is the answer's.
func callCode(e *gabion.Error) codes.Code {
	s := statusOf(e.Err)
	switch code := codeOf(e); {
	case e.Reason == policy.DeadlineShort && s != nil:
		return s.Code()
	case code == codes.Unknown && e.Attempts == 0 && e.Reason != policy.OutcomeUnknown:
		return codes.Unavailable
	default:
		return code
	}
}
