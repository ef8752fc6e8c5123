package config

import (
	"strings"
	"time"

	"github.com/gabion-go/gabion/internal/yamlstrict"
	"github.com/gabion-go/gabion/policy"
)

// betweenDeliveries is the preset whose waits are those of a broker, from one delivery to the
// next. They are not within a call, so its timeout says nothing of them.
const betweenDeliveries = "message-queue"

// within is a preset for a dependency that has less time for a call than the preset. An
// attempt has no more than the call, as by default. The waits are shorter in the same
// proportion, so that as many attempts are begun, unless the dependency says anything of its
// waits. An attempt timeout that the dependency writes is kept, as without a preset.
func within(name string, preset policy.Policy, call time.Duration, own map[string]yamlstrict.Place) policy.Policy {
	whole := preset.Timeout.Call
	if _, written := own["timeout.attempt"]; written && preset.Timeout.Last == policy.Off {
		preset.Timeout.Last = 0
	}
	if call <= 0 || call >= whole {
		return preset
	}
	preset.Timeout.Attempt = min(preset.Timeout.Attempt, call)
	preset.Timeout.Last = min(preset.Timeout.Last, call)
	if name == betweenDeliveries {
		return preset
	}
	for path := range own {
		if path == "retry.backoff" || strings.HasPrefix(path, "retry.backoff.") {
			return preset
		}
	}
	waits, share := &preset.Retry.Backoff, float64(call)/float64(whole)
	waits.Base = shortened(preset.Resolved().Retry.Backoff.Base, share)
	if waits.Cap > 0 {
		waits.Cap = max(shortened(waits.Cap, share), waits.Base)
	}
	return preset
}

// shortened is a share of a wait, rounded as one would write it, and at least a millisecond.
func shortened(wait time.Duration, share float64) time.Duration {
	d := time.Duration(float64(wait) * share)
	unit := time.Millisecond
	for d >= 100*unit {
		unit *= 10
	}
	return max(d.Round(unit), time.Millisecond)
}
