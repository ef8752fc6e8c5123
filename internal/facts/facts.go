// Package facts is what a policy file says of the world around a program, under its keys facts.
// No call is changed by it: gabion lint calculates with it.
package facts

import (
	"reflect"
	"time"

	"github.com/gabion-go/gabion/internal/yamlstrict"
	"github.com/gabion-go/gabion/policy"
)

// Said is all that a file says.
type Said struct {
	Facts   map[string]Facts // by the names of dependencies: of those of which it says anything
	Program Program          // of the program that uses it
}

// Of returns what a *config.File says. Package config sets it.
var Of func(file any) *Said

// Facts is what a file says of the world around one dependency, under its key facts. No
// call is changed by it: the linter calculates with it, and says what it could not
// calculate because a fact is missing. Zero means that nothing is said.
type Facts struct {
	// Service is the name under which the dependency's own file says its facts. Zero means
	// the name of the dependency.
	Service string

	// Rate is how many calls one process makes at a usual time.
	Rate policy.PerSecond

	// Processes is how many processes call the dependency with this policy. Zero means the
	// number that the file's own facts say.
	Processes int

	// Capacity is how many attempts the dependency can answer, from all its callers.
	Capacity policy.PerSecond

	// P50, P99 and P999 are how long attempts take when all is well: the median, and the
	// 99th and 99.9th percentile.
	P50, P99, P999 time.Duration

	// Blip is the longest outage that a call should survive.
	Blip time.Duration

	// Pool is how many connections the pool under the bulkhead has.
	Pool int

	// IdlePerHost is http.Transport's MaxIdleConnsPerHost. Zero means that nothing is
	// said; net/http's own default is 2.
	IdlePerHost int

	// Local says that the dependency is in the same process or on the same machine.
	Local bool

	// Writes says that calls change something.
	Writes bool

	// Queue says that calls come from a queue or a batch: no user waits for the answer.
	Queue bool

	// Fallback says that callers have an answer of their own when the call fails.
	Fallback bool

	// Inner is how many attempts the client under gabion makes by itself, such as an SDK.
	// Zero means that nothing is said; 1 means that its own retries are off.
	Inner int

	// Mesh is what a service mesh or proxy in between does by itself.
	Mesh MeshFacts

	// KeyRetention is how long the dependency remembers idempotency keys.
	KeyRetention time.Duration

	// Horizon is how long after its first attempt a call may come again by what calls
	// gabion, with the same key: a queue that redelivers, a job that is repeated. Zero
	// means that nothing is said.
	Horizon time.Duration

	// Connections is how many connections the dependency takes from all its callers.
	Connections int
}

// MeshFacts is what a service mesh or proxy does to the calls of one dependency. Zero means
// that nothing is said.
type MeshFacts struct {
	// Attempts is how many attempts it makes of each request.
	Attempts int

	// Timeout is its timeout for a request.
	Timeout time.Duration

	// Breaker says that it has a breaker or outlier detection.
	Breaker bool
}

// Program is what a file says of the program that uses it, under its own key facts. No
// call is changed by it. Zero means that nothing is said.
type Program struct {
	// Service is the name of the program, which other files use for it.
	Service string

	// Processes is how many processes of the program run.
	Processes int

	// Deadline is how long the program's callers wait for it.
	Deadline time.Duration

	// Fresh says that the program does not take over its callers' deadlines: each of its
	// calls has a timeout of its own.
	Fresh bool

	// DropsKeys says that the program does not pass on the idempotency keys that it gets.
	DropsKeys bool

	// StopsRetries says that the program answers with gabionhttp.Error, or passes the
	// answers of its own calls on: what gabion repeated in vain is not repeated above.
	StopsRetries bool

	// Metrics says that its metrics are collected, so that an open breaker is seen.
	Metrics bool

	// Routes are what it serves, by names such as POST /charges.
	Routes map[string]Route

	// Stores are where it keeps idempotency records, by names that routes use.
	Stores map[string]Store
}

// Has reports whether the facts say anything of a path such as facts.rate.
func (f Facts) Has(path string) bool { return has(reflect.ValueOf(f), "facts", path) }

func has(v reflect.Value, at, path string) bool {
	for i := range v.NumField() {
		f, at := v.Field(i), at+"."+yamlstrict.Snake(v.Type().Field(i).Name)
		if f.Kind() == reflect.Struct && has(f, at, path) || at == path && !f.IsZero() {
			return true
		}
	}
	return false
}
