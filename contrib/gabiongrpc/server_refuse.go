package gabiongrpc

import (
	"context"
	"math/rand/v2"
	"strconv"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/gabion-go/gabion/internal/admission"
	"github.com/gabion-go/gabion/internal/serving"
)

// Metadata that servers write in the trailers of what they did not do. The names are those
// of the HTTP headers of package gabionhttp.
const (
	// MetadataRefused says why an [Admission] or a [Deadline] refused a call, before any
	// work was done. It is one of
	//
	//	queue-full  there was no room to wait
	//	too-long    it waited for as long as it may
	//	pushed-out  its place in the queue went to a tenant with fewer there, or to a higher priority
	//	over-share  its tenant has all that one may have
	//	deadline-short  less time is left than the work takes
	//	expired     its deadline has passed
	//	gone        its caller gave up
	//
	// A client knows by it that the server works and only has no room. From a dependency
	// with trust: internal it also knows that nothing was done, so that the call may be sent
	// again whatever it is. A method must not pass it on if it has done work of its own.
	MetadataRefused = "gabion-refused"

	// MetadataGaveUp says that the method's own call was repeated and given up: why, and
	// after how many attempts, as in "attempts_exhausted; attempts=3".
	MetadataGaveUp = "gabion-gave-up"

	// trailerPushback is how long clients are to wait before they call again, in
	// milliseconds. Clients do not call again if it is negative.
	trailerPushback = "grpc-retry-pushback-ms"
)

// AdmissionDomain is the domain of the ErrorInfo with which calls are refused. Its reason is
// that of [MetadataRefused] in capitals, such as QUEUE_FULL.
const AdmissionDomain = "admission.gabion"

var refusals = [admission.NumAnswers]struct {
	code         codes.Code
	name, reason string
	text         string
}{
	admission.QueueFull: {codes.Unavailable, "queue-full", "QUEUE_FULL", "the server has no room for more calls"},
	admission.TooLong:   {codes.Unavailable, "too-long", "TOO_LONG", "the server could not begin with the call in time"},
	admission.PushedOut: {codes.Unavailable, "pushed-out", "PUSHED_OUT", "the call's place in the queue went to another one"},
	admission.OverShare: {codes.ResourceExhausted, "over-share", "OVER_SHARE", "this tenant has as many calls here as it may have"},
	admission.Expired:   {codes.DeadlineExceeded, "expired", "EXPIRED", "the call's deadline passed before it was begun"},
	admission.Short:     {codes.ResourceExhausted, "deadline-short", "DEADLINE_SHORT", "less time is left than the work takes"},
	admission.Gone:      {codes.Canceled, "gone", "GONE", "the call was given up before it was begun"},
}

// refusal is what the caller gets of a call that was not let in.
type refusal struct {
	err     error
	trailer metadata.MD
}

// refused makes a refusal. Least is the least time to stay away; the most is twice that.
func refused(r serving.Result, least time.Duration) refusal {
	x := &refusals[r.Answer]
	trailer := metadata.MD{MetadataRefused: {x.name}}
	details := []protoadapt.MessageV1{&errdetails.ErrorInfo{Reason: x.reason, Domain: AdmissionDomain}}
	if x.code == codes.Unavailable || x.code == codes.ResourceExhausted {
		// In whole milliseconds, since the pushback is.
		after := (least + rand.N(least+1) + time.Millisecond - 1).Truncate(time.Millisecond)
		trailer[trailerPushback] = []string{strconv.FormatInt(after.Milliseconds(), 10)}
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(after)})
	}
	if r.Whole || r.Answer == admission.Expired {
		trailer[trailerPushback] = dontRetry
	}
	s := status.New(x.code, x.text)
	if detailed, err := s.WithDetails(details...); err == nil {
		s = detailed
	}
	return refusal{s.Err(), trailer}
}

var dontRetry = []string{"-1"}

// unary is the error of a unary call. Setting a trailer fails if there is no client to see
// it, as when the interceptor is called in a test.
func (r refusal) unary(ctx context.Context) error {
	_ = grpc.SetTrailer(ctx, r.trailer)
	return r.err
}

// stream is the error of a stream.
func (r refusal) stream(s grpc.ServerStream) error {
	s.SetTrailer(r.trailer)
	return r.err
}
