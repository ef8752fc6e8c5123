package gabion

import (
	"fmt"
	"strings"

	"github.com/gabion-go/gabion/internal/why"
	"github.com/gabion-go/gabion/policy"
)

// reasonsPage is where each reason has its heading.
const reasonsPage = "https://github.com/gabion-go/gabion/blob/main/docs/reasons.md"

// advice is what the reader of an error can do, by its reason. Each section of
// docs/reasons.md ends with it.
var advice = [...]string{
	policy.None:              "nothing: the call succeeded",
	policy.NotRetryable:      "fix the request: the same one gets the same answer",
	policy.UnclassifiedError: "say what the error means where you know it: classify.Transient, Permanent or Business, or with WithClassify",
	policy.NotSafe:           "give the call a key (WithKey) and send what gabion.Key(ctx) returns, declare the work safe (WithIdempotent), or live with one attempt",
	policy.AttemptsExhausted: "look at the last error; more attempts rarely help where these did not",
	policy.BudgetExhausted:   "find out why so many calls fail; do not raise the budget during an outage. In a test, where nothing was earned yet, take gabiontest.FreeRetries",
	policy.AllFailing:        "look at the last error: nothing has worked here since the program began, and other calls fail as well",
	policy.DeadlineShort:     "give the call more time, or each attempt less, or wait less between them",
	policy.RetryAfterTooLong: "come back after RetryAfter, from a queue or a job; or raise retry.max_after and the deadline",
	policy.DoNotRetry:        "do not retry it here either; the last error says who asked for that",
	policy.RetriesOff:        "find out who switched retries off, and why, before SetRetries(true)",
	policy.BodyNotRewindable: "give the request a GetBody, or a body that can seek, or raise http.replay_limit",
	policy.AttemptTimeout:    "find out why attempts are slow, or raise timeout.attempt",
	policy.CallTimeout:       "find out what took the time; raise timeout.call, or the caller's own deadline",
	policy.IdleTimeout:       "read it again, from where it broke if the protocol can; raise timeout.idle, or turn it off, for streams that are silent for longer",
	policy.BodyTimeout:       "raise timeout.body to what the longest may take, or leave it out",
	policy.Canceled:          "nothing, if the caller did not want the answer any more; if the error is another one, fix the reader of the request's body",
	policy.BreakerOpen:       "fix the dependency; the breaker closes by itself once its probes succeed. Until then, use a fallback (DoOr)",
	policy.BulkheadFull:      "look for slow calls and for results that are never closed; else raise bulkhead.limit, or bulkhead.max where the limit is learned, or send less",
	policy.QueueTimeout:      "look for slow calls and for results that are never closed; else raise bulkhead.limit, or bulkhead.max where the limit is learned, or bulkhead.queue_timeout",
	policy.ThrottledLocally:  "send less: the dependency refuses more than it accepts",
	policy.RateLimited:       "send less, come back after RetryAfter, or raise rate_limit.rate or the quota if the dependency allows it",
	policy.Paced:             "come back after RetryAfter: the dependency asked for that time",
	policy.PoolExhausted:     "look for rows and transactions that are never closed, and for slow statements; else raise the pool's size together with bulkhead.limit, or send less",
	policy.WorkCrashed:       "fix the work: it panicked or ended its goroutine",
	policy.KeyMissing:        "make one key for each intent, store it with the intent, and pass it with WithKey",
	policy.OutcomeUnknown:    "ask the dependency what it did, by something other than the key, before you make a new one",
	policy.UnknownDependency: "name it in the configuration, or fix the name: the error says which are known",
	policy.Invalid:           "fix the call: the error says what is wrong with it",
}

// about names the numbers behind the reason.
func (e *Error) about() string {
	if e.Reason == policy.BreakerOpen {
		return e.Cause
	}
	return why.Numbers(e.Reason, e.Numbers)
}

// Format prints the long form for %+v: one thing to a line, with what to do and
// where to read more. Every other verb prints what it prints of any error.
func (e *Error) Format(f fmt.State, verb rune) {
	type plain Error // without methods, lest fmt call this again
	switch {
	case verb == 'v' && f.Flag('+'):
		fmt.Fprint(f, e.long())
	case verb == 'v' && f.Flag('#'):
		fmt.Fprint(f, strings.Replace(fmt.Sprintf("%#v", (*plain)(e)), "gabion.plain", "gabion.Error", 1))
	case strings.ContainsRune("vsqxX", verb):
		fmt.Fprintf(f, fmt.FormatString(f, verb), e.Error())
	default:
		fmt.Fprintf(f, fmt.FormatString(f, verb), (*plain)(e))
	}
}

func (e *Error) long() string {
	b := e.head()
	if e.Effect == policy.NoEffect {
		b.WriteString("\n  effect: none, it has not happened")
	} else {
		b.WriteString("\n  effect: unknown, it may have happened")
	}
	if e.Err != nil {
		fmt.Fprintf(b, "\n  error: %s", strings.ReplaceAll(fmt.Sprintf("%+v", e.Err), "\n", "\n  "))
	}
	if int(e.Reason) < len(advice) {
		fmt.Fprintf(b, "\n  what to do: %s", advice[e.Reason])
	}
	fmt.Fprintf(b, "\n  more: %s#%s", reasonsPage, e.Reason)
	return b.String()
}
