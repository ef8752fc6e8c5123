package gabionprom

import (
	"context"
	"time"

	"github.com/gabion-go/gabion/contrib/gabionprom/internal/catalog"
	"github.com/gabion-go/gabion/deadletter"
)

// lettersMost is how many groups of a store are told apart: a program has a few.
const lettersMost = 200

// A group is what a store has of one group.
type group struct {
	name    string
	stats   deadletter.Stats
	driving bool // its last redrive goes on
	stopped bool // its last redrive stopped by itself
}

func groupsOf(ctx context.Context, store deadletter.Store) (groups []group, err error) {
	names, err := store.Groups(ctx)
	if err != nil {
		return nil, err
	}
	for _, name := range names[:min(len(names), lettersMost)] {
		g := group{name: name}
		if g.stats, err = store.Stats(ctx, name); err != nil {
			return nil, err
		}
		drives, err := store.Drives(ctx, name)
		if err != nil {
			return nil, err
		}
		for i := range drives {
			g.driving, g.stopped = drives[i].State == deadletter.Driving, drives[i].State == deadletter.StoppedByItself
		}
		groups = append(groups, g)
	}
	return groups, nil
}

// letterStates are those of letters that are not over.
var letterStates = []deadletter.State{deadletter.Waiting, deadletter.Taken}

// collectLetters sends what the store of dead letters said.
func (m *Metrics) collectLetters(s *scrape) {
	if m.letters == nil {
		return
	}
	groups, up := m.letters.now(time.Now().Add(askedWait))
	s.level(catalog.DeadUp, oneIf(up))
	seen := map[*dependency]bool{}
	for i := range groups {
		g := &groups[i]
		d := m.dependency(g.name)
		if d == m.others || seen[d] {
			continue // two levels can't be added up
		}
		seen[d] = true
		for _, state := range letterStates {
			s.level(catalog.DeadLetters, float64(g.stats.ByState[state]), d.label, pair("state", state.String()))
		}
		age := 0.0
		if !g.stats.Oldest.IsZero() {
			age = max(0, time.Since(g.stats.Oldest).Seconds())
		}
		s.level(catalog.DeadUnresolved, float64(g.stats.Unresolved), d.label)
		s.level(catalog.DeadAge, age, d.label)
		s.level(catalog.DeadBytes, float64(g.stats.Bytes), d.label)
		s.level(catalog.DeadPut, float64(g.stats.Put), d.label)
		s.level(catalog.Redrives, oneIf(g.driving), d.label)
		s.level(catalog.RedrivesStopped, oneIf(g.stopped), d.label)
	}
}
