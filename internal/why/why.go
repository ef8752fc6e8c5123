// Package why says in words what was decided, from the event alone, and which setting of
// the policy decided it. Errors, gabion explain and the page show the same words. It is
// pure: it knows no clock, no file and no dependency. All its functions are safe for
// concurrent use.
package why

import (
	"fmt"
	"strings"
	"time"

	"github.com/gabion-go/gabion/internal/breaker"
	"github.com/gabion-go/gabion/internal/terms"
	"github.com/gabion-go/gabion/policy"
)

// Why says in one line, without its times, what the event reports and why. It is never
// empty, whatever the event holds.
func Why(e policy.Event) string {
	switch e.Kind {
	case policy.KindAttemptSent:
		return attempt(e) + " sent" + repeats(e) + timeFor(e) + late(e)
	case policy.KindAttemptSettled:
		return settled(e)
	case policy.KindLoserSettled:
		return settled(e) + ", after the call was over"
	case policy.KindWaiting:
		return waiting(e) + late(e)
	case policy.KindAttemptRefused:
		return attempt(e) + " not made: " + because(e) + comeBack(e)
	case policy.KindHedgeSkipped:
		return "no hedge: " + because(e)
	case policy.KindReturned:
		return returned(e)
	case policy.KindBodyFailed, policy.KindOutlived, policy.KindFellBack, policy.KindKeyDecided, policy.KindMessageDisposed:
		return aside(e)
	case policy.KindBreakerMoved:
		return fmt.Sprintf("breaker %s → %s: %s%s%s", e.From, e.To, cause(e), until(e), late(e))
	case policy.KindBreakerExceeded:
		return "the breaker would have opened: " + cause(e)
	}
	return ofDependency(e)
}

// attempt names the attempt that an event is about.
func attempt(e policy.Event) string {
	if e.Hedge {
		return fmt.Sprintf("attempt %d (hedge)", e.Attempt)
	}
	return fmt.Sprintf("attempt %d", e.Attempt)
}

// repeats says which failure an attempt repeats.
func repeats(e policy.Event) string {
	switch {
	case e.Class == policy.ClassUndecided:
		return ""
	case e.Code != "":
		return fmt.Sprintf(", because of %s %s", e.Class, e.Code)
	}
	return ", because of " + e.Class.String()
}

// timeFor says how long an attempt may take, and how much time its call has.
func timeFor(e policy.Event) string {
	b := ""
	if e.Until != policy.Never && e.Until > e.At {
		b = ", it may take " + Short(e.Until.Sub(e.At)).String() + asMeasured(e)
		if e.Last {
			b += " since no other can follow"
		}
		if e.Stretched {
			b += " since others were cut off, and late answers come"
		}
	}
	switch {
	case e.Left == policy.NoDeadline:
		b += ", the call has no deadline"
	case e.Left != 0:
		b += ", the call has " + Short(e.Left).String() + " left"
	}
	return b
}

// asMeasured says that the attempt's time was no setting.
func asMeasured(e policy.Event) string {
	if e.Measured {
		return " (measured)"
	}
	return ""
}

// late says that a decision was taken after its time.
func late(e policy.Event) string {
	if e.Due == 0 || e.At <= e.Due {
		return ""
	}
	return ", " + Short(e.At.Sub(e.Due)).String() + " late"
}

func settled(e policy.Event) string {
	var b strings.Builder
	if e.Class == policy.ClassSuccess {
		fmt.Fprintf(&b, "%s succeeded in %s", attempt(e), Short(e.Took))
		if e.Code != "" {
			b.WriteString(" with " + e.Code)
		}
	} else {
		fmt.Fprintf(&b, "%s failed after %s: %s", attempt(e), Short(e.Took), e.Class)
		if e.Code != "" {
			b.WriteString(" " + e.Code)
		}
		if e.Reason != policy.None {
			fmt.Fprintf(&b, ", %s%s", e.Reason, asMeasured(e))
		}
		b.WriteString(effect(e))
	}
	if e.Slow {
		b.WriteString(", slow")
	}
	return b.String()
}

func effect(e policy.Event) string {
	if e.Effect == policy.UnknownEffect {
		return ", it may have happened"
	}
	return ", it has not happened"
}

// waits are what a call waits for, in words, by the word of the event.
var waits = map[string]string{
	terms.ForBackoff: "the backoff",
	terms.ForSuccess: "other calls fail too, so it waits until one succeeds",
	terms.ForSlot:    "for a free slot",
	terms.ForPace:    "the dependency asked for time",
	terms.ForRate:    "the rate limit",
	terms.ForQuota:   "room in its quotas",
}

func waiting(e policy.Event) string {
	long := ""
	if e.Until != policy.Never && e.Until > e.At {
		long = " " + Short(e.Until.Sub(e.At)).String()
		if e.Wait == terms.ForSlot {
			long = " at most" + long
		}
	}
	what, known := waits[e.Wait]
	if !known {
		what = e.Wait
	}
	return fmt.Sprintf("waits%s before %s: %s", long, attempt(e), what)
}

// because is the reason of an event with its numbers.
func because(e policy.Event) string {
	if about := Numbers(e.Reason, e.Numbers); about != "" {
		return fmt.Sprintf("%s (%s)", e.Reason, about)
	}
	return e.Reason.String()
}

// comeBack says when a refused call has a chance again.
func comeBack(e policy.Event) string {
	if e.Until == policy.Never || e.Until <= e.At {
		return ""
	}
	return ", come back in " + Short(e.Until.Sub(e.At)).String()
}

func returned(e policy.Event) string {
	sent := "nothing sent"
	switch {
	case e.Attempt == 1:
		sent = "1 attempt"
	case e.Attempt > 1:
		sent = fmt.Sprintf("%d attempts", e.Attempt)
	}
	switch {
	case e.Hedges == 1:
		sent += " (1 a hedge)"
	case e.Hedges > 1:
		sent += fmt.Sprintf(" (%d hedges)", e.Hedges)
	}
	if e.Reason == policy.None {
		won := ""
		if e.Hedge {
			won = ", a hedge brought the answer"
		}
		return fmt.Sprintf("the call succeeded after %s in %s%s", sent, Short(e.Took), won)
	}
	last := ""
	if e.Code != "" {
		last = ", last answer " + e.Code
	}
	return fmt.Sprintf("the call ended: %s, %s in %s%s%s", because(e), sent, Short(e.Took), effect(e), last)
}

// aside is about what goes on beside a call's attempts.
func aside(e policy.Event) string {
	switch e.Kind {
	case policy.KindBodyFailed:
		if e.Reason == policy.None {
			return attempt(e) + ": its result broke after " + Short(e.Took).String()
		}
		return fmt.Sprintf("%s: its result broke after %s: %s", attempt(e), Short(e.Took), e.Reason)
	case policy.KindOutlived:
		return attempt(e) + ": its result is still open after its time, the slot was given back"
	case policy.KindFellBack:
		return "the fallback answered, because of " + e.Reason.String()
	case policy.KindKeyDecided:
		return "the request's idempotency key: " + e.Code
	}
	return "the message: " + e.Code
}

// ofDependency is what happened to the dependency, but for its breaker.
func ofDependency(e policy.Event) string {
	switch e.Kind {
	case policy.KindPaceSet:
		return "the dependency asked for time: calls are spaced" + until(e)
	case policy.KindLimitMoved:
		return fmt.Sprintf("the bulkhead has %d slots now", e.Count) + learned(e.Numbers)
	case policy.KindReloaded:
		return "a new policy is in force"
	case policy.KindRetriesSwitched:
		if e.Reason == policy.RetriesOff {
			return "retries were switched off" + until(e) + who(e)
		}
		return "retries were switched on again" + who(e)
	case policy.KindResent:
		return fmt.Sprintf("something below gabion sent again, unasked: %d times", e.Count)
	case policy.KindEndpointsMoved:
		return endpoints(e)
	case policy.KindLettersLost:
		return lettersLost(e)
	case policy.KindEventsLost:
		return fmt.Sprintf("%d events are missing here", e.Count)
	case policy.KindObserverCrashed:
		return "an observer panicked"
	}
	return e.String()
}

// lettersLost says what a full store of dead letters removes.
func lettersLost(e policy.Event) string {
	said := fmt.Sprintf("the store of dead letters is full: %d that wait are removed", e.Count)
	if e.Count == 1 {
		said = "the store of dead letters is full: 1 that waits is removed"
	}
	if n := e.Numbers; n != nil {
		said += fmt.Sprintf(", %d bytes, the oldest waited %s", n.Bytes, Short(n.Waited))
	}
	return said
}

// learned says what a learned limit was moved by. It is empty for one that a policy set.
func learned(n *policy.Numbers) string {
	if n == nil || n.Moved == terms.LimitSet {
		return ""
	}
	seen := fmt.Sprintf(": %.0f answers a second took %s each", n.Answered, Short(n.Each))
	if n.Usual > 0 {
		seen += fmt.Sprintf(", without waiting they take %s", Short(n.Usual))
	}
	return fmt.Sprintf(", it had %d (%s)", n.Before, moves[n.Moved]) + seen
}

var moves = map[string]string{
	terms.LimitGrew:    "all were in use, and attempts took no longer than usual",
	terms.LimitTried:   "fewer are tried for a moment",
	terms.LimitFound:   "found by trying fewer",
	terms.LimitCrowded: "the dependency had no room",
	terms.LimitStarved: "next to nothing was answered in time",
	terms.LimitBack:    "what lowered it is over, or fewer were no help",
}

// until says how long something holds.
func until(e policy.Event) string {
	if e.Until == policy.Never || e.Until <= e.At {
		return ""
	}
	return ", for " + Short(e.Until.Sub(e.At)).String()
}

// cause says why a breaker moved, with what it had counted and the rule.
func cause(e policy.Event) string {
	n := e.Numbers
	if n == nil {
		n = &policy.Numbers{}
	}
	switch e.Cause {
	case breaker.FailureRate:
		return rate(n.Failures, "failed", n)
	case breaker.SlowRate:
		return rate(n.Slows, "were slow", n)
	case breaker.Failures:
		return fmt.Sprintf("%d failures in the window, the rule is %.0f", n.Failures, n.Rule)
	case breaker.Consecutive:
		return fmt.Sprintf("%.0f failures in a row", n.Rule)
	case breaker.ProbeFailed:
		return fmt.Sprintf("of %d probes %d failed", n.Calls, n.Failures)
	case breaker.ProbesPassed:
		return fmt.Sprintf("of %d probes %d failed", n.Calls, n.Failures)
	}
	return causes[e.Cause] + who(e)
}

// who says who did by hand what the event tells, as far as that was told.
func who(e policy.Event) string {
	if e.Code == "" {
		return ""
	}
	return ", by " + e.Code
}

// causes are those without numbers, in words.
var causes = map[policy.BreakerCause]string{
	breaker.ProbeExpired: "a probe did not end in time",
	breaker.CooldownOver: "its time is over, it probes",
	breaker.CallsRefused: "enough calls were refused, it probes",
	breaker.Forced:       "by hand",
	breaker.Isolated:     "isolated by hand",
	breaker.Released:     "released by hand",
	breaker.WasReset:     "reset by hand",
	breaker.OverrideOver: "the time that a hand had set is over",
}

func rate(bad int64, did string, n *policy.Numbers) string {
	if n.Calls == 0 {
		return fmt.Sprintf("too many calls %s, the rule is %s", did, percent(n.Rule))
	}
	return fmt.Sprintf("%d of %d calls %s, %s, the rule is %s", bad, n.Calls, did, percent(float64(bad)/float64(n.Calls)), percent(n.Rule))
}

func percent(share float64) string { return fmt.Sprintf("%.3g %%", 100*share) }

// Short rounds what people read.
func Short(d time.Duration) time.Duration {
	if d >= time.Millisecond {
		return d.Round(time.Millisecond)
	}
	return d
}

// endpoints says what is new about the endpoints of a dependency.
func endpoints(e policy.Event) string {
	switch e.Code {
	case terms.EndpointsPanic:
		return fmt.Sprintf("none of the %d endpoints works, so none is left out", e.Count)
	case terms.EndpointsCalm:
		return "an endpoint works again"
	case terms.EndpointsNew:
		return fmt.Sprintf("the endpoints are others now: %d", e.Count)
	case terms.EndpointsKept:
		return fmt.Sprintf("other endpoints could not be had: the %d that there are stay", e.Count)
	case terms.BackupOut:
		return "the backup would not work if it were needed"
	case terms.BackupBack:
		return "the backup would work again"
	}
	return "something changed about the endpoints"
}
