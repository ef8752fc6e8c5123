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

// Where calls are rare, what the others take is forgotten in between when it comes to a choice, but not when it comes to how
// long a probe may take: else one that works again would never have the time to show it.
func TestAProbeOfARareCallHasTimeToAnswer(t *testing.T) {
	const takes = 400 * time.Millisecond
	p := measured(0)
	p.Retry.Attempts = 2
	p.Timeout.Attempt = 4 * time.Second
	p.Endpoints = policy.Endpoints{Mode: policy.EndpointsOrdered, Standing: policy.Off, List: []policy.Endpoint{{Name: "a"}, {Name: "b"}}}
	p.Breaker.Off = false
	tr := newTrial(t, p)
	now, at := clock.Instant(0), ""
	answer := func(c *Call, sent *Ticket, works bool) Step {
		end, class := now.Add(takes), policy.ClassSuccess
		switch at = EndpointOf(c, sent).Name; {
		case at == "a" && !works:
			end, class = now.Add(time.Millisecond), policy.ClassServer
		case sent.Deadline < end:
			end, class = sent.Deadline, policy.ClassUnclassified
		}
		now = end
		return tr.home(now, c, *sent, class)
	}
	for i := range 60 {
		works := i > 20
		if i > 10 { // calls are rare from here on
			now = now.Add(30 * time.Second)
		}
		c, sent := tr.begin(now)
		if s := answer(c, &sent, works); s.Verb == Send {
			answer(c, &s.Ticket, works)
		}
	}
	if at != "a" {
		t.Errorf("40 calls after the first endpoint works again %q answers", at)
	}
}
