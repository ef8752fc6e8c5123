package policy

import (
	"slices"
	"strings"
	"time"

	"github.com/gabion-go/gabion/breaker"
	"github.com/gabion-go/gabion/bulkhead"
	"github.com/gabion-go/gabion/clock"
)

// Stats is what a State knows at one moment.
type Stats struct {
	Main       LaneStats      // of the calls that name no partition
	Partitions []LaneStats    // by name; the shared overflow partition is named _overflow
	Spilled    int64          // calls that had to use the overflow partition
	Bulkhead   bulkhead.Stats // zero without a bulkhead
	Streams    int64          // results that outlived their attempt's time and are still open: they hold no slot
	Outlived   int64          // results that ever did
	Budget     BudgetStats
	RetriesOff bool // retries are switched off, here or for the process
}

// LaneStats is what is known of one partition.
type LaneStats struct {
	Name    string
	Guarded bool // there is a breaker
	Breaker breaker.Snapshot
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

// Stats returns a snapshot of every part. Each part is consistent in itself.
func (s *State) Stats(now clock.Instant) Stats {
	r := s.rules.Load()
	st := Stats{Main: s.lane.stats(now, r), Budget: s.budgetStats(now, r), RetriesOff: s.retriesOff()}
	if b := s.bulkhead(); b != nil && r.bulkhead {
		st.Bulkhead = b.Stats()
	}
	if live := s.streams(); live != nil {
		st.Streams, st.Outlived = live.open.Load(), live.ever.Load()
	}
	ls := s.partitions()
	if ls == nil {
		return st
	}
	st.Spilled = ls.spilled.Load()
	ls.each(func(l *keyedLane) {
		one := l.stats(now, r)
		one.Name = l.name
		st.Partitions = append(st.Partitions, one)
	})
	slices.SortFunc(st.Partitions, func(a, b LaneStats) int { return strings.Compare(a.Name, b.Name) })
	return st
}

func (l *lane) stats(now clock.Instant, r *Rules) LaneStats {
	var st LaneStats
	if until, held := l.pacer.Load().held(now); held {
		st.Paced = until.Sub(now)
	}
	if b := l.breaker.Load(); b != nil && r.guarded {
		st.Guarded, st.Breaker = true, b.Snapshot(now)
	}
	return st
}

// Quiet reports whether the State could be forgotten without losing more than
// counts: no breaker is anything but closed, nothing is out or queued, and the
// dependency is not held back. It is for evicting idle dependencies.
func (s *State) Quiet(now clock.Instant) bool {
	quiet := true
	s.eachLane(func(l *lane, _ string) {
		b := l.breaker.Load()
		_, held := l.pacer.Load().held(now)
		quiet = quiet && !held && (b == nil || b.Idle())
	})
	if b := s.bulkhead(); b != nil {
		st := b.Stats()
		quiet = quiet && st.InUse == 0 && st.Queued == 0
	}
	return quiet
}

func (s *State) budgetStats(now clock.Instant, r *Rules) BudgetStats {
	b := r.Policy.Retry.Budget
	switch {
	case b.Off:
		return BudgetStats{Off: true}
	case b.Shape == BudgetTokens:
		return BudgetStats{Level: s.tokens().Level(r.tokens) / max(r.tokens.Cost, 1)}
	}
	if b.Shape == BudgetEarned {
		successes, _ := s.earned.Recent(now, &r.earned)
		return BudgetStats{Sent: s.earned.Sent(), Level: max(s.earned.Level(now, &r.earned)/1e6, 0), Successes: successes}
	}
	w := s.window()
	calls, sent := w.Counts(now, r.budget)
	return BudgetStats{Calls: calls, Sent: sent, Level: w.Level(now, r.budget)}
}
