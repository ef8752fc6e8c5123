package lint

import (
	"fmt"
	"math"
	"time"

	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/policy"
)

// policyRules are about one dependency's policy.
var policyRules = []Rule{
	{
		ID: "G010", Name: "attempts-do-not-fit", Severity: Note,
		Title: "the attempts can't all have their time before the call's deadline",
		check: (*subject).attemptsDoNotFit,
	},
}

// attemptsDoNotFit compares attempts x timeout + waits with the call's time.
func (s *subject) attemptsDoNotFit() {
	if !s.knows("retry.attempts", "timeout.attempt", "timeout.call", "retry.backoff") {
		return
	}
	n, attempt, call := s.p.Retry.Attempts, s.p.Timeout.Attempt, s.p.Timeout.Call
	if n < 2 || attempt <= 0 || call <= 0 {
		return
	}
	waits := longestWaits(s.p.Retry.Backoff, n-1)
	most := time.Duration(n)*attempt + waits
	if most <= call {
		return
	}
	s.find("retry.attempts", fmt.Sprintf("%d attempts × %s + waits of up to %s = %s > call timeout %s: the last attempts do not get their time",
		n, policy.FormatDuration(attempt), policy.FormatDuration(waits), policy.FormatDuration(most), policy.FormatDuration(call)),
		fmt.Sprintf("write timeout.call: %s, or fewer attempts", policy.FormatDuration(most)))
}

// longestWaits is how long n waits can be together.
func longestWaits(b backoff.Backoff, n int) (sum time.Duration) {
	last := time.Duration(0)
	for i := range n {
		if last = b.Delay(i, last, math.Nextafter(1, 0)); sum > 1000*time.Hour {
			break
		}
		sum += last
	}
	return sum.Round(time.Microsecond)
}
