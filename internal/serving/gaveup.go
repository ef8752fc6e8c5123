package serving

import (
	"strconv"

	"github.com/gabion-go/gabion/policy"
)

// InVain reports whether gabion repeated a call and gave up. What it sent once it leaves to the
// layer above, which may know that repeating is safe, whatever the reason; and also what it
// repeated while that was surely safe, such as a POST whose first connection was refused, and then
// might not repeat any more.
func InVain(why policy.Reason, attempts int) bool {
	switch why {
	case policy.NotSafe, policy.BodyNotRewindable, policy.RetriesOff:
		return false
	}
	return attempts > 1
}

// leftToOthers are the reasons for which a call ends after one attempt without a
// word on whether another would help: its retrying was never done here.
var leftToOthers = map[policy.Reason]bool{
	policy.NotSafe: true, policy.BodyNotRewindable: true, policy.RetriesOff: true,
	policy.AttemptsExhausted: true, policy.BudgetExhausted: true,
	policy.DeadlineShort: true, policy.RetryAfterTooLong: true,
	policy.AttemptTimeout: true, policy.CallTimeout: true,
	policy.IdleTimeout: true, policy.BodyTimeout: true,
}

// Final reports whether a server's own answer, made of a call that ended so, should stop
// retries in the layers above. What was refused unsent is a server shedding load, or a
// mistake that stays one; and what the dependency called permanent, or not to be retried,
// the new status no longer says.
func Final(why policy.Reason, attempts int) bool {
	return InVain(why, attempts) || attempts == 0 || !leftToOthers[why]
}

// GaveUp is the value of Gabion-Gave-Up: why, and after how many attempts, as in
// "attempts_exhausted; attempts=3".
func GaveUp(why policy.Reason, attempts int) string {
	return why.String() + "; attempts=" + strconv.Itoa(attempts)
}
