package gabionaws

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/gabion-go/gabion/classify"
	"github.com/gabion-go/gabion/gabionhttp"
	"github.com/gabion-go/gabion/policy"
)

// sdk is what the SDK itself retries.
var sdk = retry.IsErrorRetryables(retry.DefaultRetryables)

// conflicts are codes of work that the service undid, or did not begin, because of another
// call's.
var conflicts = map[string]bool{
	"TransactionConflictException":     true,
	"ReplicatedWriteConflictException": true,
	"OperationAborted":                 true, // S3: another conditional operation is in progress
	"ConditionalRequestConflict":       true, // S3: the same
}

// answers are codes of a valid "no".
var answers = map[string]bool{
	"ConditionalCheckFailedException": true,
	"PreconditionFailed":              true,
	"NoSuchKey":                       true,
	"NoSuchBucket":                    true,
	"NotFound":                        true,
	"NotModified":                     true,
	"ResourceNotFoundException":       true,
}

// read says what an error of the SDK's means: first what the service answered, then what
// package classify knows, and last what the SDK would repeat.
func read(err error) policy.Outcome {
	status, header := answered(err)
	if status == 0 {
		return unanswered(err)
	}
	o := policy.Outcome{Code: strconv.Itoa(status)}
	code := ""
	var api smithy.APIError
	if errors.As(err, &api) {
		code = api.ErrorCode()
	}
	_, throttled := retry.DefaultThrottleErrorCodes[code]
	_, transient := retry.DefaultRetryableErrorCodes[code]
	o.Busy = status == http.StatusServiceUnavailable && !throttled // S3's SlowDown is a rate, and not a server without room
	switch {
	case code == "TransactionInProgressException": // an earlier attempt with the same token is still at work
		o.Class, o.Effect = policy.ClassContention, policy.UnknownEffect
	case throttled || status == http.StatusTooManyRequests:
		o.Class, o.Undone = policy.ClassThrottled, true
	case skewed(err): // refused for the time in its signature, which the next corrects
		o.Class, o.Undone, o.Once = policy.ClassServer, true, true
	case conflicts[code]:
		o.Class, o.Undone = policy.ClassContention, true
	case transient || status == http.StatusRequestTimeout || status >= 500 && status != http.StatusNotImplemented && status != http.StatusHTTPVersionNotSupported:
		o.Class, o.Effect = policy.ClassServer, policy.UnknownEffect
	case answers[code] || status == http.StatusNotFound:
		o.Class = policy.ClassBusiness
	case status >= 400:
		o.Class = policy.ClassClient
	case api != nil: // S3's copies answer 200 before they fail
		o.Class, o.Effect = policy.ClassServer, policy.UnknownEffect
	default: // the service did it, and its answer could not be read: the SDK does not repeat that either
		if o = unanswered(err); o.Class.Transient() {
			o.Class = policy.ClassUnclassified
		}
		return o
	}
	if o.Class.Transient() {
		o.After, o.HasAfter = after(header)
	}
	return o
}

// answered returns the status and header of the answer, or 0.
func answered(err error) (int, http.Header) {
	var re *smithyhttp.ResponseError
	if errors.As(err, &re) && re.Response != nil && re.Response.Response != nil {
		return re.Response.StatusCode, re.Response.Header
	}
	return 0, nil
}

// unanswered reads errors of the network and of the SDK's own.
func unanswered(err error) policy.Outcome {
	o := classify.Error(err)
	if o.Class == policy.ClassUnclassified && sdk.IsErrorRetryable(err) == aws.TrueTernary {
		o.Class = policy.ClassNetwork
	}
	return o
}

// skewed reports whether the SDK found that the clocks differ.
func skewed(err error) bool {
	var asked interface{ RetryableError() bool }
	return errors.As(err, &asked) && asked.RetryableError()
}

// after is when the service wants to be asked again: x-amz-retry-after in milliseconds, or
// HTTP's own headers.
func after(h http.Header) (time.Duration, bool) {
	const most = 1 << 40 // ms; what is longer is no time
	if ms, err := strconv.ParseInt(h.Get("X-Amz-Retry-After"), 10, 64); err == nil && ms >= 0 && ms < most {
		return time.Duration(ms) * time.Millisecond, true
	}
	return gabionhttp.RetryAfter(h, time.Now())
}
