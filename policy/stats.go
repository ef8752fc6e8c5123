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

	RetriesOff  bool    // retries are switched off, here or for the process
	RetriesBack Instant // when they are on again by themselves, Never for no end; zero while they are on
}

// PartitionStats is what is known of one partition.
type PartitionStats struct {
	Name    string
	Guarded bool // there is a breaker
	Breaker BreakerStats
	Paced   time.Duration // how much longer it is held back
}

// BudgetStats is how much a dependency may still send again.
type BudgetStats struct {
	Off   bool
	Calls int64 // paid in, in the window; of BudgetWindow only
	Sent  int64 // re-sends: of BudgetWindow those in the window, of BudgetEarned all since the beginning
	Level int64 // re-sends allowed right now

	// Successes are those in the window that earn re-sends. Of BudgetEarned only.
	Successes int64
}

// Overflow is the name of the partition that all partitions past the bound share. It
// counts and reports, but refuses and holds back nobody: partitions that others name
// must not decide about one that works.
const Overflow = "_overflow"
