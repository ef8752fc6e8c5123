package gabionprom

import (
	"slices"

	"github.com/gabion-go/gabion/internal/breaker"
	"github.com/gabion-go/gabion/internal/terms"
	"github.com/gabion-go/gabion/policy"
)

// A server that scrapes sees by how much a counter grew, and not what it was born with: the
// first opening of a breaker is lost if its counter appears with 1. So what is counted of a
// dependency begins at zero. That is about 120 series, so it is so only for the first of
// many. What is counted by operation or by code appears when it first counts: names of
// operations come from traffic, and what is counted by them grows for as long as there is
// traffic.
const fromZero = 100 // dependencies

// What may count, and is exposed from zero.
var (
	refusing    = where(policy.Reason.Local)
	unavailable = where(policy.Reason.Unavailable)
	suppressing = []policy.Reason{
		policy.NotSafe, policy.BudgetExhausted, policy.AllFailing, policy.DeadlineShort, policy.RetryAfterTooLong,
		policy.DoNotRetry, policy.RetriesOff, policy.BodyNotRewindable,
	}
	// refusingRetries count as suppressed where an attempt was made before: one that was
	// refused at once is no retry.
	refusingRetries = []policy.Reason{
		policy.BreakerOpen, policy.BulkheadFull, policy.QueueTimeout, policy.ThrottledLocally, policy.RateLimited, policy.Paced,
	}
	skipping = append([]policy.Reason{policy.BudgetExhausted, policy.DeadlineShort, policy.RetryAfterTooLong, policy.RetriesOff}, refusingRetries...)
	breaking = []policy.Reason{policy.None, policy.IdleTimeout, policy.BodyTimeout}

	waiting = []string{terms.ForBackoff, terms.ForSuccess, terms.ForSlot, terms.ForPace, terms.ForRate, terms.ForQuota}

	// deciding and disposing are exposed from zero once one of them counts: not all
	// dependencies have keys or messages.
	deciding = []string{
		"first", "again", "recover", "replay", "in_flight", "mismatch", "outcome_unknown", "record_unreadable", "store_unavailable",
	}
	disposing = []string{
		"ack/done", "ack/duplicate", "retry/failed", "retry/in_progress", "retry/store_unavailable", "retry/record_unreadable",
		"retry/not_recorded", "retry/commit_unknown", "retry/stopped", "retry/refused", "retry/not_put_away", "dead_letter/permanent",
		"dead_letter/attempts_exhausted", "dead_letter/mismatch", "dead_letter/outcome_unknown", "dead_letter/expired", "dead_letter/no_id",
		"dead_letter/too_large", "dead_letter/header_unreadable", "dead_letter/unknown_version",
	}

	opening = []policy.BreakerCause{breaker.FailureRate, breaker.SlowRate, breaker.Failures, breaker.Consecutive}
	moving  = movesOf()
)

func where(is func(policy.Reason) bool) []policy.Reason {
	return slices.DeleteFunc(policy.Reasons(), func(r policy.Reason) bool { return !is(r) })
}

// movesOf are those that a breaker makes by itself, and those by hand that begin or end at
// one which is closed.
func movesOf() (all []move) {
	add := func(from, to policy.BreakerState, causes ...policy.BreakerCause) {
		for _, why := range causes {
			all = append(all, move{from, to, why})
		}
	}
	add(policy.StateClosed, policy.StateOpen, append(slices.Clone(opening), breaker.Forced)...)
	add(policy.StateClosed, policy.StateForcedOpen, breaker.Forced, breaker.Isolated)
	add(policy.StateClosed, policy.StateDisabled, breaker.Forced)
	add(policy.StateClosed, policy.StateObserveOnly, breaker.Forced)
	add(policy.StateOpen, policy.StateHalfOpen, breaker.CooldownOver, breaker.CallsRefused)
	add(policy.StateOpen, policy.StateClosed, breaker.WasReset)
	add(policy.StateHalfOpen, policy.StateOpen, breaker.ProbeFailed, breaker.ProbeExpired)
	add(policy.StateHalfOpen, policy.StateClosed, breaker.ProbesPassed, breaker.ProbeExpired, breaker.WasReset)
	add(policy.StateForcedOpen, policy.StateClosed, breaker.WasReset, breaker.Released)
	add(policy.StateForcedOpen, policy.StateHalfOpen, breaker.CooldownOver)
	add(policy.StateDisabled, policy.StateClosed, breaker.WasReset, breaker.OverrideOver)
	add(policy.StateObserveOnly, policy.StateClosed, breaker.WasReset, breaker.OverrideOver)
	return all
}

// withZeros adds the keys that are missing.
func withZeros[K comparable](counted map[K]uint64, zero bool, keys []K) map[K]uint64 {
	if counted == nil {
		counted = map[K]uint64{}
	}
	for _, k := range keys {
		if zero {
			counted[k] += 0
		}
	}
	return counted
}

// snapshotOf are the counts of words, with those that are zero.
func snapshotOf(w *words, zero bool, known []string) map[string]uint64 {
	all := map[string]uint64{}
	for word, n := range w.snapshot() {
		all[word] = n.Load()
	}
	return withZeros(all, zero, known)
}
