package gabionprom_test

import (
	"testing"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/contrib/gabionprom"
	"github.com/gabion-go/gabion/internal/breaker"
	"github.com/gabion-go/gabion/internal/terms"
	"github.com/gabion-go/gabion/policy"
)

// told returns what is exposed after events, each of dependency d and operation o.
func told(t *testing.T, events ...gabion.Event) scraped {
	t.Helper()
	m := gabionprom.New(gabionprom.Config{})
	tell(m, t, events...)
	return scrape(t, m)
}

func tell(m *gabionprom.Metrics, t testing.TB, events ...gabion.Event) {
	t.Helper()
	for _, e := range events {
		if e.Dependency == "" {
			e.Dependency, e.Operation = "d", "o"
		}
		m.Observe(t.Context(), e)
	}
}

const ms = time.Millisecond

func sent(n uint8, left time.Duration) gabion.Event {
	return gabion.Event{Kind: policy.KindAttemptSent, Attempt: n, Left: left}
}

func settled(n uint8, c policy.Class, took time.Duration) gabion.Event {
	return gabion.Event{Kind: policy.KindAttemptSettled, Attempt: n, Class: c, Took: took}
}

func returned(why policy.Reason, attempts, hedges uint8) gabion.Event {
	return gabion.Event{Kind: policy.KindReturned, Reason: why, Attempt: attempts, Hedges: hedges, Took: 100 * ms}
}

func with(e gabion.Event, change func(*gabion.Event)) gabion.Event { change(&e); return e }

// expect is what a series is, over all its labels that are not named.
type expect struct {
	want   float64
	name   string
	labels []string
}

func series(want float64, name string, labels ...string) expect { return expect{want, name, labels} }

var countings = []struct {
	name   string
	events []gabion.Event
	want   []expect
}{
	{"a success", []gabion.Event{sent(1, time.Second), settled(1, policy.ClassSuccess, 10*ms), returned(policy.None, 1, 0)}, []expect{
		series(1, "gabion_calls_total", "dependency=d", "operation=o", "outcome=ok"),
		series(1, "gabion_attempts_total", "kind=first", "result=success"),
		series(1, "gabion_attempts_total"),
		series(1, "gabion_call_duration_seconds", "result=success", "retried=no"),
		series(1, "gabion_attempt_duration_seconds", "result=success"),
		series(1, "gabion_deadline_remaining_seconds"),
		series(1, "gabion_attempts_until_success"),
		series(0, "gabion_retried_calls_total"),
		series(0, "gabion_hedges_total"),
	}},
	{"a call without a deadline has none left", []gabion.Event{sent(1, policy.NoDeadline)}, []expect{
		series(0, "gabion_deadline_remaining_seconds"),
	}},
	{"a retry that helped", []gabion.Event{
		sent(1, time.Second), with(settled(1, policy.ClassServer, ms), func(e *gabion.Event) { e.Code = "503" }),
		with(sent(2, time.Second), func(e *gabion.Event) { e.Class, e.Code = policy.ClassServer, "503" }),
		settled(2, policy.ClassSuccess, ms), returned(policy.None, 2, 0),
	}, []expect{
		series(1, "gabion_retries_total", "code=503", "operation=o"),
		series(1, "gabion_attempts_total", "kind=retry", "result=success"),
		series(1, "gabion_attempts_total", "kind=first", "result=server"),
		series(1, "gabion_retried_calls_total", "result=success"),
		series(1, "gabion_call_duration_seconds", "result=success", "retried=yes"),
	}},
	{"a retry of a failure without an answer is of its class", []gabion.Event{with(sent(2, ms), func(e *gabion.Event) { e.Class = policy.ClassNetwork })}, []expect{
		series(1, "gabion_retries_total", "code=network"),
	}},
	{"a hedge is no retry", []gabion.Event{
		sent(1, time.Second), with(sent(2, time.Second), func(e *gabion.Event) { e.Hedge = true }),
		with(settled(2, policy.ClassSuccess, ms), func(e *gabion.Event) { e.Hedge = true }),
		with(returned(policy.None, 2, 1), func(e *gabion.Event) { e.Hedge = true }),
		with(settled(1, policy.ClassIgnored, 5*ms), func(e *gabion.Event) { e.Kind = policy.KindLoserSettled }),
	}, []expect{
		series(0, "gabion_retries_total"),
		series(0, "gabion_retried_calls_total"),
		series(1, "gabion_call_duration_seconds", "retried=no"),
		series(1, "gabion_attempts_total", "kind=hedge", "result=success"),
		series(1, "gabion_attempts_total", "kind=first", "result=ignored"),
		series(1, "gabion_hedges_total", "won=yes"),
		series(0, "gabion_hedges_total", "won=no"),
		series(1, "gabion_attempt_duration_seconds"),
	}},
	{"a hedge that lost, and a retry", []gabion.Event{returned(policy.None, 3, 1)}, []expect{
		series(1, "gabion_hedges_total", "won=no"),
		series(0, "gabion_hedges_total", "won=yes"),
		series(1, "gabion_retried_calls_total", "result=success"),
	}},
	{"a budget that is spent", []gabion.Event{returned(policy.BudgetExhausted, 1, 0)}, []expect{
		series(1, "gabion_retries_suppressed_total", "reason=budget_exhausted"),
		series(1, "gabion_calls_total", "outcome=budget_exhausted"),
		series(0, "gabion_attempts_until_success"),
	}},
	{"attempts that are used up suppress nothing", []gabion.Event{returned(policy.AttemptsExhausted, 3, 0)}, []expect{
		series(0, "gabion_retries_suppressed_total"),
		series(1, "gabion_retried_calls_total", "result=failure"),
	}},
	{"a breaker that refuses the first attempt suppresses no retry", []gabion.Event{
		{Kind: policy.KindAttemptRefused, Reason: policy.BreakerOpen, Attempt: 1}, returned(policy.BreakerOpen, 0, 0),
	}, []expect{
		series(0, "gabion_retries_suppressed_total"),
		series(1, "gabion_attempts_refused_total", "reason=breaker_open"),
	}},
	{"a breaker that refuses a retry does", []gabion.Event{returned(policy.BreakerOpen, 1, 0)}, []expect{
		series(1, "gabion_retries_suppressed_total", "reason=breaker_open"),
	}},
	{"a caller who left", []gabion.Event{settled(1, policy.ClassIgnored, ms), returned(policy.Canceled, 1, 0)}, []expect{
		series(1, "gabion_calls_total", "outcome=canceled"),
		series(1, "gabion_call_duration_seconds", "result=canceled"),
		series(0, "gabion_attempt_duration_seconds"),
	}},
	{"each layer of time", []gabion.Event{
		with(settled(1, policy.ClassTimeout, ms), func(e *gabion.Event) { e.Reason = policy.AttemptTimeout }),
		with(settled(2, policy.ClassTimeout, ms), func(e *gabion.Event) { e.Reason = policy.CallTimeout }), returned(policy.CallTimeout, 2, 0),
		{Kind: policy.KindBodyFailed, Reason: policy.IdleTimeout}, {Kind: policy.KindBodyFailed, Reason: policy.BodyTimeout}, {Kind: policy.KindBodyFailed},
		{Kind: policy.KindAttemptRefused, Reason: policy.QueueTimeout},
	}, []expect{
		series(1, "gabion_timeouts_total", "layer=attempt"), series(1, "gabion_timeouts_total", "layer=call"),
		series(1, "gabion_timeouts_total", "layer=idle"), series(1, "gabion_timeouts_total", "layer=body"), series(1, "gabion_timeouts_total", "layer=queue"),
		series(3, "gabion_results_broken_total"), series(1, "gabion_results_broken_total", "reason=ok"),
	}},
	{"a slow attempt", []gabion.Event{with(settled(1, policy.ClassSuccess, time.Second), func(e *gabion.Event) { e.Slow = true })}, []expect{
		series(1, "gabion_slow_attempts_total", "operation=o"),
	}},
	{"waits", []gabion.Event{{Kind: policy.KindWaiting, Wait: terms.ForSlot}, {Kind: policy.KindWaiting, Wait: terms.ForBackoff}}, []expect{
		series(1, "gabion_waits_total", "wait=slot"), series(1, "gabion_waits_total", "wait=backoff"),
	}},
	{"a breaker that opens and closes", []gabion.Event{
		{Kind: policy.KindBreakerMoved, To: policy.StateOpen, Cause: breaker.FailureRate},
		{Kind: policy.KindBreakerMoved, From: policy.StateOpen, To: policy.StateHalfOpen, Cause: breaker.CooldownOver},
		{Kind: policy.KindBreakerMoved, From: policy.StateHalfOpen, Cause: breaker.ProbesPassed},
		{Kind: policy.KindBreakerMoved, To: policy.StateForcedOpen, Cause: breaker.Forced},
		{Kind: policy.KindBreakerExceeded, Cause: breaker.SlowRate},
	}, []expect{
		series(1, "gabion_breaker_opens_total"),
		series(4, "gabion_breaker_transitions_total"),
		series(1, "gabion_breaker_transitions_total", "from=closed", "to=open", "cause=failure_rate"),
		series(1, "gabion_breaker_would_open_total", "cause=slow_rate"),
	}},
	{"a breaker whose probes fail opened once", []gabion.Event{
		{Kind: policy.KindBreakerMoved, To: policy.StateOpen, Cause: breaker.FailureRate},
		{Kind: policy.KindBreakerMoved, From: policy.StateOpen, To: policy.StateHalfOpen, Cause: breaker.CooldownOver},
		{Kind: policy.KindBreakerMoved, From: policy.StateHalfOpen, To: policy.StateOpen, Cause: breaker.ProbeFailed},
		{Kind: policy.KindBreakerMoved, From: policy.StateOpen, To: policy.StateHalfOpen, Cause: breaker.CooldownOver},
		{Kind: policy.KindBreakerMoved, From: policy.StateHalfOpen, To: policy.StateOpen, Cause: breaker.ProbeFailed},
	}, []expect{
		series(1, "gabion_breaker_opens_total"),
		series(2, "gabion_breaker_transitions_total", "from=half_open", "to=open"),
	}},
	{"a breaker that closes and opens again opened twice", []gabion.Event{
		{Kind: policy.KindBreakerMoved, To: policy.StateOpen, Cause: breaker.FailureRate},
		{Kind: policy.KindBreakerMoved, From: policy.StateHalfOpen, Cause: breaker.ProbesPassed},
		{Kind: policy.KindBreakerMoved, To: policy.StateOpen, Cause: breaker.FailureRate},
	}, []expect{series(2, "gabion_breaker_opens_total")}},
	{"a quiet dependency has counters to grow from", []gabion.Event{returned(policy.None, 1, 0)}, []expect{
		series(0, "gabion_breaker_opens_total", "dependency=d"), series(0, "gabion_resent_below_total", "dependency=d"),
	}},
	{"what happens to a dependency", []gabion.Event{
		{Kind: policy.KindResent, Count: 3}, {Kind: policy.KindEventsLost, Count: 7}, {Kind: policy.KindLettersLost, Count: 9}, {Kind: policy.KindPaceSet}, {Kind: policy.KindLimitMoved, Count: 5},
		{Kind: policy.KindReloaded}, {Kind: policy.KindRetriesSwitched}, {Kind: policy.KindOutlived}, {Kind: policy.KindFellBack, Reason: policy.BreakerOpen},
		{Kind: policy.KindHedgeSkipped, Reason: policy.BudgetExhausted},
	}, []expect{
		series(3, "gabion_resent_below_total"), series(7, "gabion_events_lost_total"), series(9, "gabion_dead_letters_lost_total"), series(1, "gabion_pace_set_total"),
		series(1, "gabion_bulkhead_limit_changes_total"), series(1, "gabion_policy_reloads_total"), series(1, "gabion_retries_switched_total"),
		series(1, "gabion_results_outlived_total"), series(1, "gabion_fallbacks_total", "reason=breaker_open"),
		series(1, "gabion_hedges_skipped_total", "reason=budget_exhausted"),
	}},
	{"keys and messages", []gabion.Event{
		{Kind: policy.KindKeyDecided, Code: "replay"}, {Kind: policy.KindKeyDecided, Code: "mismatch"},
		{Kind: policy.KindMessageDisposed, Code: "dead_letter/permanent"}, {Kind: policy.KindMessageDisposed, Code: "ack"},
	}, []expect{
		series(1, "gabion_idempotency_total", "result=mismatch"), series(1, "gabion_idempotency_total", "result=replay"),
		series(1, "gabion_messages_total", "disposition=dead_letter", "reason=permanent"), series(1, "gabion_messages_total", "disposition=ack", "reason="),
	}},
}

func TestEventsAreCounted(t *testing.T) {
	for _, c := range countings {
		t.Run(c.name, func(t *testing.T) {
			got := told(t, c.events...)
			for _, x := range c.want {
				if sum := got.sum(x.name, x.labels...); sum != x.want {
					t.Errorf("%s%v is %v, want %v", x.name, x.labels, sum, x.want)
				}
			}
		})
	}
	for _, name := range []string{"gabion_breaker_opens_total", "gabion_resent_below_total"} {
		if len(told(t, returned(policy.None, 1, 0))[name].GetMetric()) != 1 {
			t.Errorf("%s is not there from the beginning: its first increase would be missed", name)
		}
	}
}

func TestMeanAttemptsCountNoHedges(t *testing.T) {
	got := told(t, returned(policy.None, 1, 0), returned(policy.None, 4, 1), returned(policy.None, 12, 0), returned(policy.AttemptsExhausted, 5, 0))
	h := got["gabion_attempts_until_success"].GetMetric()[0].GetHistogram()
	if h.GetSampleCount() != 3 || h.GetSampleSum() != 16 {
		t.Errorf("%d successes with %v attempts, want 3 with 16", h.GetSampleCount(), h.GetSampleSum())
	}
	for i, want := range []uint64{1, 1, 2, 2, 2, 2, 2, 2} {
		if b := h.GetBucket()[i]; b.GetCumulativeCount() != want {
			t.Errorf("%v attempts or fewer: %d, want %d", b.GetUpperBound(), b.GetCumulativeCount(), want)
		}
	}
}
