package gabionhttp

import (
	"net/http"
	"strconv"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/policy"
)

// HeaderGaveUp is written on an answer that gabion repeated and gave up on, beside
// X-Should-Retry: why, and after how many attempts, as in
// "attempts_exhausted; attempts=3".
const HeaderGaveUp = "Gabion-Gave-Up"

// headerShouldRetry with the value "false" stops retries in every layer above the
// one that wrote it.
const headerShouldRetry = "X-Should-Retry"

// mark tells the layers above, SDKs among them, that retrying was done here, should
// the answer be passed on to them (C75, C116). What asking
// again doesn't change, such as a 404 after a 503, needs no mark: nobody does.
func mark(resp *http.Response, why *gabion.Error) {
	if !inVain(why) || why.Reason == policy.NotRetryable {
		return
	}
	if resp.Header == nil {
		resp.Header = make(http.Header)
	}
	gaveUp(resp.Header, why)
}

// inVain reports whether gabion repeated a request and gave up. What it sent once it
// leaves to whoever is above and may know that repeating is safe, whatever the reason;
// and also what it repeated while that was surely safe, such as a POST whose first
// connection was refused, and then might not repeat any more.
func inVain(why *gabion.Error) bool {
	switch why.Reason {
	case policy.NotSafe, policy.BodyNotRewindable, policy.RetriesOff:
		return false
	}
	return why.Attempts > 1
}

func gaveUp(h http.Header, why *gabion.Error) {
	h.Set(headerShouldRetry, "false")
	h.Set(HeaderGaveUp, why.Reason.String()+"; attempts="+strconv.Itoa(why.Attempts))
}

// leftToOthers are the reasons for which a call ends after one attempt without a
// word on whether another would help: its retrying was never done here.
var leftToOthers = map[gabion.Reason]bool{
	policy.NotSafe: true, policy.BodyNotRewindable: true, policy.RetriesOff: true,
	policy.AttemptsExhausted: true, policy.BudgetExhausted: true,
	policy.DeadlineShort: true, policy.RetryAfterTooLong: true,
	policy.AttemptTimeout: true, policy.CallTimeout: true,
	policy.IdleTimeout: true, policy.BodyTimeout: true,
}

// markError is mark for an answer of this server's own, made of why. What was refused
// unsent is a server shedding load, or a mistake that stays one; and what the
// dependency called permanent, or not to be retried, the new status no longer says.
func markError(h http.Header, why *gabion.Error) {
	switch {
	case inVain(why):
		gaveUp(h, why)
	case why.Attempts == 0 || !leftToOthers[why.Reason]:
		h.Set(headerShouldRetry, "false")
	}
}
