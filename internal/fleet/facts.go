package fleet

import (
	"encoding/json"
	"strings"
)

// ProcessFacts are what a report says of the process. They are under the name of no dependency.
type ProcessFacts struct {
	Version  string `json:"ver,omitempty"`
	Policies string `json:"pol,omitempty"` // a hash
	At       int64  `json:"at,omitempty"`  // milliseconds of the store's clock since 1970, when it was written; zero before the store first answered
	Lost     bool   `json:"lost,omitempty"`
}

// DependencyFacts are what it says of a dependency.
type DependencyFacts struct {
	Calls     int64    `json:"c,omitempty"` // that have ended, since the process began
	Succeeded int64    `json:"s,omitempty"`
	Refused   int64    `json:"r,omitempty"` // that ended before an attempt was sent
	P99       int64    `json:"p,omitempty"` // microseconds that a good attempt takes
	Open      []string `json:"o,omitempty"` // partitions whose breaker is open or half open; "" is that of calls without one
}

// Process is the key of a report's ProcessFacts.
const Process = ""

// FactsIn reads what a report says under a key.
func FactsIn[T any](r *Report, key string) (f T, ok bool) {
	raw, found := r.Facts[key]
	if !found || json.Unmarshal(raw, &f) != nil {
		return f, false
	}
	return f, true
}

// PodsKey begins the keys of a fleet's processes.
func PodsKey(fleet string) string { return fleet + "/pods/" }

// PoolKey is the key of its pool.
func PoolKey(fleet string) string { return fleet + "/pool" }

// OverridesKey is the key of its overrides.
func OverridesKey(fleet string) string { return fleet + "/overrides" }

// DependencyOf returns the dependency and the limit in the name of a resource.
func DependencyOf(resource string) (dependency, kind string) {
	i := strings.LastIndexByte(resource, ' ')
	if i < 0 {
		return resource, ""
	}
	return resource[:i], resource[i+1:]
}
