package policy

import (
	"time"

	"github.com/gabion-go/gabion/backoff"
)

// presets are whole policies for the usual kinds of dependency (SPEC C8), in the
// order in which they are shown. What they leave out is the default.
//
// A call timeout is long enough for every attempt to run into its own timeout
// with the longest waits between them; only payment's, which the specification
// names, is not. Attempt timeouts are at most half of the breaker's window and
// below the ceilings of SPEC E5 (HTTP 30 s, RPC 10 s, database 5 s). An attempt that no other
// can follow has the time of the call, as by default (ADR 174).
var presets = []struct {
	name   string
	policy Policy
}{
	// Another company's HTTP API. Four attempts of 5 s and the longest waits, 1 + 2 + 4 s, are 27
	// s.
	{"external-api", Policy{
		Timeout: Timeout{Call: 30 * time.Second, Attempt: 5 * time.Second, Last: Off},
		Retry:   Retry{Attempts: 4, Backoff: backoff.Full(time.Second, 30*time.Second)},
	}},
	// A database of ours: short attempts, many of them, because a failover takes
	// seconds. Six attempts of 2 s and the longest waits, 0.5 + 1 + 2 + 4 + 8 s,
	// are 27.5 s.
	{"database", Policy{
		Timeout: Timeout{Call: 30 * time.Second, Attempt: 2 * time.Second, Last: Off},
		Retry:   Retry{Attempts: 6, Backoff: backoff.Equal(500*time.Millisecond, 10*time.Second)},
	}},
	// Work without a waiting caller. Eleven attempts of 5 s and ten waits of at most 60 s are 655
	// s.
	{"message-queue", Policy{
		Timeout: Timeout{Call: 11 * time.Minute, Attempt: 5 * time.Second},
		Retry:   Retry{Attempts: 11, Backoff: backoff.Backoff{Kind: backoff.DecorrelatedJitter, Base: time.Second, Cap: 60 * time.Second}},
	}},
	// A service of ours: deadlines travel to it. Three attempts of 1 s and the
	// longest waits, 250 + 500 ms, are 3.75 s. Waits of 50 ms were over before any blip:
	// of one of two seconds 3 % of the calls were answered, and 11 % are (ADR 40).
	{"internal-rpc", Policy{
		Trust:   Internal,
		Timeout: Timeout{Call: 4 * time.Second, Attempt: time.Second, Last: Off},
		Retry:   Retry{Attempts: 3, Backoff: backoff.Full(250*time.Millisecond, time.Second)},
	}},
	// Money. Every call has the caller's key, so every attempt may be repeated,
	// and nothing is hedged. The breaker is the default one: five failures in ten
	// seconds refused most calls of a provider that answers 95 of 100 well (ADR 40).
	// The timeouts are the specification's: three attempts fit at full length but for
	// the waits, all four when they fail quickly, as they mostly do. The waits are the
	// default's: with 100 ms 5 % of the calls in a blip of two seconds were answered, at
	// 1.6 times the load, and 32 % at 1.3 times with 1 s (ADR 40).
	{"payment", Policy{
		Key:      KeyRequired,
		Timeout:  Timeout{Call: 15 * time.Second, Attempt: 5 * time.Second, Last: Off},
		Retry:    Retry{Attempts: 4, Backoff: backoff.Full(time.Second, 20*time.Second)},
		Bulkhead: Bulkhead{Limit: 10},
	}},
	// Redis and its like. A command takes a millisecond, so the waits begin with 8 ms. The
	// budget is that of the AWS SDKs: a hundred retries are kept for a bad moment, and those that
	// succeed cost nothing. With it no more commands are lost than with go-redis alone (ADR
	// 95). Five attempts of 1 s and the longest waits, 8 + 16 + 32 + 64 ms, are 5.12 s.
	{"cache", Policy{
		Timeout: Timeout{Call: 6 * time.Second, Attempt: time.Second, Last: Off},
		Retry: Retry{
			Attempts: 5,
			Backoff:  backoff.Equal(8*time.Millisecond, 512*time.Millisecond),
			Budget:   Budget{Shape: BudgetQuota, Cost: 5},
		},
	}},
	// A provider of language models, over HTTP. An attempt lasts until the response headers, which are a
	// stream's first sign of life, and timeout.idle is the time to its first token and between tokens. A
	// stream that flows is never cut, and none that began is made again. Calls that are not streamed answer when
	// all is written: an attempt that no other can follow has five minutes for that, and all have more while
	// many need it (timeout.strict). Ten minutes are what the providers' SDKs wait. Three attempts of 60 s and
	// the longest waits, 1 + 2 s, are 183 s. Quotas are by the minute, so a Retry-After of a minute is waited
	// for. The budget and the statuses are those of the SDKs (docs/http.md). A completion that is made twice
	// costs twice and does nothing else, so it is safe.
	{"llm", Policy{
		Safe:    true,
		Timeout: Timeout{Call: 10 * time.Minute, Attempt: time.Minute, Last: 5 * time.Minute, Idle: time.Minute},
		Retry:   Retry{Attempts: 3, MaxAfter: time.Minute, Backoff: backoff.Full(time.Second, 30*time.Second), Budget: Budget{Shape: BudgetQuota, Cost: 5}},
		Pace:    Pace{Max: 30 * time.Second},
		HTTP:    HTTP{Transient: []int{409, 500}},
	}},
	// What the user hardly misses: two quick tries and few slots. Two attempts of
	// 1 s and a wait of at most 1 s are 3 s.
	{"best-effort", Policy{
		Timeout:  Timeout{Call: 3 * time.Second, Attempt: time.Second, Last: Off},
		Retry:    Retry{Attempts: 2},
		Bulkhead: Bulkhead{Limit: 3},
	}},
}

// Preset returns the policy of that name, to be used as it is or changed part by
// part; false means an unknown name. The names are [PresetNames]. Its waits suit its own call
// timeout: with a shorter one, shorten retry.backoff too, and write an attempt timeout that is no
// longer. In a file that is done by itself, the waits in proportion, unless the file says them. The
// waits of message-queue are those of a broker, between calls: they stay.
func Preset(name string) (Policy, bool) {
	for _, p := range presets {
		if p.name == name {
			return p.policy.Clone(), true
		}
	}
	return Policy{}, false
}

// PresetNames returns the names of all presets, in the order in which to show
// them.
func PresetNames() []string {
	names := make([]string, len(presets))
	for i, p := range presets {
		names[i] = p.name
	}
	return names
}
