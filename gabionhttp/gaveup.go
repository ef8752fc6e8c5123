package gabionhttp

import (
	"net/http"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/internal/serving"
	"github.com/gabion-go/gabion/policy"
)

// HeaderGaveUp is written on an answer that gabion repeated and gave up on, beside
// X-Should-Retry: why, and after how many attempts, as in
// "attempts_exhausted; attempts=3".
const HeaderGaveUp = "Gabion-Gave-Up"

// headerShouldRetry with the value "false" stops retries in every layer above the
// one that wrote it.
const headerShouldRetry = "X-Should-Retry"

// mark tells the layers above, SDKs among them, that retrying was done here, in case the answer
// is passed on to them (C75, C116). An answer that no layer would retry, such as a 404 after a
// 503, needs no mark.
func mark(resp *http.Response, why *gabion.Error) {
	if !inVain(why) || why.Reason == policy.NotRetryable {
		return
	}
	if resp.Header == nil {
		resp.Header = make(http.Header)
	}
	gaveUp(resp.Header, why)
	stopRPC(resp)
}

func inVain(why *gabion.Error) bool { return serving.InVain(why.Reason, why.Attempts) }

func gaveUp(h http.Header, why *gabion.Error) {
	h.Set(headerShouldRetry, "false")
	h.Set(HeaderGaveUp, serving.GaveUp(why.Reason, why.Attempts))
}

// markError is mark for an answer of this server's own, made of why.
func markError(h http.Header, why *gabion.Error) {
	switch {
	case inVain(why):
		gaveUp(h, why)
	case serving.Final(why.Reason, why.Attempts):
		h.Set(headerShouldRetry, "false")
	}
}
