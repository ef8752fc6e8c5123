package policy

import (
	"time"
)

// Stats is what a State knows at one moment.
type Stats struct {
	Now        Instant          // when it was read, on the clock that BreakerStats.Until and events use
	Main       PartitionStats   // of the calls that name no partition
	Partitions []PartitionStats // by name; the shared overflow partition is named _overflow
	Spilled    int64            // calls that had to use the overflow partition
	Bulkhead   BulkheadStats    // zero without a bulkhead
	Streams    int64            // results that outlived their attempt's time and are still open: they hold no slot
	Outlived   int64            // results that ever did
	Budget     BudgetStats

	Endpoints   []EndpointStats // in their order; each is among Partitions, too
	Panicked    bool            // none of them works, as far as is known, so none is left out
	SpreadToAll int64           // attempts that were sent like that

	Totals    Totals         // of all partitions
	Latency   LatencyStats   // of all partitions
	Spent     []Spend        // by unit, what answers said that they cost; nil without prices
	Throttle  ThrottleStats  // zero without one
	RateLimit RateLimitStats // zero without one
	Share     ShareStats     // zero where no limit is shared with other processes

	RetriesOff  bool    // retries are switched off, here or for the process
	RetriesBack Instant // when they are on again by themselves, Never for no end; zero while they are on
}

// Totals count the calls that have ended, and their attempts, since the dependency was
// made. A call that is under way counts once it ends, with all its attempts: that is when
// KindReturned tells it. Calls without work, or with a context that has ended, are neither
// counted nor events; those that are turned away for their options or their key count as
// Unsent. The numbers only grow.
type Totals struct {
	Calls     int64 // that ended, well or not
	Succeeded int64
	Attempts  int64    // sent by all these calls
	Retries   int64    // of Attempts
	Hedges    int64    // of Attempts
	HedgesWon int64    // hedges that brought the answer
	Unsent    int64    // calls that ended before an attempt was sent: they were refused, or given up while they waited
	Failures  Failures // calls that did not succeed, Unsent included
}

// Failures count calls by the reason of their end.
type Failures [numReasons]int64

// Of returns how many calls ended for that reason.
func (f *Failures) Of(r Reason) int64 {
	if r < numReasons {
		return f[r]
	}
	return 0
}

// LatencyStats say how long successful attempts took, within 1.6 %.
//
// They are sampled. The first hundreds of successes are in, and then one in eight, and the next
// one after a quarter of a second (of the budget's window, if that is another): of a
// dependency that is called seldom nearly all are in. Where the policy itself
// measures, for a percentile of hedges or of the least time, and no call names a
// partition, all are in anyway. Hedges are not, since they are sent where the first
// attempt is late. An attempt that a hedge was quicker than counts with the time after
// which it was given up.
type LatencyStats struct {
	P50, P95, P99 time.Duration // zero without samples
	P999          time.Duration // the 99.9th percentile; zero with fewer than a thousand samples
	Samples       int64
	Span          time.Duration // they are of the last half to whole span; zero before the first sample
}

// ThrottleStats is the adaptive throttle at one moment.
type ThrottleStats struct {
	On       bool
	Requests int64 // in the throttle's window, also those that it refused
	Accepts  int64 // of these, how many the dependency took
	Refuses  Ratio // the share of calls that it refuses now
}

// RateLimitStats is the client's rate limit at one moment.
type RateLimitStats struct {
	On    bool
	Rate  float64       // turns a second
	Burst int           // turns that may be taken at once after a pause
	Ahead int64         // turns taken that lie ahead
	Next  time.Duration // until the next turn that is free
}

// ShareStats is what this process may use, at one moment, of limits that it shares with others: see package fleet.
// RateLimitStats and BulkheadStats have the share and not the whole.
type ShareStats struct {
	On    bool
	Lost  bool    // the share has ended and no other came, so what the policy has for that is in force
	Until Instant // when the share ends, or did

	Rate, RateOf   PerSecond // turns a second, and of how many; zero where they are not shared
	Slots, SlotsOf int       // likewise
	Floor          Ratio     // of what the retry budget has without any success
	Floored        bool      // that is shared; if not, Floor means nothing
}

// PartitionStats is what is known of one partition.
type PartitionStats struct {
	Name    string
	Guarded bool // there is a breaker
	Breaker BreakerStats
	Paced   time.Duration // how much longer it is held back
	Timeout TimeoutStats
	Quotas  []QuotaStats // those of its calls
}

// QuotaStats is one quota at one moment.
type QuotaStats struct {
	Unit    string
	Span    time.Duration
	Amount  float64       // how much there is: what is configured, or what the dependency said if that is less
	Left    float64       // by own count, or by the dependency's if that is less
	Told    bool          // the dependency says what is left
	Waiting int           // calls that wait for room
	Next    time.Duration // until there is room for the first of them, or for one that uses the estimate
	Factor  float64       // what calls use, as a multiple of what they were thought to
	Used    float64       // since the beginning, by own count
	Shared  bool          // with other processes, so that this one may use only Part of it
	Part    Ratio
}

// EndpointStats is what is known of one endpoint.
type EndpointStats struct {
	Endpoint
	Backup   bool          // one that is before it is preferred
	Out      bool          // it gets no attempts, for it does not work or asked for time; of a Backup an alarm
	InFlight int           // attempts that are out
	Attempts int64         // that were sent to it
	Failed   int64         // of these, how many failed because of it
	Latency  time.Duration // of an attempt, smoothed; a failure counts as twice as slow as what was known. Zero means not known
	Worked   bool          // an attempt ever succeeded
	Since    time.Duration // how long ago one last did
}

// TimeoutStats is the time that an attempt may take, at one moment.
type TimeoutStats struct {
	Attempt    time.Duration // the time in force; zero means no bound
	Percentile Ratio         // that it is measured by; zero where it is timeout.attempt
	Samples    int64         // attempts whose time is known; of a measured one, as is what follows
	Cut        int64         // attempts of which only the least is known: they ended before they succeeded
	Needed     int64         // of Samples, before the percentile is used

	// Basis is what the time rests on: timeout.attempt, because too_few times are known for the percentile; the percentile as it
	// was measured; more than that, because too_many_cut attempts are only known to take longer; the same, but hopeless, because
	// hardly any attempt that takes longer succeeds; or the time of the call, stretched because attempts were cut off in
	// series. Empty is timeout.attempt as the policy says it.
	Basis string
}

// AttemptTimeout returns the attempt's time in force. Where calls name partitions it is the
// longest of theirs.
func (s *Stats) AttemptTimeout() TimeoutStats {
	longest := s.Main.Timeout
	if longest.Samples+longest.Cut == 0 && len(s.Partitions) > 0 {
		longest = s.Partitions[0].Timeout
	}
	for i := range s.Partitions {
		if t := s.Partitions[i].Timeout; t.Attempt > longest.Attempt {
			longest = t
		}
	}
	return longest
}

// BudgetStats is how much a dependency may still send again.
type BudgetStats struct {
	Off   bool
	Calls int64 // BudgetWindow: calls that paid in, in the window; BudgetShare: calls in flight
	Sent  int64 // re-sends: of BudgetWindow those in the window, of BudgetEarned all since the beginning, of BudgetShare those in flight

	// Level is how many re-sends are allowed right now. Of BudgetGRPC it is how many failures
	// would be tried again if no success came in between.
	Level int64

	// Successes are those in the window that earn re-sends. Of BudgetEarned only.
	Successes int64

	// Ended is how many of the last 50 retries have ended, and Helped how many of these
	// succeeded. Of BudgetEarned only.
	Ended, Helped int

	// Queued says that answers take more than three times the usual, so calls wait for each other in the
	// dependency: while they do, nothing is earned. Of BudgetEarned only.
	Queued bool

	// Tokens are what is left of Capacity. Of BudgetTokens, BudgetGRPC and BudgetQuota.
	Tokens float64
}
