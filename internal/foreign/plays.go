package foreign

import (
	"time"

	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/policy"
)

// Undivided is a policy without a timeout for one attempt: the call's bounds all.
func Undivided(p policy.Policy) policy.Policy {
	p.Timeout.Attempt, p.Timeout.Last = policy.Off, policy.Off
	return p
}

// Bare is a call with p's timeouts and nothing else. Retry-After is waited for when it
// fits the call, however long it is.
func Bare(p policy.Policy, tries int, b backoff.Backoff) policy.Policy {
	attempt := p.Timeout.Attempt // for the last attempt, too: none of them tells it from others
	return policy.Policy{
		Trust: p.Trust, Safe: p.Safe,
		Timeout:  policy.Timeout{Call: p.Timeout.Call, Attempt: attempt, Last: attempt, Strict: true, Margin: policy.Off},
		Retry:    policy.Retry{Attempts: tries, Backoff: b, MaxAfter: 24 * time.Hour, Budget: policy.Budget{Off: true}},
		Pace:     policy.Pace{Off: true},
		Breaker:  policy.Breaker{Off: true},
		Bulkhead: policy.Bulkhead{Off: true},

		Partitions: policy.Partitions{Max: policy.Off},
	}
}

// Steady is a breaker that opens for the same time every time, and by no rule but
// those that are added to it.
func Steady(open time.Duration) policy.Breaker {
	return policy.Breaker{
		Window: 10 * time.Second, FailureRate: policy.Off, SlowCall: policy.Off,
		Failures: policy.Off, Consecutive: policy.Off,
		Open: open, OpenMax: open, OpenGrowth: 1, OpenJitter: policy.Off,
		Probes: 1, ProbeCalls: 1, ReopenAfter: 1,
	}
}

// Played is what a route plays for InPlace: a time that the file does not say is zero.
func (r *Route) Played() policy.Policy {
	p := r.Plays.Clone()
	said := times(&r.Policy)
	for i, at := range times(&p) {
		if *said[i] == 0 {
			*at = 0
		}
	}
	return p
}

// times are those of a policy that a file may say.
func times(p *policy.Policy) [4]*time.Duration {
	return [...]*time.Duration{&p.Timeout.Call, &p.Timeout.Attempt, &p.Timeout.Idle, &p.Timeout.Body}
}

// InPlace puts what another system plays in the place of p. A timeout of zero is p's, as are key
// and trust.
func InPlace(theirs, p policy.Policy) policy.Policy {
	made := theirs.Clone()
	made.Trust, made.Key, made.Safe = p.Trust, p.Key, theirs.Safe || p.Safe
	said := theirs.Timeout
	made.Timeout = policy.Timeout{Call: said.Call, Attempt: said.Attempt, Idle: said.Idle, Body: said.Body, Strict: true, Margin: policy.Off}
	resolved := p.Resolved()
	was := times(&resolved)
	for i, at := range times(&made) {
		if *at == 0 && at != &made.Timeout.Body {
			*at = *was[i]
		}
	}
	t := &made.Timeout
	if t.Call > 0 && t.Attempt > t.Call {
		t.Attempt = t.Call
	}
	if t.Body > 0 && t.Idle > t.Body {
		t.Idle = t.Body
	}
	t.Last = t.Attempt // none of them tells the last attempt from others
	if b := &made.Breaker; !b.Off {
		if b.WindowCalls == 0 && b.Window > 0 {
			b.Window = max(b.Window, 2*t.Attempt)
		}
		if most := max(t.Attempt, 0); b.SlowCall > 0 && most > 0 && b.SlowCall >= most { // no attempt is as slow
			b.SlowCall, b.SlowRate = policy.Off, 0
		}
	}
	return made
}
