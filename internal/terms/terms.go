// Package terms has the words and the bounds that policies, events and statistics give as texts and numbers,
// for the packages of gabion that write or explain them.
package terms

// The bounds of one policy.
const (
	MaxSends     = 64 // attempts and hedges of one call
	MaxQuotas    = 8  // of a dependency
	MaxEndpoints = 64 // of a dependency
)

// Why a call waits, for policy.Event.Wait. There are no others.
const (
	ForBackoff = "backoff"
	ForSuccess = "success" // a retry looks again after each wait, and goes once a call has succeeded
	ForSlot    = "slot"
	ForPace    = "pace"
	ForRate    = "rate"
	ForQuota   = "quota"
)

// What policy.KindEndpointsMoved reports, in its Code. There are no others.
const (
	EndpointsPanic = "panic"       // none of Count endpoints works, so none is left out
	EndpointsCalm  = "calm"        // one works again
	EndpointsNew   = "new"         // there are others now: Count
	EndpointsKept  = "kept"        // others could not be had: the Count that there are stay
	BackupOut      = "backup_out"  // Partition is a backup, and would not work
	BackupBack     = "backup_back" // it would again
)

// What the time of an attempt rests on, for policy.TimeoutStats.Basis.
const (
	TimeoutFixed      = ""             // timeout.attempt
	TimeoutTooFew     = "too_few"      // timeout.attempt, since fewer times are known than needed
	TimeoutMeasured   = "measured"     // the percentile, between the bounds
	TimeoutTooManyCut = "too_many_cut" // more than the percentile, at most timeout.attempt: too many attempts were cut off for the percentile to be known
	TimeoutHopeless   = "hopeless"     // likewise, but hardly any attempt succeeds that takes longer; one in sixteen has timeout.attempt
	TimeoutStretched  = "stretched"    // the time of the call: attempts were cut off in series, and others are answered late
)

// Why a learned limit moved, for policy.Numbers.Moved.
const (
	LimitSet     = ""        // by the policy
	LimitGrew    = "grew"    // all slots were in use, and attempts took no longer than usual
	LimitTried   = "tried"   // fewer are allowed for a moment, to see whether attempts get faster
	LimitFound   = "found"   // that trial has shown how many are right
	LimitCrowded = "crowded" // the dependency answered too often that it has no room
	LimitStarved = "starved" // next to nothing was answered in time
	LimitBack    = "back"    // what lowered it is over, or was not its to cure
)

// Overflow is the name of the partition that all partitions past the bound share. It counts and
// reports, but refuses and holds back no call: partitions that others name must not decide about
// one that works.
const Overflow = "_overflow"
