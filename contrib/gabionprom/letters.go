package gabionprom

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/gabion-go/gabion/contrib/gabionprom/internal/catalog"
	"github.com/gabion-go/gabion/deadletter"
)

// How a store of dead letters is asked. A scrape must not wait for a database, and a database must
// not be asked by each of many servers that scrape.
const (
	lettersEvery = 10 * time.Second       // the store is asked at most so often
	lettersWait  = 500 * time.Millisecond // so long a scrape waits for its answer
	lettersTime  = 10 * time.Second       // so long the store has
	lettersStale = time.Minute            // after that, what it said is not exposed any more
	lettersMost  = 200                    // groups: a program has a few
)

// letters are what the store of dead letters says now and then.
type letters struct {
	store deadletter.Store

	mu     sync.Mutex
	asked  time.Time     // when it was asked last
	asking chan struct{} // closed when it has answered; nil while it is not asked
	up     bool
	at     time.Time // of what follows
	groups []group
}

// A group is what a store has of one group.
type group struct {
	name    string
	stats   deadletter.Stats
	driving int
	stopped int // by themselves, since another ended well or by hand
}

// now returns what the store said last, after asking it if that was some time ago. It waits
// a little for the answer. A store that does not come back is asked once.
func (l *letters) now() (groups []group, up bool) {
	l.mu.Lock()
	asking := l.asking
	if asking == nil && (l.asked.IsZero() || time.Since(l.asked) >= lettersEvery) {
		asking = make(chan struct{})
		l.asked, l.asking = time.Now(), asking
		go l.ask(asking)
	}
	l.mu.Unlock()
	if asking != nil {
		patience := time.NewTimer(lettersWait)
		select {
		case <-asking:
		case <-patience.C:
		}
		patience.Stop()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	late := l.asking != nil && time.Since(l.asked) >= lettersTime
	if l.at.IsZero() || time.Since(l.at) > lettersStale {
		return nil, l.up && !late
	}
	return l.groups, l.up && !late
}

// ask asks the store, whose panic is no reason to end the program.
func (l *letters) ask(done chan struct{}) {
	var groups []group
	err := errors.New("it panicked")
	defer func() {
		_ = recover()
		l.mu.Lock()
		defer l.mu.Unlock()
		defer close(done)
		l.asking, l.up = nil, err == nil
		if err == nil {
			l.at, l.groups = time.Now(), groups
		}
	}()
	ctx, cancel := context.WithTimeout(context.Background(), lettersTime)
	defer cancel()
	groups, err = groupsOf(ctx, l.store)
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
		g.count(drives)
		groups = append(groups, g)
	}
	return groups, nil
}

// count counts redrives, of which the newest come first.
func (g *group) count(drives []deadletter.Drive) {
	settled := false
	for i := range drives {
		switch drives[i].State {
		case deadletter.Driving:
			g.driving++
		case deadletter.StoppedByItself:
			if !settled {
				g.stopped++
			}
		case deadletter.Stopped:
			settled = true
		case deadletter.Finished:
			settled = settled || drives[i].Done > 0 && drives[i].Done >= drives[i].Failed
		}
	}
}

// letterStates are those of letters that are not over.
var letterStates = []deadletter.State{deadletter.Waiting, deadletter.Ordered, deadletter.Taken}

// collectLetters sends what the store of dead letters said.
func (m *Metrics) collectLetters(s *scrape) {
	if m.letters == nil {
		return
	}
	groups, up := m.letters.now()
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
		s.level(catalog.Redrives, float64(g.driving), d.label)
		s.level(catalog.RedrivesStopped, float64(g.stopped), d.label)
	}
}
