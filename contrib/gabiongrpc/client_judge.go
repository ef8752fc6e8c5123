package gabiongrpc

import (
	"math"
	"strconv"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/classify"
	"github.com/gabion-go/gabion/internal/grpccode"
	"github.com/gabion-go/gabion/policy"
)

// metadataPushback is the trailer in which a server says when to try again, in
// milliseconds. What is no number, or negative, says never (gRFC A6).
const metadataPushback = "grpc-retry-pushback-ms"

// outcome says what an attempt brought.
func (a *attempt) outcome(err error) policy.Outcome {
	o := a.means(err)
	a.visited(&o)
	return o
}

func (a *attempt) means(err error) policy.Outcome {
	o := policy.Outcome{Class: policy.ClassSuccess}
	if err != nil {
		o = a.failure(err)
	}
	if a.of.asked == nil || o.Class == policy.ClassIgnored {
		return o
	}
	said := a.of.asked(a.reply, err)
	switch said.Class {
	case policy.ClassUndecided, policy.ClassSuccess, policy.ClassUnclassified:
		return o
	}
	if o.NeverSent {
		said.NeverSent, said.Effect = true, policy.NoEffect
	}
	said.Stop = said.Stop || o.Stop
	if said.Class.Transient() && !said.HasAfter {
		said.HasAfter, said.After, said.Exact, said.Alone = o.HasAfter, o.After, o.Exact, o.Alone
	}
	return said
}

// failure says what the error of an attempt means.
func (a *attempt) failure(err error) policy.Outcome {
	o := classify.Rules{GRPC: a.of.policy.GRPC}.Error(err)
	s := statusOf(err)
	if s == nil {
		return a.never(o)
	}
	switch s.Code() {
	case codes.Unavailable, codes.Canceled:
		switch {
		case a.conn != nil && a.conn.GetState() == connectivity.Shutdown: // by its owner, who gives its calls up
			o.Class = policy.ClassIgnored
			if a.Err() == nil && gabion.EndpointOf(a) != (policy.Endpoint{}) { // or one endpoint's, and others may answer
				o.Class = policy.ClassNetwork
			}
		case s.Code() == codes.Canceled && a.Err() == nil: // the caller did not cancel it
			o.Class = policy.ClassUnclassified
		}
	case codes.Internal:
		if a.kept != unkept {
			o.Class = policy.ClassClient
		}
	case codes.DeadlineExceeded:
		if a.late() {
			o.Class = policy.ClassTimeout
		}
	case codes.ResourceExhausted:
		if a.kept != unkept {
			o.Class = policy.ClassClient // whatever the policy says of the code: it is no server's
		} else if retryInfo(s) > 0 && o.Class == policy.ClassClient && !a.permanent(grpccode.ResourceExhausted) {
			o.Class = policy.ClassThrottled // who says when to come back asks for it
		}
	}
	if problem := keyProblem(s); problem != 0 {
		o = problem.Outcome()
		o.Code = policy.GRPCCode(s.Code()).String()
	}
	a.obey(s, &o)
	if a.trailer[MetadataRefused] != nil && a.trailer[MetadataGaveUp] == nil {
		a.declined(s.Code(), &o)
	}
	return a.never(o)
}

// never adds to o what grpc-go shows: that nothing left.
func (a *attempt) never(o policy.Outcome) policy.Outcome {
	if a.unsent() || a.kept == unfitted {
		o.NeverSent, o.Effect = true, policy.NoEffect
	}
	return o
}

func (a *attempt) permanent(code policy.GRPCCode) bool {
	for _, c := range a.of.policy.GRPC.Permanent {
		if c == code {
			return true
		}
	}
	return false
}

// late reports whether the time is over that the server was given, or that the
// connection's service config gives, which may be less than the attempt's own.
func (a *attempt) late() bool {
	if at, ok := a.Deadline(); ok && !time.Now().Before(at) {
		return true
	}
	if a.conn == nil {
		return false
	}
	limit := a.conn.GetMethodConfig(a.of.method).Timeout
	return limit != nil && time.Since(a.began) >= *limit
}

// obey adds what the server says of when to try again: by pushback, or by RetryInfo.
func (a *attempt) obey(s *status.Status, o *policy.Outcome) {
	if after := retryInfo(s); after > 0 {
		o.HasAfter, o.After = true, after
	}
	said := a.trailer[metadataPushback]
	if len(said) == 0 {
		return
	}
	n, err := strconv.ParseInt(said[0], 10, 64)
	if len(said) > 1 || err != nil || n < 0 {
		o.Stop = true
		return
	}
	if o.Class.Transient() {
		o.HasAfter, o.Exact, o.Alone = true, true, true
		o.After = time.Duration(min(n, math.MaxInt64/int64(time.Millisecond))) * time.Millisecond
	}
}

// statusOf returns the status that err has, or nil. Unlike status.FromError it does not
// make one for an error that has none.
func statusOf(err error) *status.Status {
	if s, ok := status.FromError(err); ok && err != nil && s.Code() != codes.OK {
		return s
	}
	return nil
}

// retryInfo is the time that the details of s ask for; zero if they do not.
func retryInfo(s *status.Status) time.Duration {
	for _, any := range s.Proto().GetDetails() {
		var info errdetails.RetryInfo
		if any.MessageIs(&info) && any.UnmarshalTo(&info) == nil && info.GetRetryDelay().IsValid() {
			return max(info.GetRetryDelay().AsDuration(), 0)
		}
	}
	return 0
}

// keyDomain is the domain of the ErrorInfo with which package grpcidem refuses.
const keyDomain = "idempotency.gabion"

var keyReasons = map[string]gabion.KeyProblem{
	"KEY_MALFORMED": gabion.KeyMalformed, "KEY_REUSED": gabion.KeyReused, "IN_PROGRESS": gabion.KeyInFlight,
	"RESPONSE_NOT_RETAINED": gabion.KeyAnswerNotKept, "OUTCOME_UNKNOWN": gabion.KeyOutcomeUnknown,
}

// keyProblem is what a server says of the call's idempotency key; zero if nothing.
func keyProblem(s *status.Status) gabion.KeyProblem {
	for _, any := range s.Proto().GetDetails() {
		var info errdetails.ErrorInfo
		if any.MessageIs(&info) && any.UnmarshalTo(&info) == nil && info.GetDomain() == keyDomain {
			return keyReasons[info.GetReason()]
		}
	}
	return 0
}

// idempotent reports whether a method may be called twice with the effect of once.
func (c *Client) idempotent(method string) bool {
	if c.Idempotent != nil {
		return c.Idempotent(method)
	}
	return declaredIdempotent(method)
}
