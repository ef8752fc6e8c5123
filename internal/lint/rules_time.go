package lint

import (
	"cmp"
	"fmt"
	"time"

	"github.com/gabion-go/gabion/internal/formulas"
	"github.com/gabion-go/gabion/policy"
)

// timeRules are about timeouts.
var timeRules = []Rule{
	{
		ID: "G007", Name: "no-timeout", Severity: Warning,
		Title: "nothing ends a call but its caller's deadline",
		reads: []string{"timeout", "retry.attempts", "retry.backoff"},
		check: (*subject).noTimeout,
	},
	{
		ID: "G008", Name: "attempt-takes-the-call", Severity: Note,
		Title: "an attempt that hangs leaves no time for another",
		reads: []string{"timeout", "retry.attempts"},
		check: (*subject).attemptTakesTheCall,
	},
	{
		ID: "G009", Name: "body-never-ends", Severity: Warning,
		Title: "a body that falls silent is waited for without end",
		reads: []string{"timeout.idle", "timeout.body"},
		check: (*subject).bodyNeverEnds,
	},
	{
		ID: "G030", Name: "unusual-timeout", Severity: Warning,
		Title: "an attempt has less time than a network needs, or more than anybody waits",
		reads: []string{"timeout"},
		check: (*subject).unusualTimeout,
	},
	{
		ID: "G031", Name: "timeout-cuts-healthy", Severity: Warning, Needs: []string{"facts.p99"},
		Title: "the timeout is shorter than what attempts take when all is well",
		reads: []string{"timeout", "retry.attempts"},
		check: (*subject).timeoutCutsHealthy,
	},
	{
		ID: "G032", Name: "timeout-far-above", Severity: Note, Needs: []string{"facts.p999"},
		Title: "the timeout is many times what attempts take",
		reads: []string{"timeout"},
		check: (*subject).timeoutFarAbove,
	},
}

func (s *subject) noTimeout() {
	t := s.p.Timeout
	switch {
	case t.Call != policy.Off:
	case t.Attempt == policy.Off:
		s.findAs(Error, "timeout.call", "timeout.call and timeout.attempt are off: an attempt that hangs holds its caller, and its place in the bulkhead, until the caller gives up, if it ever does",
			"write timeout: {call: 15s, attempt: 4s}, or what your callers wait for")
	default:
		most := formulas.Worst(s.p)
		s.find("timeout.call", fmt.Sprintf("timeout.call is off: %s × %s + waits of up to %s = %s, and each Retry-After and each wait for a slot comes on top",
			s.count("retry.attempts", s.p.Retry.Attempts, "attempt"), s.time("timeout.attempt", t.Attempt),
			span(formulas.Waits(s.p.Retry.Backoff, s.p.Retry.Attempts-1, formulas.Longest)), span(most)),
			"write timeout.call: "+span(max(most, time.Second))+", or what your callers wait for")
	}
}

func (s *subject) attemptTakesTheCall() {
	t := s.p.Timeout
	if !s.retries() || t.Call <= 0 || measures(s) || t.Attempt > 0 && t.Attempt < t.Call {
		return
	}
	says := "timeout.attempt is off"
	if t.Attempt > 0 {
		says = fmt.Sprintf("timeout.attempt %s ≥ call timeout %s", s.time("timeout.attempt", t.Attempt), s.time("timeout.call", t.Call))
	}
	s.find("timeout.attempt", fmt.Sprintf("%s: an attempt that hangs takes the whole call, and none of the %s follows it: only failures that come quickly are retried",
		says, s.count("retry.attempts", s.p.Retry.Attempts-1, "other attempt")),
		cmp.Or(measurable(s), "write attempt: "+span(t.Call/2))+", or attempts: 1")
}

// measures reports whether the attempt's time is measured, for all that is known of the rate: for p99.9 it takes a thousand calls of the last
// twenty minutes.
func measures(s *subject) bool {
	q, rate := float64(s.p.Timeout.Percentile), float64(s.rate())
	return q > 0 && (rate <= 0 || (1-q)*rate*remembered.Seconds() >= 1)
}

// remembered is for how long latencies of a client that calls seldom are known.
const remembered = 20 * time.Minute

// measurable proposes a percentile that is known most of the time, which takes twice the calls. It is empty where there are too few for any.
func measurable(s *subject) string {
	switch calls := float64(s.rate()) * remembered.Seconds(); {
	case calls <= 0 || calls >= 2000:
		return "write attempt: p99.9, which is measured"
	case calls >= 200:
		return "write attempt: p99, which is measured"
	}
	return ""
}

func (s *subject) bodyNeverEnds() {
	if t := s.p.Timeout; t.Idle == policy.Off && t.Body <= 0 {
		s.find("timeout.idle", "timeout.idle and timeout.body are off: a body that falls silent holds its connection and its reader until the caller gives up",
			"leave timeout.idle out for the default, 30s", s.set("timeout.idle", policy.FormatDuration(zero.Timeout.Idle)))
	}
}

// What an attempt over a network can't do, what is far above the usual ceilings (HTTP 30 s, RPC 10 s,
// databases 5 s), and what no user waits for.
const (
	tooShort  = 100 * time.Millisecond
	farAbove  = time.Minute
	farTooFar = 5 * time.Minute
)

func (s *subject) unusualTimeout() {
	t := s.p.Timeout
	d, path := t.Attempt, "timeout.attempt"
	if d <= 0 {
		d, path = t.Call, "timeout.call"
	}
	measured := s.has("facts.p99") || s.has("facts.p999") || t.Percentile > 0
	switch {
	case d <= 0 || d >= farAbove && s.queued() && path == "timeout.call":
	case d <= tooShort && !measured && s.p.Trust == policy.External && !s.facts.Local:
		s.find(path, fmt.Sprintf("%s %s ≤ 100ms: a lost packet alone costs 200ms, so healthy attempts are cut off and sent again", path, s.time(path, d)),
			longer(s)+", or say the p99 of the dependency: facts: {p99: 20ms}"+shedding(s))
	case d >= farTooFar:
		s.find(path, fmt.Sprintf("%s %s ≥ 5m: an attempt that hangs holds its connection, its memory and its slot for so long", path, s.time(path, d)),
			"write about 30s for HTTP, 10s for RPC, 5s for a database; let long work answer at once and be asked for")
	case d > farAbove:
		s.findAs(Note, path, fmt.Sprintf("%s %s: the usual ceilings are 30s for HTTP, 10s for RPC and 5s for a database", path, s.time(path, d)),
			"write what 999 of 1000 attempts need, or attempt: p99.9")
	}
}

// longer proposes a time for attempts that have too little.
func longer(s *subject) string {
	if c := s.p.Timeout.Call; c > 0 && c <= tooShort {
		return "write timeout.call: 1s or more"
	}
	return cmp.Or(measurable(s), "write attempt: 1s or more")
}

// timeoutCutsHealthy compares timeouts with latencies in health: of a share that is cut off
// and repeated each call costs 1 / (1 - share) attempts.
func (s *subject) timeoutCutsHealthy() {
	t := s.p.Timeout
	if t.Call > 0 && t.Call <= s.facts.P99 {
		s.find("timeout.call", fmt.Sprintf("timeout.call %s ≤ facts.p99 %s: more than 1%% of the calls fail when all is well", s.time("timeout.call", t.Call), policy.FormatDuration(s.facts.P99)),
			"write timeout.call: "+span(4*s.facts.P99)+" or more")
		return
	}
	if t.Attempt <= 0 {
		return
	}
	type known struct {
		path string
		d    time.Duration
		cut  float64
		how  Severity
	}
	for _, k := range []known{
		{"facts.p50", s.facts.P50, 0.5, Error}, {"facts.p99", s.facts.P99, 0.01, Warning}, {"facts.p999", s.facts.P999, 0.001, Note},
	} {
		if !s.has(k.path) || t.Attempt > k.d {
			continue
		}
		then := "is cut off"
		if s.retries() {
			then = fmt.Sprintf("is cut off and repeated, so that calls cost %.5g attempts", formulas.Amplification(k.cut))
		}
		s.findAs(k.how, "timeout.attempt", fmt.Sprintf("timeout.attempt %s ≤ %s %s: at least %s of the attempts %s when all is well", s.time("timeout.attempt", t.Attempt), k.path, span(k.d), percent(k.cut), then),
			"write attempt: p99.9, which is measured")
		return
	}
}

func (s *subject) timeoutFarAbove() {
	attempt, to := s.p.Timeout.Attempt, formulas.AttemptFor(s.p, s.facts.P999)
	if s.p.Timeout.Percentile > 0 || attempt <= 0 || !formulas.FarAbove(s.p, to) {
		return
	}
	s.find("timeout.attempt", fmt.Sprintf("timeout.attempt %s is %s times facts.p999 %s: a call waits for an attempt that hangs for longer than it would need to make another",
		s.time("timeout.attempt", attempt), digits(float64(attempt)/float64(s.facts.P999)), policy.FormatDuration(s.facts.P999)),
		"write attempt: p99.9, or "+policy.FormatDuration(to))
}
