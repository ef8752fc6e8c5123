package dashboard

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	breakers "github.com/gabion-go/gabion/internal/breaker"
	"github.com/gabion-go/gabion/internal/why"
	"github.com/gabion-go/gabion/policy"
)

// span is a duration as people read it: "8.2 s", "450 ms".
func span(d time.Duration) string {
	switch s := d.Seconds(); {
	case d < 0:
		return "-" + span(-d)
	case s >= 3600:
		return trimmed(s/3600) + " h"
	case s >= 120:
		return trimmed(s/60) + " min"
	case s >= 1:
		return trimmed(s) + " s"
	case s >= 1e-3:
		return trimmed(s*1e3) + " ms"
	case s > 0:
		return trimmed(s*1e6) + " µs"
	}
	return "0 s"
}

// trimmed is a number with two digits, or as many as stand before its point.
func trimmed(x float64) string {
	if math.Abs(x) >= 10 {
		return strconv.FormatFloat(math.Round(x), 'f', -1, 64)
	}
	return strconv.FormatFloat(math.Round(x*10)/10, 'f', -1, 64)
}

// amount is a number of units or of money: "12,034", "0.00374".
func amount(x float64) string {
	if math.Abs(x) >= 1 || x == 0 {
		return thousands(x)
	}
	return strconv.FormatFloat(x, 'g', 3, 64)
}

// percent is a share as people read it: "53 %".
func percent(share float64) string { return trimmed(share*100) + " %" }

// spoken is a word of gabion's vocabulary without its underscores.
func spoken(word string) string { return strings.ReplaceAll(word, "_", " ") }

func plural(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.FormatInt(n, 10) + " " + many
}

// whyMoved says in words why a breaker moved, with the numbers that led to it.
func whyMoved(e *policy.Event) string {
	n := e.Numbers
	if n == nil {
		n = &policy.Numbers{}
	}
	switch e.Cause {
	case breakers.FailureRate:
		return fmt.Sprintf("failure %s ≥ %s of %s", share(n.Failures, n.Calls), percent(n.Rule), plural(n.Calls, "call", "calls"))
	case breakers.SlowRate:
		return fmt.Sprintf("slow %s ≥ %s of %s", share(n.Slows, n.Calls), percent(n.Rule), plural(n.Calls, "call", "calls"))
	case breakers.Failures:
		return fmt.Sprintf("%s ≥ %s in the window", plural(n.Failures, "failure", "failures"), trimmed(n.Rule))
	case breakers.Consecutive:
		return fmt.Sprintf("%s failures in a row", trimmed(n.Rule))
	}
	if n.Calls > 0 && e.Cause == breakers.ProbeFailed {
		return fmt.Sprintf("%d of %s failed", n.Failures, plural(n.Calls, "probe", "probes"))
	}
	if n.Calls > 0 && e.Cause == breakers.ProbesPassed {
		return fmt.Sprintf("%d of %s succeeded", n.Calls-n.Failures, plural(n.Calls, "probe", "probes"))
	}
	return causeWords[e.Cause] + byWhom(e)
}

// byWhom says who made a move by hand, if the event does.
func byWhom(e *policy.Event) string {
	if e.Code == "" {
		return ""
	}
	return " (" + bounded(e.Code) + ")"
}

var causeWords = map[policy.BreakerCause]string{
	breakers.ProbeFailed:  "the probes failed",
	breakers.ProbesPassed: "the probes succeeded",
	breakers.ProbeExpired: "a probe did not end in time",
	breakers.CooldownOver: "the open time is over",
	breakers.CallsRefused: "enough calls were refused for one to probe",
	breakers.Forced:       "by hand",
	breakers.Isolated:     "isolated by hand",
	breakers.Released:     "the isolation was released",
	breakers.WasReset:     "reset by hand",
	breakers.OverrideOver: "the override is over",
}

func share(part, of int64) string {
	if of == 0 {
		return "0 %"
	}
	return percent(float64(part) / float64(of))
}

// A gauge is a level with its bound, and how it comes about.
type gauge struct {
	Level int64   `json:"level"`
	Most  float64 `json:"most"`
	Text  string  `json:"text"`
	Off   bool    `json:"off,omitempty"`
}

// budgetGauge is what may still be sent again, with its arithmetic.
func budgetGauge(s *policy.BudgetStats, b *policy.Budget) *gauge {
	left := plural(s.Level, "re-send", "re-sends") + " left: "
	switch {
	case s.Off:
		return &gauge{Off: true, Text: "no budget: nothing bounds retries and hedges"}
	case b.Shape == policy.BudgetTokens:
		return &gauge{Level: s.Level, Most: float64(b.Capacity) / float64(max(b.Cost, 1)), Text: fmt.Sprintf(
			"%s%d tokens at most, each costs %d, each success earns %s", left, b.Capacity, b.Cost, percent(on(b.Ratio)))}
	case b.Shape == policy.BudgetGRPC:
		return &gauge{Level: s.Level, Most: float64((b.Capacity - 1) / 2), Text: fmt.Sprintf(
			"%s%s of %d tokens, more than half are needed, a failure takes one, each success brings %s", left, trimmed(s.Tokens), b.Capacity, trimmedRatio(b.Ratio))}
	case b.Shape == policy.BudgetQuota:
		return &gauge{Level: s.Level, Most: float64(b.Capacity / max(b.Cost, 1)), Text: fmt.Sprintf(
			"%s%s of %d tokens, each costs %d, which comes back if it succeeds, each first success brings %s", left, trimmed(s.Tokens), b.Capacity, b.Cost, trimmedRatio(b.Ratio))}
	case b.Shape == policy.BudgetShare:
		return &gauge{Level: s.Level, Most: max(on(b.Ratio)*float64(s.Calls), float64(b.MinInFlight), 1), Text: fmt.Sprintf(
			"%s%s of %s in flight (%d at least), less %d in flight", left, percent(on(b.Ratio)), plural(s.Calls, "call", "calls"), max(b.MinInFlight, 0), s.Sent)}
	case b.Shape == policy.BudgetWindow:
		most := on(b.Ratio)*float64(s.Calls) + max(float64(b.Floor), 0)*b.Window.Seconds()
		return &gauge{Level: s.Level, Most: most, Text: fmt.Sprintf(
			"%s%s × %s in %s + %s, less %d sent", left, trimmedRatio(b.Ratio), plural(s.Calls, "call", "calls"), span(b.Window), b.Floor, s.Sent)}
	}
	text := fmt.Sprintf("%s%s × %s in %s (%s at least), less those sent", left, trimmedRatio(b.Ratio),
		plural(s.Successes, "success", "successes"), span(b.Window), trimmed(max(b.Reserve, 0)))
	if s.Ended > 0 {
		text += ". Retries are sent while they help: " + why.Helped(s.Helped, s.Ended)
	}
	if s.Queued {
		text += ". Answers take more than three times the usual: calls wait for each other there, so nothing is earned"
	}
	return &gauge{Level: s.Level, Most: max(on(b.Ratio)*float64(s.Successes), b.Reserve, float64(s.Level), 1), Text: text}
}

// roomText says how many may be out and wait, how many are, and what became of those that found no slot in the
// last 30 s.
func roomText(s *policy.BulkheadStats, b *policy.Bulkhead, refused *[maxReasons]uint32) string {
	what, learned := "attempt", ""
	if b.Per == policy.PerCall {
		what = "call"
	}
	if b.Limit == policy.Learned {
		learned = " (learned)"
	}
	text := fmt.Sprintf("%s at once%s, and up to %d may wait: %d out, %d waiting", plural(int64(s.Limit), what, what+"s"), learned, s.QueueLimit, s.InUse, s.Queued)
	full, late := refused[policy.BulkheadFull], refused[policy.QueueTimeout]
	if full+late == 0 {
		return text + ". In 30 s all found a slot"
	}
	return text + fmt.Sprintf(". In 30 s %d found none: %d where the queue was full, and %d that waited too long", full+late, full, late)
}

func on(r policy.Ratio) float64 { return max(float64(r), 0) }

func trimmedRatio(r policy.Ratio) string { return strconv.FormatFloat(on(r), 'g', 3, 64) }
