package machine

import (
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/policy"
)

// A probe of an endpoint has little time because it is a probe. That is no measured time that was too short: neither events nor
// the percentile's own count take it for one, and a result that begins in it keeps its slot as others do.
func TestABriefProbeIsNotMeasured(t *testing.T) {
	for _, q := range []policy.Ratio{0, 0.999} {
		briefProbes(t, q)
	}
}

func briefProbes(t *testing.T, q policy.Ratio) {
	p := measured(q)
	p.Retry.Attempts = 2
	p.Timeout.Attempt = 2 * time.Second
	p.Endpoints = policy.Endpoints{Mode: policy.EndpointsOrdered, List: []policy.Endpoint{{Name: "a"}, {Name: "b"}}}
	p.Breaker.Off = false
	tr := newTrial(t, p)
	now, probes := clock.Instant(0), 0
	for range 400 {
		now = now.Add(50 * time.Millisecond)
		c, sent := tr.begin(now)
		if v := c.sent.at.visit(&sent); v.brief > 0 {
			probes++
			if had := sent.Deadline.Sub(now); had != v.brief {
				t.Fatalf("a probe has %v and not %v", had, v.brief)
			}
			if had := c.measured(&sent); had != 0 {
				t.Errorf("a probe of %v is taken to be measured", had)
			}
			if l := c.Limits(now, &sent); l.Slot < now.Add(p.Timeout.Attempt) {
				t.Errorf("a probe's result keeps its slot for %v", l.Slot.Sub(now))
			}
			tr.home(sent.Deadline, c, sent, policy.ClassUnclassified)
			if c.retry.limit != 0 {
				t.Errorf("the call's numbers say %v", c.retry.limit)
			}
		} else if EndpointOf(c, &sent).Name == "a" {
			tr.home(now.Add(time.Millisecond), c, sent, policy.ClassServer)
		} else {
			tr.home(now.Add(time.Millisecond), c, sent, policy.ClassSuccess)
			continue
		}
		if s := c.Next(now.Add(60 * time.Millisecond)); s.Verb == Send {
			tr.home(now.Add(60*time.Millisecond), c, s.Ticket, policy.ClassSuccess)
		}
	}
	if probes < 3 {
		t.Errorf("only %d probes", probes)
	}
}

// A probe is brief also where the whole call has less time than an attempt: what is left is for another endpoint.
func TestAProbeLeavesTimeForAnotherEndpoint(t *testing.T) {
	p := measured(0)
	p.Timeout.Attempt, p.Timeout.Last, p.Retry.Attempts = 4*time.Second, policy.Off, 2
	p.Endpoints = policy.Endpoints{Mode: policy.EndpointsOrdered, List: []policy.Endpoint{{Name: "a"}, {Name: "b"}}}
	p.Breaker.Off = false
	tr := newTrial(t, p)
	now, probes := clock.Instant(0), 0
	for range 100 {
		now = now.Add(50 * time.Millisecond)
		c := new(Call)
		c.Begin(tr.state, now, &Params{Deadline: now.Add(time.Second), Safe: true})
		s := c.Next(now)
		switch v := c.sent.at.visit(&s.Ticket); {
		case v.brief > 0:
			probes++
			if had := s.Ticket.Deadline.Sub(now); had != v.brief {
				t.Fatalf("a probe has %v and not %v", had, v.brief)
			}
			fallthrough
		case EndpointOf(c, &s.Ticket).Name == "a":
			tr.home(now.Add(time.Millisecond), c, s.Ticket, policy.ClassServer)
		default:
			tr.home(now.Add(time.Millisecond), c, s.Ticket, policy.ClassSuccess)
		}
	}
	if probes == 0 {
		t.Error("no probe")
	}
}

// Where calls are rare, what the others take is forgotten in between when it comes to a choice, but not when it comes to how
// long a probe may take: else one that works again would never have the time to show it. The same is true of one that always
// took longer than the others.
func TestAProbeHasTimeToAnswer(t *testing.T) {
	for _, c := range []struct {
		fact  string
		until int // calls that it answers before it fails
		takes map[string]time.Duration
		pause time.Duration
	}{
		{"calls are rare", 0, map[string]time.Duration{"a": 400 * time.Millisecond, "b": 400 * time.Millisecond}, 30 * time.Second},
		{"the others are quicker", 5, map[string]time.Duration{"a": 400 * time.Millisecond, "b": time.Millisecond}, time.Second},
	} {
		t.Run(c.fact, func(t *testing.T) { probeAnswers(t, c.until, c.takes, c.pause) })
	}
}

func probeAnswers(t *testing.T, until int, takes map[string]time.Duration, pause time.Duration) {
	p := measured(0)
	p.Retry.Attempts = 2
	p.Timeout.Attempt = 4 * time.Second
	p.Endpoints = policy.Endpoints{Mode: policy.EndpointsOrdered, Standing: policy.Off, List: []policy.Endpoint{{Name: "a"}, {Name: "b"}}}
	p.Breaker.Off = false
	tr := newTrial(t, p)
	now, at := clock.Instant(0), ""
	answer := func(c *Call, sent *Ticket, works bool) Step {
		at = EndpointOf(c, sent).Name
		end, class := now.Add(takes[at]), policy.ClassSuccess
		switch {
		case at == "a" && !works:
			end, class = now.Add(time.Millisecond), policy.ClassServer
		case sent.Deadline < end:
			end, class = sent.Deadline, policy.ClassUnclassified
		}
		now = end
		return tr.home(now, c, *sent, class)
	}
	for i := range 300 {
		works := i < until || i > 20+until
		if i > 10 { // calls are rare from here on
			now = now.Add(pause)
		}
		c, sent := tr.begin(now)
		if s := answer(c, &sent, works); s.Verb == Send {
			answer(c, &s.Ticket, works)
		}
	}
	if at != "a" {
		t.Errorf("long after the first endpoint works again %q answers", at)
	}
}
