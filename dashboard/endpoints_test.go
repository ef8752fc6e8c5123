package dashboard

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/policy"
)

func TestThePageSaysOfEachEndpointHowItIs(t *testing.T) {
	s := gabion.Stats{Stats: policy.Stats{Panicked: true, Endpoints: []policy.EndpointStats{
		{Endpoint: policy.Endpoint{Name: "eu"}, Attempts: 1, Latency: 12 * time.Millisecond, InFlight: 2},
		{Endpoint: policy.Endpoint{Name: "us"}, Backup: true, Out: true, Attempts: 7, Failed: 5},
		{Endpoint: policy.Endpoint{Name: "ap"}, Backup: true},
	}}}
	var v vitals
	v.read(&s, policy.Policy{}.Resolved())
	got := v.levels(&evidence{})
	for _, want := range []string{
		"endpoints: none works, so none is left out",
		"endpoint eu: takes 12 ms; 1 attempt, 0 failed, 2 under way",
		"backup us: left out: it would not work if it were needed; 7 attempts, 5 failed, 0 under way",
		"backup ap: not asked yet; 0 attempts, 0 failed, 0 under way",
	} {
		if !slices.Contains(got, want) {
			t.Errorf("%q is not in %q", want, got)
		}
	}
}

// An endpoint that is left out is no trouble as long as another one works, and no refused calls bring its probe.
func TestAnEndpointThatIsLeftOutIsAWarning(t *testing.T) {
	for _, c := range []struct {
		fact  string
		other bool // is left out as well
		state policy.BreakerState
		tone  string
		more  string
	}{
		{"others work", false, policy.StateOpen, toneWarning, "left out, others get its calls"},
		{"none works", true, policy.StateOpen, toneTrouble, ""},
		{"left out by hand", false, policy.StateForcedOpen, toneHand, "forced open by hand: left out, others get its calls"},
		{"all left out by hand", true, policy.StateForcedOpen, toneTrouble, "forced open by hand: it gets calls all the same"},
	} {
		l := newLog()
		l.sampled(policy.Policy{}, func(s *gabion.Stats) {
			s.Endpoints = []policy.EndpointStats{{Endpoint: policy.Endpoint{Name: "eu"}, Out: true}, {Endpoint: policy.Endpoint{Name: "us"}, Out: c.other}}
			for i := range s.Endpoints {
				p := policy.PartitionStats{Name: s.Endpoints[i].Name, Guarded: true}
				if s.Endpoints[i].Out {
					p.Breaker.State = c.state
				}
				s.Partitions = append(s.Partitions, p)
			}
		})
		if n := l.row().Notes[0]; c.state == policy.StateForcedOpen {
			if n.Tone != c.tone || !strings.HasPrefix(n.Text, c.more) {
				t.Errorf("%s: %+v", c.fact, n)
			}
		} else if n.Tone != c.tone || n.More != c.more || n.Then != "next probe" {
			t.Errorf("%s: %+v", c.fact, n)
		}
	}
}
