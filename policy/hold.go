package policy

import "github.com/gabion-go/gabion/clock"

// maxHolds is how often a retry is held back: each time for longer, so that these
// are minutes with the default backoff. A call has no more time than that, unless
// nothing bounds it.
const maxHolds = 10

// held keeps a retry waiting whose time has come while other calls fail, too: besides
// this call's own, so many failures as Retry.Hold says came in a row and no success
// after them. What would only fail again is not sent; and when the dependency is back, retries come spread over as long as they
// were held. The last wait that fits the deadline ends in a try whatever the others
// say, so that holding costs no call its retry.
func (c *Call) held(now clock.Instant, s *Step) bool {
	if c.rules.hold == 0 || c.holds == maxHolds || !c.rules.guarded {
		return false
	}
	if c.lane.breaker.Load().Row() < uint32(c.sends)+c.rules.hold {
		return false
	}
	if c.rules.earns && !c.state.earned.Any() {
		c.end(now, AllFailing)
		s.Verb = Return
		return true
	}
	c.holds++
	at := now.Add(max(c.backoff(&Outcome{}), 1))
	if at.Add(c.margin(now)) > c.deadline {
		return false
	}
	c.wake = at
	c.wait(now, s, at, ForSuccess)
	return true
}
