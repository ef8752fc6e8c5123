package gabionprom

import (
	"context"
	"time"

	"github.com/gabion-go/gabion/contrib/gabionprom/internal/catalog"
)

// lettersMost is how many groups of a store are told apart: a program has a few.
const lettersMost = 200

// Letters is a store of dead letters, as scrapes ask it.
type Letters interface {
	// Groups returns what the store has of each group, of the first groups by name where there are more than most.
	Groups(ctx context.Context, most int) ([]LetterGroup, error)
}

// A LetterGroup is what a store of dead letters has of one group.
type LetterGroup struct {
	Name       string
	Waiting    int       // letters that wait
	Taken      int       // letters that a redrive has taken
	Unresolved int       // of both, those whose outcome is unknown until a person resolves it
	Oldest     time.Time // when the oldest of those that wait was put away; zero if none waits
	Bytes      int64     // of payloads, headers and failures
	Put        int64     // letters that were ever put away
	Driving    bool      // its last redrive goes on
	Stopped    bool      // its last redrive stopped by itself
}

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
		d := m.dependency(g.Name)
		if d == m.others || seen[d] {
			continue // two levels can't be added up
		}
		seen[d] = true
		s.level(catalog.DeadLetters, float64(g.Waiting), d.label, pair("state", "waiting"))
		s.level(catalog.DeadLetters, float64(g.Taken), d.label, pair("state", "taken"))
		age := 0.0
		if !g.Oldest.IsZero() {
			age = max(0, time.Since(g.Oldest).Seconds())
		}
		s.level(catalog.DeadUnresolved, float64(g.Unresolved), d.label)
		s.level(catalog.DeadAge, age, d.label)
		s.level(catalog.DeadBytes, float64(g.Bytes), d.label)
		s.level(catalog.DeadPut, float64(g.Put), d.label)
		s.level(catalog.Redrives, oneIf(g.Driving), d.label)
		s.level(catalog.RedrivesStopped, oneIf(g.Stopped), d.label)
	}
}
