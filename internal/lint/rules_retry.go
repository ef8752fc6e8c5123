package lint

import (
	"fmt"
	"slices"
	"time"

	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/internal/formulas"
	"github.com/gabion-go/gabion/internal/policyfile"
	"github.com/gabion-go/gabion/policy"
)

// retryRules are about how often, and after which waits.
var retryRules = []Rule{
	{
		ID: "G003", Name: "backoff-without-jitter", Severity: Warning,
		Title: "calls that failed together come back together",
		reads: []string{"retry.backoff", "retry.attempts", "retry.contention"},
		check: (*subject).backoffWithoutJitter,
	},
	{
		ID: "G004", Name: "no-wait", Severity: Warning,
		Title: "a retry is sent without a wait",
		reads: []string{"retry.backoff", "retry.attempts", "retry.hold"},
		check: (*subject).noWait,
	},
	{
		ID: "G006", Name: "many-attempts", Severity: Warning,
		Title: "a call whose caller waits has more than six attempts",
		reads: []string{"retry.attempts", "retry.budget", "timeout.call"},
		check: (*subject).manyAttempts,
	},
	{
		ID: "G010", Name: "attempts-do-not-fit", Severity: Note,
		Title: "the attempts can't all have their time before the call's deadline",
		reads: []string{"retry.attempts", "timeout.attempt", "timeout.call", "timeout.margin", "retry.backoff"},
		check: (*subject).attemptsDoNotFit,
	},
	{
		ID: "G011", Name: "worst-case", Severity: Note,
		Title: "one call can become very many, or take very long",
		reads: []string{"retry.attempts", "hedge", "timeout.attempt", "timeout.call", "retry.backoff"},
		check: (*subject).worstCase,
	},
	{
		ID: "G033", Name: "blip-outlasts-retries", Severity: Warning, Needs: []string{"facts.blip"},
		Title: "an outage that calls should survive is longer than their retries",
		reads: []string{"retry", "timeout.call", "timeout.margin", "breaker"},
		check: (*subject).blipOutlastsRetries,
	},
	{
		ID: "G034", Name: "cap-not-reached", Severity: Note,
		Title: "the longest wait is longer than the call",
		reads: []string{"retry.backoff", "retry.attempts", "timeout.call"},
		when:  (*subject).retries,
		check: (*subject).capNotReached,
	},
	{
		ID: "G035", Name: "retry-after-limit", Severity: Note,
		Title: "the longest Retry-After to wait for is longer than the call, or shorter than any",
		reads: []string{"retry.max_after", "retry.attempts", "timeout.call"},
		when:  (*subject).retries,
		check: (*subject).retryAfterLimit,
	},
	{
		ID: "G036", Name: "retry-after-ignored", Severity: Warning,
		Title: "calls go on while the dependency asks for time",
		reads: []string{"pace"},
		check: (*subject).retryAfterIgnored,
	},
}

func (s *subject) backoffWithoutJitter() {
	if s.retries() {
		s.withoutJitter("retry.backoff", s.p.Retry.Backoff)
	}
	if s.p.Retry.Contention.Attempts > 1 {
		s.withoutJitter("retry.contention.backoff", s.p.Retry.Contention.Backoff)
	}
}

func (s *subject) withoutJitter(path string, b backoff.Backoff) {
	if b.Jittered() || b.Base <= 0 {
		return
	}
	wait := formulas.Waits(b, 1, formulas.Usual)
	s.find(path+".kind", fmt.Sprintf("%s: %s has no jitter: all calls that fail in one moment come back in one moment, %s later", path+".kind", b.Kind, span(wait)),
		"write kind: full, which waits half as long on average: in a burst of seconds more of it comes too early", s.set(path+".kind", backoff.FullJitter.String()))
}

func (s *subject) noWait() {
	b := s.p.Retry.Backoff
	if !s.retries() {
		return
	}
	if b.Base >= time.Millisecond {
		s.hardlyWaits()
		return
	}
	base := zero.Retry.Backoff.Base
	if b.Cap > 0 {
		base = min(base, b.Cap)
	}
	wait := "without a wait"
	if b.Base > 0 {
		wait = "after " + span(b.Base)
	}
	fix := []policyfile.Change{s.set("retry.backoff.base", policy.FormatDuration(base))}
	if !b.Jittered() {
		fix = append(fix, s.set("retry.backoff.kind", backoff.FullJitter.String()))
	}
	s.find("retry.backoff.base", fmt.Sprintf("%s are made one after the other %s: an outage of a second meets them all", s.count("retry.attempts", s.p.Retry.Attempts, "attempt"), wait),
		"write base: "+policy.FormatDuration(base), fix...)
}

// aBlip is shorter than any restart or failover.
const aBlip = 50 * time.Millisecond

// hardlyWaits looks at retries that are over before anything can have changed. With retry.hold they
// wait for a sign that the dependency is back.
func (s *subject) hardlyWaits() {
	r := s.p.Retry
	if waits := formulas.Waits(r.Backoff, r.Attempts-1, 1); r.Hold == policy.Off && waits < aBlip {
		s.findAs(Note, "retry.backoff.base", fmt.Sprintf("all waits of %s together are at most %s, and retry.hold: off: what lasts longer meets them all",
			s.count("retry.attempts", r.Attempts, "attempt"), span(waits)), "leave hold out, or write base: "+policy.FormatDuration(zero.Retry.Backoff.Base))
	}
}

// The most attempts of a call for which a user waits, and where they are absurd.
const (
	mostAttempts   = 6
	usualAttempts  = 5
	absurdAttempts = 15
)

func (s *subject) manyAttempts() {
	n := s.p.Retry.Attempts
	if n <= mostAttempts || s.queued() {
		return
	}
	const limit = "write attempts: 5, or say facts.queue: true if no caller waits"
	switch {
	case !s.p.Retry.Budget.Off:
		s.findAs(Note, "retry.attempts", fmt.Sprintf("%d attempts for a call whose caller waits: the budget lets %s re-sends a call through when many fail, so those beyond the first few are hardly made",
			n, digits(formulas.Extra(s.p))), limit)
	case n <= absurdAttempts:
		s.find("retry.attempts", fmt.Sprintf("%d attempts without a budget are up to %d times the calls in an outage", n, n), limit+freeFailures, s.set("retry.attempts", fmt.Sprint(usualAttempts)))
	default:
		s.findAs(Error, "retry.attempts", fmt.Sprintf("%d attempts without a budget are up to %d times the calls in an outage: by the tenth attempt the dependency is gone", n, n), limit+freeFailures,
			s.set("retry.attempts", fmt.Sprint(usualAttempts)))
	}
}

// brokerWaits reports whether the waits are those between the deliveries of a broker, which are
// not within a call.
func (s *subject) brokerWaits() bool {
	return slices.ContainsFunc(s.file.Explain(s.name), func(x policy.Setting) bool {
		return x.Path == "retry.backoff.base" && x.Source == "preset message-queue"
	})
}

// attemptsDoNotFit compares attempts × timeout + waits with the call's time and, where
// attempts fail at once, the waits alone. A margin that is written and is what stands in the
// way is to go, and not the attempts.
func (s *subject) attemptsDoNotFit() {
	n, attempt, call := s.p.Retry.Attempts, s.p.Timeout.Attempt, s.p.Timeout.Call
	if n < 2 || call <= 0 {
		return
	}
	if begun := formulas.Begun(s.p, formulas.Usual); begun < n && !s.brokerWaits() {
		s.attemptsAreNotBegun(n, begun, call)
		return
	}
	waits, most := formulas.Waits(s.p.Retry.Backoff, n-1, formulas.Longest), formulas.Full(s.p)
	if attempt <= 0 || attempt >= call {
		return
	}
	left := call - (most - attempt)
	switch {
	case most > call:
		s.find("retry.attempts", fmt.Sprintf("%s × %s + waits of up to %s = %s > call timeout %s: if each runs into its timeout, only %d of %d are sure to get their time",
			s.count("retry.attempts", n, "attempt"), s.time("timeout.attempt", attempt), span(waits), span(most), s.time("timeout.call", call), formulas.Fit(s.p), n),
			"write timeout.call: "+span(most)+", or fewer attempts")
	case left < s.p.Timeout.Margin:
		s.find("timeout.margin", fmt.Sprintf("%d × %s + waits of up to %s leave %s of call timeout %s < timeout.margin %s: if each runs into its timeout, the last of %s is not made",
			n-1, s.time("timeout.attempt", attempt), span(waits), span(left), s.time("timeout.call", call),
			s.time("timeout.margin", s.p.Timeout.Margin), s.count("retry.attempts", n, "attempt")), noMargin)
	}
}

var noMargin = "leave timeout.margin out for the default, " + policy.FormatDuration(zero.Timeout.Margin)

// attemptsAreNotBegun says why not even attempts that fail at once are all made.
func (s *subject) attemptsAreNotBegun(n, begun int, call time.Duration) {
	how := Note
	if s.written("retry.attempts") {
		how = Warning
	}
	waits, margin := formulas.Waits(s.p.Retry.Backoff, n-1, formulas.Usual), ""
	without := s.p
	without.Timeout.Margin = zero.Timeout.Margin
	inTheWay := s.written("timeout.margin") && formulas.Begun(without, formulas.Usual) > begun
	if waits <= call || inTheWay {
		margin = fmt.Sprintf(", with timeout.margin %s", s.time("timeout.margin", s.p.Timeout.Margin))
	}
	says := fmt.Sprintf("the usual waits between %s are %s together%s > call timeout %s: ",
		s.count("retry.attempts", n, "attempt"), span(waits), margin, s.time("timeout.call", call))
	if inTheWay {
		s.findAs(how, "timeout.margin", says+"an attempt that would have less time than the margin is not made, so most calls do not make attempt "+numbersOf(begun+1, n), noMargin)
		return
	}
	var fix []policyfile.Change
	if how == Warning {
		fix = []policyfile.Change{s.set("retry.attempts", fmt.Sprint(max(begun, 1)))}
	}
	s.findAs(how, "retry.attempts", says+"even if each fails at once, most calls do not make attempt "+numbersOf(begun+1, n),
		fmt.Sprintf("write attempts: %d, or a shorter base or cap", max(begun, 1)), fix...)
}

// What one call may come to before it is worth a note.
const (
	manySends = 20
	longCall  = 10 * time.Minute
)

func (s *subject) worstCase() {
	inner, mesh := max(s.facts.Inner, 1), max(s.facts.Mesh.Attempts, 1)
	sends := formulas.Times(formulas.Sends(s.p), formulas.Times(inner, time.Duration(mesh)))
	worst := formulas.Worst(s.p)
	if sends <= manySends && (worst <= longCall || !formulas.Bounded(worst)) || s.queued() && inner*mesh == 1 {
		return
	}
	s.find("retry.attempts", fmt.Sprintf("one call can become %d attempts (%d × %d of the client below × %d of the mesh), and take %s",
		int64(sends), formulas.Sends(s.p), inner, mesh, span(worst)), "write fewer attempts, in one layer only, or a shorter timeout.call")
}

// blipOutlastsRetries asks how long after its first failure a call still tries. Among other
// calls that fail, too, retries are held back (retry.hold) up to the call's end.
func (s *subject) blipOutlastsRetries() {
	blip := s.facts.Blip
	waits := formulas.Waits(s.p.Retry.Backoff, s.p.Retry.Attempts-1, formulas.Longest)
	others := !s.has("facts.rate") || formulas.Slots(s.rate(), waits) >= 1
	longest, usual := formulas.Bridge(s.p, formulas.Longest, others), formulas.Bridge(s.p, formulas.Usual, others)
	if usual >= blip {
		return
	}
	text := fmt.Sprintf("the last of %s begins up to %s after the first failed", s.count("retry.attempts", s.p.Retry.Attempts, "attempt"), span(longest))
	if !s.retries() {
		text = "one attempt is all that a call makes"
	}
	proposal := fmt.Sprintf("write waits that sum up to more than %s (retry.backoff.base, or one more attempt), and a timeout.call above that", policy.FormatDuration(blip))
	if longest < blip {
		s.find("retry.backoff", fmt.Sprintf("%s < facts.blip %s: every attempt of a call that meets its beginning lands inside", text, policy.FormatDuration(blip)), proposal)
	} else {
		s.findAs(Note, "retry.backoff", fmt.Sprintf("%s, and usually %s < facts.blip %s: most calls that meet its beginning fail", text, span(usual), policy.FormatDuration(blip)), proposal)
	}
}

func (s *subject) capNotReached() {
	b, call := s.p.Retry.Backoff, s.p.Timeout.Call
	if call <= 0 || b.Cap <= 2*call || b.Cap == zero.Retry.Backoff.Cap || !s.written("retry.backoff.cap") {
		return
	}
	longest := formulas.Waits(b, s.p.Retry.Attempts-1, formulas.Longest) - formulas.Waits(b, s.p.Retry.Attempts-2, formulas.Longest)
	s.find("retry.backoff.cap", fmt.Sprintf("cap %s > call timeout %s: no wait can be so long; the longest between %s is %s",
		s.time("retry.backoff.cap", b.Cap), s.time("timeout.call", call), s.count("retry.attempts", s.p.Retry.Attempts, "attempt"), span(min(longest, b.Cap))),
		"leave it out, or write at most "+span(call))
}

func (s *subject) retryAfterLimit() {
	most, call := s.p.Retry.MaxAfter, s.p.Timeout.Call
	switch {
	case !s.written("retry.max_after") || most == zero.Retry.MaxAfter:
	case call > 0 && most > call:
		s.find("retry.max_after", fmt.Sprintf("max_after %s > call timeout %s: a longer Retry-After than the call has left ends it anyway", s.time("retry.max_after", most), s.time("timeout.call", call)),
			"leave it out, or write at most "+span(call))
	case most > 0 && most < time.Second:
		s.find("retry.max_after", fmt.Sprintf("max_after %s: each Retry-After of a second or more ends the call", s.time("retry.max_after", most)),
			"leave it out, or write at least 1s")
	}
}

func (s *subject) retryAfterIgnored() {
	switch {
	case s.p.Pace.Off:
		s.find("pace", "pace: off: an answer with 429 or Retry-After holds back the call that got it, and all others are sent and refused as before",
			"leave it out, or write pace: {max: 5s}", s.set("pace.max", policy.FormatDuration(zero.Pace.Max)))
	case s.p.Pace.Max >= time.Minute:
		s.findAs(Note, "pace.max", fmt.Sprintf("one answer with a long Retry-After can hold all calls back for pace.max %s", span(s.p.Pace.Max)),
			"write at most 30s, unless the dependency is known to mean it")
	}
}
