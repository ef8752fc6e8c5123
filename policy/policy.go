// Package policy has gabion's data and vocabulary: policies, and the words for calls.
//
// A [Policy] is plain data. Files contain policies, production runs them, and the lab
// simulates them. [Class], [Effect] and [Outcome] say how an attempt ended, [Reason] why
// a call ended, [Event] what was decided in between, and [Stats] what is known of a
// dependency. This package makes no decisions. Values may be copied freely, and are safe
// for concurrent reading.
package policy

import (
	"slices"
	"time"

	"github.com/gabion-go/gabion/backoff"
)

// Off switches a numeric rule off, where zero would mean its default.
const Off = -1

// Learned is the [Bulkhead.Limit] of a bulkhead that finds out by itself how many calls the
// dependency can work on at once. Files write "learned".
const Learned = -2

// Ratio is a share between 0 and 1. Files write it as a percentage, "50%".
type Ratio float64

// PerSecond is a rate. Files write it as "10/s".
type PerSecond float64

// Policy is the rules for calling one dependency, outermost layer first. The
// zero Policy is sound; [Policy.Resolved] shows what it means. In every field
// zero means the documented default. A part is switched off by its field Off, a
// number by [Off]; any other negative number is a mistake that [Policy.Validate]
// reports.
//
// A Policy is a value: copy it freely, share it between dependencies. Copies share
// Prices and the lists of RateLimit, HTTP, GRPC and Endpoints; [Policy.Clone] makes one that shares nothing.
type Policy struct {
	// Trust says whether the dependency is ours. Deadline and attempt headers go
	// only to internal dependencies: a vendor does not learn our internals.
	// Zero means External.
	Trust Trust

	// Key says whether calls carry an idempotency key. Zero means KeyDeclared.
	Key KeyMode

	// Safe declares that all work sent to this dependency may be repeated: it
	// only reads, or repeating it changes nothing. Zero means that nothing is
	// declared, and only work that carries a key, has a safe method or provably
	// never left is repeated.
	Safe bool

	Timeout   Timeout
	Retry     Retry
	Hedge     Hedge
	Pace      Pace
	Throttle  Throttle
	Breaker   Breaker
	Bulkhead  Bulkhead
	RateLimit RateLimit
	HTTP      HTTP
	GRPC      GRPC

	// Prices are what units of the dependency's work cost. With any, adapters read
	// from answers what they used, as the tokens of a model, and [Stats.Spent] adds it up in money,
	// too. No two may be of one unit in one money. Zero means that nothing is read.
	Prices []Price

	Partitions Partitions
	Endpoints  Endpoints
	Fleet      Fleet
}

// Partitions bounds what a dependency keeps for each partition (host, tenant, endpoint)
// that calls name: a breaker, latencies and a pace.
type Partitions struct {
	// Max is the most partitions that are kept. The others share one, whose breaker refuses no
	// call. Zero means 1000; Off means that all calls share one, whatever they name.
	Max int

	// Idle is how long a partition with a closed breaker must be unused before another
	// may take its place. Zero means 10 min.
	Idle time.Duration
}

// Clone returns a copy that shares nothing with p.
func (p Policy) Clone() Policy {
	p.RateLimit.Quotas = slices.Clone(p.RateLimit.Quotas)
	p.HTTP.Transient = slices.Clone(p.HTTP.Transient)
	p.HTTP.Permanent = slices.Clone(p.HTTP.Permanent)
	p.GRPC.Transient = slices.Clone(p.GRPC.Transient)
	p.GRPC.Permanent = slices.Clone(p.GRPC.Permanent)
	p.Endpoints.List = slices.Clone(p.Endpoints.List)
	p.Prices = slices.Clone(p.Prices)
	return p
}

// Trust says whose a dependency is.
type Trust uint8

// Whose a dependency can be.
const (
	External Trust = iota // another company's: it gets no headers of ours
	Internal              // ours: deadlines and attempt numbers travel to it
)

// KeyMode says where the idempotency key of a call comes from.
type KeyMode uint8

// Where a key can come from.
const (
	KeyDeclared KeyMode = iota // only from the caller; calls without one are fine
	KeyMade                    // made once per call when the caller gave none
	KeyRequired                // from the caller; a call without one is refused
)

// Timeout bounds time in two layers. The caller's own deadline counts too: the
// smallest wins.
type Timeout struct {
	// Call is the most time that a whole call may take, waits and retries
	// included. Zero means 15 s, or longer where Attempt is, or a slow call of a
	// breaker per call; Off means only the caller's deadline counts.
	Call time.Duration

	// Attempt is the most time that one attempt may take, if another can follow it: see
	// Last. Zero means 4 s, or what fits Call and Last, half of the breaker's Window, and a
	// fourth above its SlowCall; Off means only the call's deadline counts. Both end with the
	// verdict: that of an HTTP request is given at the response headers. With Percentile it is the upper
	// bound, and what counts while too little is measured.
	Attempt time.Duration

	// Percentile takes the attempt's time from what is measured, within AttemptMin and
	// Attempt: 0.999 cuts off at most one in a thousand of the attempts that would
	// succeed. It needs that many samples, a thousand of the last 30 s or, where calls are
	// rare, of the last 20 min. An attempt that was cut off counts as at least that long,
	// and where many are, Attempt counts. Files write it as attempt: p99.9 as well. Zero
	// means that Attempt always counts.
	Percentile Ratio

	// Last is the most time that an attempt may take which no other can follow: the
	// attempts are used up, the budget is empty, the time is too short for another one, or
	// the work is not safe to repeat. To cut such an attempt off earlier would only turn a
	// late answer into none. It is decided when the attempt is sent. Off means that only the
	// call's deadline counts. Zero means Off, but Attempt where that is written or measured,
	// or where Call is Off.
	Last time.Duration

	// Strict keeps Attempt and Last while attempts are cut off in series and late answers
	// come. Else attempts then have what is left of the call, at most Last where that is longer
	// than Attempt, or four times Attempt where Call is Off: that is while more than 15 % of the last 12 outlast Attempt, and more
	// of those that go on, on trial, are answered than of the calls whose attempts are cut
	// off. It is decided for each partition, when the attempt is sent. The caller's deadline
	// counts as ever.
	Strict bool

	// AttemptMin is the least time that Percentile gives an attempt. Zero means 50 ms, or
	// twice a HopMargin that is written, or Attempt when that is shorter. Of Percentile
	// only.
	AttemptMin time.Duration

	// Idle is the longest time for which a result that lives on after its verdict,
	// as a response body does, may bring nothing while the caller reads it. Zero means 30 s, or
	// Body when that is shorter; Off means that it may be silent for ever.
	Idle time.Duration

	// Body is the most time that such a result may take, from its verdict on. Zero
	// means no bound.
	Body time.Duration

	// Margin is the least time that must be left for another attempt to be worth
	// starting. Zero means 50 ms, or a tenth of Call, or Attempt when those are
	// shorter; Off means none.
	Margin time.Duration

	// Fit raises Margin to this percentile of measured latency, 0.5 meaning that
	// no attempt is started in less time than half of them take. It counts once a
	// hundred latencies are known. Zero means Margin alone.
	Fit Ratio

	// HopMargin is what a hop keeps for itself of the time that it passes on. A margin of 100 ms or less
	// is at most half of the time that is left.
	// Zero means 100 ms, or half of the shortest timeout when that is less; Off means
	// none.
	HopMargin time.Duration
}

// Retry says how often and when an attempt that failed is made again. Whether it
// may be is not configured here: it must be transient and safe to repeat.
type Retry struct {
	// Attempts is the most tries per call, the first included. Zero means 3; 1
	// means never retry.
	Attempts int

	// Backoff is the wait before a retry. Zero means full jitter from 1 s, capped
	// at 30 s; a Base of Off, as in backoff.Const(0), means no wait.
	Backoff backoff.Backoff

	// Hold keeps a retry waiting while other calls fail, too: Hold failures of theirs in a row, and
	// no success since. The retry goes once a call succeeds, or when its own call's time is nearly
	// over. It also goes after one more wait if all of them were out at the same time: they may
	// have met one blip, and would wait for each other. A dependency that has not answered well yet
	// is not waited for: the call ends as soon as a call failed that was sent after another had
	// failed. The breaker counts the failures, whatever its rules, so without a breaker nothing is
	// held. Zero means 1; Off means that no retry waits for others.
	Hold int

	// Immediate lets the first retry go without a wait when the attempt provably
	// never left.
	Immediate bool

	// MaxAfter is the longest Retry-After that a call waits for; a longer one
	// ends the call at once; so does one that does not fit the deadline. Zero means
	// 30 s, or the cap of Backoff when that is longer.
	MaxAfter time.Duration

	// Budget bounds what retries and hedges may add to the load.
	Budget Budget

	// Contention is for attempts that ended in a conflict with another call.
	Contention ContentionRetry
}

// ContentionRetry says how an attempt is made again that ended in [Contention]: soon,
// since the dependency works. Conflicts count neither as Retry's attempts nor in its
// budget, and what is counted here bounds them.
type ContentionRetry struct {
	// Attempts is the most tries of a call that may end in a conflict. Zero means 15,
	// or 1 where Retry.Attempts is 1; 1 means that no conflict is tried again.
	Attempts int

	// Backoff is the wait before the next try. Zero means full jitter from 10 ms,
	// capped at 1 s; a Base of Off, as in backoff.Const(0), means no wait.
	Backoff backoff.Backoff

	// Repeats is how often on average, over 10 s, a call that met a conflict may be
	// made again. Zero means 5; Off means that only Attempts counts.
	Repeats int
}

// Hedge sends a second attempt while the first is still out. Only work that is
// safe to repeat is hedged, and each hedge is charged to the retry budget.
type Hedge struct {
	// Off sends no hedges, whatever the other fields say.
	Off bool

	// Max is the most hedges per call. Zero means none.
	Max int

	// Delay is how long the newest attempt may be out before the next goes. Zero
	// means that Percentile says it, and all at once where that is Off; Off means that
	// only a failure brings the next.
	Delay time.Duration

	// Percentile takes the delay from the measured latency of successes, 0.95
	// meaning the time in which 95 % of them come, so that a twentieth is hedged. An
	// attempt that loses to its hedge counts as long as it was out, so when slow answers
	// become more than that, more are hedged for some minutes. Hedges themselves are not
	// measured. Until a hundred latencies are known Delay is used, and without one only
	// a failure brings the next. Zero means 95 % where Delay is not written, and Off
	// where it is; Off means Delay always.
	Percentile Ratio
}

// Pace holds a dependency's calls back when it asked for time, with 429 or
// Retry-After.
type Pace struct {
	// Off ignores the request for everyone but the call that got it.
	Off bool

	// Max is the longest time that a dependency is held back. Zero means 5 s.
	Max time.Duration
}

// Throttle rejects calls locally with the probability
// max(0, (requests − K·accepts)/(requests + 1)), from Google SRE ch. 21.
type Throttle struct {
	// Off rejects nothing, whatever the other fields say.
	Off bool

	// K is how many requests are sent per accepted one before rejecting begins.
	// Zero means no throttling; 2 is usual.
	K float64

	// Window is the time over which requests and accepts are counted. Zero means
	// 2 min.
	Window time.Duration
}

// Bulkhead bounds how many attempts are out at once, and how many wait.
type Bulkhead struct {
	// Off removes the bound.
	Off bool

	// Per says whether each attempt or the whole call takes a slot. Zero means
	// PerAttempt.
	Per Per

	// Limit is the most attempts out at once. Zero means 100. Learned means that it
	// begins with 100 and moves between Min and Max, as the dependency's answers show
	// how many it can work on at once.
	Limit int

	// Min is the lowest limit that is learned. Zero means 1. Of a learned limit only.
	Min int

	// Max is the highest limit that is learned. Zero means 1000, or Min when that is
	// more. Of a learned limit only.
	Max int

	// Queue is the most calls waiting for a slot. Zero means twice Limit, also while
	// that moves; Off means that no call waits.
	Queue int

	// QueueTimeout is the longest wait for a slot; the deadline bounds it too.
	// Zero means 1 s; Off means that only the deadline counts.
	QueueTimeout time.Duration

	// Fair shares slots and queue among the tenants that calls name.
	Fair bool
}

// RateLimit bounds how many attempts start per second, and what they use.
type RateLimit struct {
	// Off removes the limit, whatever the other fields say.
	Off bool

	// Rate is the attempts per second. Zero means no limit.
	Rate PerSecond

	// Burst is how many may start at once after a pause. Zero means 1.
	Burst int

	// MaxWait is the longest time to wait for one's turn; the deadline bounds it
	// too. Zero means that only the deadline does; Off means never wait.
	MaxWait time.Duration

	// Quotas bound what attempts use, each in its own unit and time, at most eight. Calls of each partition have their
	// own. A call waits until there is room for it in all of them. Zero means none.
	Quotas []Quota
}

// HTTP adjusts how answers are read. Every status not named here keeps its
// meaning: 408, 429, 502, 503 and 504 are transient, 501 and 505 permanent, any
// other 5xx is retried at most once, and any other 4xx is permanent.
type HTTP struct {
	// Transient are further statuses to retry.
	Transient []int

	// Permanent are statuses that are never retried.
	Permanent []int

	// ReplayLimit is the most bytes of a request body without GetBody that are
	// kept so that it can be sent again. Zero means 64 KiB; Off means none.
	ReplayLimit int
}
