package dashboard

import (
	"slices"
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
