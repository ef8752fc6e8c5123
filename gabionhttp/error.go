package gabionhttp

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/policy"
)

// answers are the statuses of calls that ended for a reason: 504 where time ran out, 429 where a
// rate or a server's Retry-After holds the call back, so that callers slow down and open no
// breaker, and 500 where the fault is ours. All others are 503: the dependency can't serve now.
var answers = map[gabion.Reason]int{
	policy.AttemptTimeout:    http.StatusGatewayTimeout,
	policy.CallTimeout:       http.StatusGatewayTimeout,
	policy.DeadlineShort:     http.StatusGatewayTimeout,
	policy.IdleTimeout:       http.StatusGatewayTimeout,
	policy.BodyTimeout:       http.StatusGatewayTimeout,
	policy.RateLimited:       http.StatusTooManyRequests,
	policy.Paced:             http.StatusTooManyRequests,
	policy.NotRetryable:      http.StatusBadGateway,
	policy.UnclassifiedError: http.StatusBadGateway,
	policy.NotSafe:           http.StatusBadGateway,
	policy.BodyNotRewindable: http.StatusBadGateway,
	policy.WorkCrashed:       http.StatusInternalServerError,
	policy.KeyMissing:        http.StatusInternalServerError,
	policy.OutcomeUnknown:    http.StatusBadGateway,
	policy.UnknownDependency: http.StatusInternalServerError,
	policy.Invalid:           http.StatusInternalServerError,
}

// Error answers a request whose work ended with err, so that retrying stops where
// it was done. For a [*gabion.Error] that is the status that its reason calls for,
// Retry-After where it is known, and "X-Should-Retry: false", the mark that stops
// retries in every layer above: three layers of three attempts are 27 requests
// without it and 3 with it. It is written where the call was repeated in vain, with
// [HeaderGaveUp] beside it, where nothing was sent, and where repeating can't help; not
// where one attempt was all that there was to be. The body is the reason's name alone, since errors tell
// of internals. Any other error is a plain 500.
//
// The statuses are in docs/http.md. A permanent failure of the dependency is a 502:
// a "no" that is meant for this service's caller, such as a declined card, the handler
// should answer by itself.
//
// Like [http.Error] it does not end the request: the handler should return.
func Error(w http.ResponseWriter, err error) {
	var e *gabion.Error
	if !errors.As(err, &e) || e == nil {
		http.Error(w, http.StatusText(http.StatusInternalServerError), http.StatusInternalServerError)
		return
	}
	status, ok := answers[e.Reason]
	switch {
	case e.Reason == policy.NotRetryable && errors.Is(e, context.DeadlineExceeded): // no time was left to pass on, by any transport
		status = http.StatusGatewayTimeout
	case !ok:
		status = http.StatusServiceUnavailable
	}
	markError(w.Header(), e)
	if e.RetryAfter > 0 {
		// Rounded up: a caller must not come back too early. In whole numbers, since the longest
		// duration has more seconds than a 32-bit int holds.
		w.Header().Set("Retry-After", strconv.FormatInt(int64((e.RetryAfter-1)/time.Second)+1, 10))
	}
	http.Error(w, e.Reason.String(), status)
}
