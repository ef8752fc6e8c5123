package why

import (
	"slices"
	"strings"
	"testing"
	"time"

	_ "github.com/gabion-go/gabion/config" // answers policyfile
	"github.com/gabion-go/gabion/internal/breaker"
	"github.com/gabion-go/gabion/internal/policyfile"
	"github.com/gabion-go/gabion/internal/terms"
	"github.com/gabion-go/gabion/policy"
)

const at = policy.Instant(time.Minute)

func in(d time.Duration) policy.Instant { return at.Add(d) }

func TestEachDecisionIsSaidWithItsInputs(t *testing.T) {
	for fact, c := range map[string]struct {
		e       policy.Event
		want    string
		setting string
	}{
		"an attempt is sent": {
			policy.Event{Kind: policy.KindAttemptSent, Attempt: 1, Until: in(4 * time.Second), Left: 15 * time.Second},
			"attempt 1 sent, it may take 4s, the call has 15s left", "timeout.attempt",
		},
		"an attempt is sent with a measured timeout": {
			policy.Event{Kind: policy.KindAttemptSent, Attempt: 1, Until: in(302 * time.Millisecond), Left: 15 * time.Second, Measured: true},
			"attempt 1 sent, it may take 302ms (measured), the call has 15s left", "timeout.percentile",
		},
		"an attempt ran into a measured timeout": {
			policy.Event{Kind: policy.KindAttemptSettled, Attempt: 1, Class: policy.ClassTimeout, Reason: policy.AttemptTimeout, Took: 302 * time.Millisecond, Measured: true},
			"attempt 1 failed after 302ms: timeout, attempt_timeout (measured), it has not happened", "timeout.percentile",
		},
		"a call whose last attempt ran into a measured timeout": {
			policy.Event{
				Kind: policy.KindReturned, Attempt: 1, Reason: policy.NotSafe, Took: 302 * time.Millisecond,
				Numbers: &policy.Numbers{Timeout: 302 * time.Millisecond, Percentile: 0.999},
			},
			"the call ended: not_safe (timeout 302ms, measured p99.9), 1 attempt in 302ms, it has not happened", "safe",
		},
		"a call that needs more than a quota has": {
			policy.Event{Kind: policy.KindReturned, Reason: policy.RateLimited, Numbers: &policy.Numbers{Quota: "tokens", Uses: 300_000, Amount: 250_000}},
			"the call ended: rate_limited (it needs 300000 tokens, there are 250000 in all), nothing sent in 0s, it has not happened", "rate_limit.rate",
		},
		"a full store removes letters": {
			policy.Event{Kind: policy.KindLettersLost, Count: 2, Numbers: &policy.Numbers{Bytes: 4096, Waited: 90 * time.Minute}},
			"the store of dead letters is full: 2 that wait are removed, 4096 bytes, the oldest waited 1h30m0s", "",
		},
		"a full store removes one letter": {
			policy.Event{Kind: policy.KindLettersLost, Count: 1}, "the store of dead letters is full: 1 that waits is removed", "",
		},
		"an attempt repeats a failure": {
			policy.Event{Kind: policy.KindAttemptSent, Attempt: 2, Class: policy.ClassServer, Code: "503"}, "attempt 2 sent, because of server 503", "timeout.attempt",
		},
		"a hedge without a deadline, later than due": {
			policy.Event{Kind: policy.KindAttemptSent, Attempt: 2, Hedge: true, Until: policy.Never, Left: policy.NoDeadline, Due: in(-12 * time.Millisecond)},
			"attempt 2 (hedge) sent, the call has no deadline, 12ms late", "hedge.max",
		},
		"an attempt succeeds": {
			policy.Event{Kind: policy.KindAttemptSettled, Attempt: 1, Class: policy.ClassSuccess, Took: 12 * time.Millisecond, Code: "200", Slow: true},
			"attempt 1 succeeded in 12ms with 200, slow", "breaker.slow_call",
		},
		"an attempt fails": {
			policy.Event{Kind: policy.KindAttemptSettled, Attempt: 2, Class: policy.ClassServer, Took: 120 * time.Millisecond, Code: "503", Effect: policy.UnknownEffect},
			"attempt 2 failed after 120ms: server 503, it may have happened", "",
		},
		"an attempt times out": {
			policy.Event{Kind: policy.KindAttemptSettled, Attempt: 1, Class: policy.ClassTimeout, Reason: policy.AttemptTimeout, Took: 4 * time.Second, Slow: true},
			"attempt 1 failed after 4s: timeout, attempt_timeout, it has not happened, slow", "timeout.attempt",
		},
		"an attempt ends after its call": {
			policy.Event{Kind: policy.KindLoserSettled, Attempt: 1, Class: policy.ClassIgnored, Took: time.Second},
			"attempt 1 failed after 1s: ignored, it has not happened, after the call was over", "",
		},
		"a call waits for the backoff": {
			policy.Event{Kind: policy.KindWaiting, Wait: terms.ForBackoff, Attempt: 2, Until: in(830 * time.Millisecond)},
			"waits 830ms before attempt 2: the backoff", "retry.backoff.base",
		},
		"a call waits for a slot": {
			policy.Event{Kind: policy.KindWaiting, Wait: terms.ForSlot, Attempt: 1, Until: in(time.Second)},
			"waits at most 1s before attempt 1: for a free slot", "bulkhead.queue_timeout",
		},
		"a call waits for a slot for ever": {
			policy.Event{Kind: policy.KindWaiting, Wait: terms.ForSlot, Attempt: 1, Until: policy.Never},
			"waits before attempt 1: for a free slot", "bulkhead.queue_timeout",
		},
		"a breaker refuses": {
			policy.Event{Kind: policy.KindAttemptRefused, Reason: policy.BreakerOpen, Attempt: 1, Until: in(2 * time.Second)},
			"attempt 1 not made: breaker_open, come back in 2s", "breaker.open",
		},
		"a throttle refuses": {
			policy.Event{Kind: policy.KindAttemptRefused, Reason: policy.ThrottledLocally, Attempt: 1, Until: at, Numbers: &policy.Numbers{Requests: 50, Accepts: 20, Over: 2}},
			"attempt 1 not made: throttled_locally (50 requests, 20 accepted, k 2)", "throttle.k",
		},
		"a bulkhead is full": {
			policy.Event{Kind: policy.KindHedgeSkipped, Reason: policy.BulkheadFull, Attempt: 1, Numbers: &policy.Numbers{Limit: 10, InUse: 10, Queued: 20}},
			"no hedge: bulkhead_full (limit 10, 20 queued)", "bulkhead.limit",
		},
		"a call succeeds by a hedge": {
			policy.Event{Kind: policy.KindReturned, Attempt: 2, Hedges: 1, Hedge: true, Took: time.Second},
			"the call succeeded after 2 attempts (1 a hedge) in 1s, a hedge brought the answer", "",
		},
		"a call ends with its budget spent": {
			policy.Event{
				Kind: policy.KindReturned, Reason: policy.BudgetExhausted, Attempt: 1, Took: time.Second, Effect: policy.UnknownEffect, Code: "503",
				Numbers: &policy.Numbers{Level: 0.4, Ratio: 0.3, Successes: 34, Window: time.Second, Resends: 12},
			},
			"the call ended: budget_exhausted (0.4 re-sends left, each success earns 0.3, 34 successes in 1s, 12 sent so far), " +
				"1 attempt in 1s, it may have happened, last answer 503", "retry.budget.ratio",
		},
		"a call is refused": {
			policy.Event{Kind: policy.KindReturned, Reason: policy.DeadlineShort, Numbers: &policy.Numbers{Left: time.Second, Need: 1040 * time.Millisecond}},
			"the call ended: deadline_short (1s left, 1.04s needed), nothing sent in 0s, it has not happened", "timeout.call",
		},
		"a breaker opens by its rate": {
			policy.Event{
				Kind: policy.KindBreakerMoved, To: policy.StateOpen, Cause: breaker.FailureRate, Until: in(2 * time.Second),
				Numbers: &policy.Numbers{Calls: 40, Failures: 21, Rule: 0.5},
			},
			"breaker closed → open: 21 of 40 calls failed, 52.5 %, the rule is 50 %, for 2s", "breaker.failure_rate",
		},
		"a breaker opens by failures in a row": {
			policy.Event{Kind: policy.KindBreakerMoved, To: policy.StateOpen, Cause: breaker.Consecutive, Numbers: &policy.Numbers{Rule: 20}},
			"breaker closed → open: 20 failures in a row", "breaker.consecutive",
		},
		"an observing breaker": {
			policy.Event{Kind: policy.KindBreakerExceeded, Cause: breaker.SlowRate, Numbers: &policy.Numbers{Calls: 30, Slows: 30, Rule: 0.8}},
			"the breaker would have opened: 30 of 30 calls were slow, 100 %, the rule is 80 %", "breaker.slow_rate",
		},
		"a breaker is opened by hand": {
			policy.Event{Kind: policy.KindBreakerMoved, To: policy.StateForcedOpen, Cause: breaker.Forced},
			"breaker closed → forced_open: by hand", "",
		},
		"retries are switched off": {
			policy.Event{Kind: policy.KindRetriesSwitched, Reason: policy.RetriesOff}, "retries were switched off", "",
		},
		"retries are switched off for a time, by an operator": {
			policy.Event{Kind: policy.KindRetriesSwitched, Reason: policy.RetriesOff, Until: in(time.Hour), Code: "ann"},
			"retries were switched off, for 1h0m0s, by ann", "",
		},
		"the dependency asks for time": {
			policy.Event{Kind: policy.KindPaceSet, Until: in(time.Second)}, "the dependency asked for time: calls are spaced, for 1s", "pace.max",
		},
	} {
		t.Run(fact, func(t *testing.T) {
			c.e.At = at
			if got := Why(c.e); got != c.want {
				t.Errorf("says  %s\nwants %s", got, c.want)
			}
			if got := Setting(c.e); got != c.setting {
				t.Errorf("setting %q, want %q", got, c.setting)
			}
		})
	}
}

func TestAConflictIsRuledByItsOwnSettings(t *testing.T) {
	for want, e := range map[string]policy.Event{
		"retry.contention.backoff.base": {Kind: policy.KindWaiting, Wait: terms.ForBackoff},
		"retry.contention.attempts":     {Kind: policy.KindReturned, Reason: policy.AttemptsExhausted},
		"retry.contention.repeats":      {Kind: policy.KindReturned, Reason: policy.BudgetExhausted},
		"timeout.call":                  {Kind: policy.KindReturned, Reason: policy.DeadlineShort},
	} {
		if got := SettingAfter(e, policy.ClassContention); got != want {
			t.Errorf("%v: %q, want %q", e, got, want)
		}
	}
}

// A new kind, cause or reason has to be given words here.
func TestNothingIsWithoutWords(t *testing.T) {
	for _, k := range policy.Kinds() {
		got := Why(policy.Event{Kind: k})
		if got == "" || got == k.String() || strings.Contains(got, "unknown") {
			t.Errorf("%v is said as %q", k, got)
		}
	}
	for c := policy.BreakerCause(0); c.String() != "cause(unknown)"; c++ {
		for _, n := range []*policy.Numbers{nil, {}, {Calls: 40, Failures: 20, Slows: 20, Rule: 0.5}} {
			got := Why(policy.Event{Kind: policy.KindBreakerMoved, Cause: c, Numbers: n})
			if strings.HasSuffix(got, ": ") || strings.Contains(got, "NaN") {
				t.Errorf("%v is said as %q", c, got)
			}
		}
	}
	for _, r := range policy.Reasons() {
		if Reason(r) == "" {
			t.Errorf("%v has no words", r)
		}
	}
	if Why(policy.Event{Kind: 200, Cause: 200, Reason: 200}) == "" || Setting(policy.Event{Kind: 200}) != "" || Reason(200) != "" {
		t.Error("what is not known has no text, or a setting")
	}
}

// What a file can say is named as a file says it.
func TestEverySettingIsAKeyOfFiles(t *testing.T) {
	for _, c := range []policy.Class{policy.ClassUndecided, policy.ClassContention} {
		for _, k := range policy.Kinds() {
			for _, r := range policy.Reasons() {
				for cause := policy.BreakerCause(0); cause.String() != "cause(unknown)"; cause++ {
					for _, wait := range []string{"", terms.ForBackoff, terms.ForSuccess, terms.ForSlot, terms.ForPace, terms.ForRate} {
						e := policy.Event{Kind: k, Reason: r, Cause: cause, Wait: wait, Slow: true}
						if s := SettingAfter(e, c); s != "" && !slices.Contains(policyfile.Keys(), s) {
							t.Fatalf("%v %v %v %s: files have no %q", k, r, cause, wait, s)
						}
					}
				}
			}
		}
	}
	for wait := range ofWait {
		if waits[wait] == "" {
			t.Errorf("waiting for %s has no words", wait)
		}
	}
}
