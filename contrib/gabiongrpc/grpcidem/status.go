package grpcidem

import (
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"
)

// Domain is the domain of the ErrorInfo with which calls are refused.
const Domain = "idempotency.gabion"

// A Refusal says why a call is refused. It is the reason of its ErrorInfo and does not
// change.
type Refusal string

const (
	Missing          Refusal = "KEY_MISSING"           // INVALID_ARGUMENT: the method needs a key
	Malformed        Refusal = "KEY_MALFORMED"         // INVALID_ARGUMENT: the key can't be read, or there are two
	InProgress       Refusal = "IN_PROGRESS"           // ABORTED: the first call has not ended
	Mismatch         Refusal = "KEY_REUSED"            // FAILED_PRECONDITION: the key belongs to another call
	NotRetained      Refusal = "RESPONSE_NOT_RETAINED" // FAILED_PRECONDITION: it was done, its response is not kept
	OutcomeUnknown   Refusal = "OUTCOME_UNKNOWN"       // UNKNOWN: it may have been done
	CommitUnknown    Refusal = "COMMIT_UNKNOWN"        // UNAVAILABLE: it may have been done, and the next call finds out
	StoreUnavailable Refusal = "STORE_UNAVAILABLE"     // UNAVAILABLE: nothing was done
	RecordUnreadable Refusal = "RECORD_UNREADABLE"     // UNAVAILABLE: there is a record that this version can't read
	NoScope          Refusal = "NO_SCOPE"              // INTERNAL: the call's owner is not known
	Unreadable       Refusal = "REQUEST_UNREADABLE"    // INTERNAL: the request has no fingerprint
)

var refusals = map[Refusal]struct {
	code codes.Code
	text string
}{
	Missing:          {codes.InvalidArgument, "an idempotency-key is required"},
	Malformed:        {codes.InvalidArgument, "the idempotency-key can't be read"},
	InProgress:       {codes.Aborted, "a call with this idempotency key is in progress"},
	Mismatch:         {codes.FailedPrecondition, "the idempotency key was used for a different call"},
	NotRetained:      {codes.FailedPrecondition, "the call was carried out and its response was not kept"},
	OutcomeUnknown:   {codes.Unknown, "it is unknown whether the call was carried out"},
	CommitUnknown:    {codes.Unavailable, "it is not yet known whether the call was carried out: ask again"},
	StoreUnavailable: {codes.Unavailable, "idempotency keys can't be checked"},
	RecordUnreadable: {codes.Unavailable, "the record of this idempotency key can't be read"},
	NoScope:          {codes.Internal, "the owner of the idempotency key is unknown"},
	Unreadable:       {codes.Internal, "the request can't be distinguished from others"},
}

func refuse(why Refusal, more ...protoadapt.MessageV1) error {
	s := status.New(refusals[why].code, refusals[why].text)
	details := append([]protoadapt.MessageV1{&errdetails.ErrorInfo{Reason: string(why), Domain: Domain}}, more...)
	if detailed, err := s.WithDetails(details...); err == nil {
		s = detailed
	}
	return s.Err()
}

func retryIn(d time.Duration) protoadapt.MessageV1 {
	return &errdetails.RetryInfo{RetryDelay: durationpb.New(d)}
}
