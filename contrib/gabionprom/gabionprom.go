package gabionprom

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/fleet"
	"github.com/prometheus/client_golang/prometheus"
)

// The bounds of labels. Each set of counters takes about 3 kB, and half a kilobyte more for each processor that calls, and exposes about 50 series.
const (
	defaultDependencies = 1000   // a program has tens, and a registry a thousand instances at most
	defaultSets         = 200    // an API has tens of routes, and each fails with a few codes
	defaultPartitions   = 20     // more that are not closed at once are one outage, not twenty
	maxSets             = 10_000 // of all dependencies together
	maxWords            = 50     // results of keys and messages: sets that are closed elsewhere
	maxName             = 128    // bytes, as gabion bounds the names of partitions
)

// other is what counts under a name that is past a bound.
const other = "_other"

// Config says what a [Metrics] exposes. The zero Config exposes what events tell, and no
// states.
type Config struct {
	// Registry and Dependencies are asked for their states and levels at each scrape.
	// Where both know a name, the Registry counts. New observes them, for as long as
	// they are there. A program that does so too, by registry.Observe(metrics), counts
	// nothing twice. One that passes events on by an observer of its own would.
	Registry     *gabion.Registry
	Dependencies []*gabion.Dependency

	// MaxDependencies is how many names of dependencies are told apart. Zero means 1000.
	MaxDependencies int

	// MaxSets is how many operations, and codes of an operation, are told apart for
	// each dependency, together. Zero means 200. All dependencies together have 10,000.
	MaxSets int

	// MaxPartitions is how many names of partitions are told apart for each dependency,
	// among those whose breaker is not closed. Zero means 20.
	MaxPartitions int

	// Exemplar returns the labels of an exemplar, such as the trace id, if the context has
	// a trace that is kept. They are attached to durations of calls and attempts. It is
	// called for each, so it must be quick. Nil means no exemplars.
	Exemplar func(context.Context) prometheus.Labels

	// Letters is a store of dead letters, which is asked how many there are at scrapes, at
	// most every ten seconds. A scrape waits half a second for it at most. Package promletters
	// makes one of a deadletter.Store. Nil means none.
	Letters Letters

	// Outboxes are asked for their figures at scrapes, at most once a minute, by the name
	// that is the label outbox. A scrape waits half a second for them at most. Package
	// promletters makes one of an outbox.Outbox. Nil means none.
	Outboxes map[string]Outbox

	// Fleet is the process's membership, whose Status is exposed. Nil means none.
	Fleet *fleet.Member
}

// Metrics is a [gabion.Observer] and a [prometheus.Collector]. Make one with [New]. It is
// safe for concurrent use, and may observe any number of dependencies and registries.
type Metrics struct {
	config Config

	dependencies table[dependency]
	others       *dependency // those past the bound
	hot          [hotSize]atomic.Pointer[operation]
	sets         atomic.Int64          // in use, of all dependencies
	letters      *asked[[]LetterGroup] // nil without a store
	outboxes     map[string]*asked[*Backlog]

	overflow struct{ dependency, operation, code, partition, result, disposition atomic.Uint64 }

	reload struct {
		sync.Mutex
		known   bool
		success bool
		at      time.Time
		hash    string
	}
}

// New returns a Metrics that has counted nothing yet, and observes what the Config has. A negative bound counts as zero.
func New(c Config) *Metrics {
	for _, bound := range []struct {
		value *int
		zero  int
	}{{&c.MaxDependencies, defaultDependencies}, {&c.MaxSets, defaultSets}, {&c.MaxPartitions, defaultPartitions}} {
		if *bound.value <= 0 {
			*bound.value = bound.zero
		}
	}
	m := &Metrics{config: c, outboxes: outboxes(c.Outboxes)}
	if c.Letters != nil {
		m.letters = &asked[[]LetterGroup]{every: lettersEvery, read: func(ctx context.Context) ([]LetterGroup, error) { return c.Letters.Groups(ctx, lettersMost) }}
	}
	m.others = m.newDependency(other)
	if c.Registry != nil {
		c.Registry.Observe(m)
	}
	for _, d := range c.Dependencies {
		d.Observe(m)
	}
	return m
}

// ConfigLoaded notes that the configuration was loaded, or that it could not be, with the
// hash of what is in force now. Programs call it after each load, so that an alert can
// tell that a new file has no effect. An empty hash keeps the one before.
func (m *Metrics) ConfigLoaded(hash string, err error) {
	m.reload.Lock()
	defer m.reload.Unlock()
	m.reload.known, m.reload.success = true, err == nil
	if err == nil {
		m.reload.at = time.Now()
	}
	if hash != "" {
		m.reload.hash = cleanName(hash)
	}
}
