package config

import (
	"strings"
	"time"

	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/internal/yamlstrict"
	"github.com/gabion-go/gabion/policy"
)

// betweenDeliveries is the preset whose waits are those of a broker, from one delivery to the
// next. They are not within a call, so its timeout says nothing of them.
const betweenDeliveries = "message-queue"

// waitsWithin are a preset's waits for a dependency that has less time for a call than the
// preset. They are shorter in the same proportion, so that as many attempts are begun, unless
// the dependency says anything of its waits.
func waitsWithin(name string, preset policy.Policy, call time.Duration, own map[string]yamlstrict.Place) backoff.Backoff {
	waits, whole := preset.Retry.Backoff, preset.Timeout.Call
	if call <= 0 || call >= whole || name == betweenDeliveries {
		return waits
	}
	for path := range own {
		if path == "retry.backoff" || strings.HasPrefix(path, "retry.backoff.") {
			return waits
		}
	}
	share := float64(call) / float64(whole)
	waits.Base = shortened(preset.Resolved().Retry.Backoff.Base, share)
	if waits.Cap > 0 {
		waits.Cap = max(shortened(waits.Cap, share), waits.Base)
	}
	return waits
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
