package gabionhttp

import (
	"net/http"
	"strconv"
	"strings"
)

// repeatedAbove reports whether an SDK says that this request is its own repetition of
// an earlier one, which went through all of the policy's attempts already, so that
// this one gets a single attempt and the layers do not multiply. openai-go,
// anthropic-sdk-go and others of their making count in X-Stainless-Retry-Count, and
// the AWS SDKs in Amz-Sdk-Request: "attempt=2; max=3".
func repeatedAbove(h http.Header) bool {
	if above(first(h, "X-Stainless-Retry-Count"), 0) {
		return true
	}
	for part := range strings.SplitSeq(first(h, "Amz-Sdk-Request"), ";") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		if name == "attempt" && above(value, 1) {
			return true
		}
	}
	return false
}

// above reports whether text is a number above n. Most requests have no text:
// Atoi would allocate an error for it.
func above(text string, n int) bool {
	if text == "" {
		return false
	}
	is, err := strconv.Atoi(text)
	return err == nil && is > n
}

// first is Get for names in their canonical form.
func first(h http.Header, name string) string {
	if v := h[name]; len(v) > 0 {
		return v[0]
	}
	return ""
}

// retried is a failure that gabion has already retried. It answers the AWS SDK, which asks an
// error whether to retry it and otherwise would multiply the attempts.
type retried struct{ error }

// Unwrap returns the failure.
func (r retried) Unwrap() error { return r.error }

// RetryableError implements what aws/retry.RetryableError asks for.
func (retried) RetryableError() bool { return false }
