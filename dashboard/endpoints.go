package dashboard

import (
	"fmt"

	"github.com/gabion-go/gabion/policy"
)

// endpointLevels says in a sentence each what is known of the endpoints.
func endpointLevels(s *policy.Stats) (all []string) {
	if s.Panicked {
		all = append(all, "endpoints: none works, so none is left out")
	}
	for i := range s.Endpoints {
		e := &s.Endpoints[i]
		kind, text := "endpoint", ""
		if e.Backup {
			kind = "backup"
		}
		switch {
		case e.Out && e.Backup:
			text = "left out: it would not work if it were needed"
		case e.Out:
			text = "left out"
		case e.Latency > 0:
			text = "takes " + span(e.Latency)
		default:
			text = "not asked yet"
		}
		all = append(all, fmt.Sprintf("%s %s: %s; %s, %d failed, %d under way",
			kind, bounded(e.Name), text, plural(e.Attempts, "attempt", "attempts"), e.Failed, e.InFlight))
	}
	return all
}

// endpoint reports whether a partition is an endpoint, and whether another one works, so that no call is refused for it.
func (v *vitals) endpoint(partition string) (is, works bool) {
	for i := range v.stats.Endpoints {
		e := &v.stats.Endpoints[i]
		is, works = is || e.Name == partition, works || e.Name != partition && !e.Out
	}
	return is, is && works
}

// forcedOpen says what comes of a partition that is forced open.
func (v *vitals) forcedOpen(partition, why string) (tone, then, text string) {
	switch endpoint, works := v.endpoint(partition); {
	case works:
		return toneHand, "ends", why + "left out, others get its calls"
	case endpoint:
		return toneTrouble, "ends", why + "it gets calls all the same, as no endpoint works"
	}
	return toneTrouble, "ends", why + "every call is refused"
}
