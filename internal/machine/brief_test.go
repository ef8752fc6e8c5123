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
